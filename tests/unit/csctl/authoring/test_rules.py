"""Lint rules that need no rendering: the smallest stack that violates each."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from clusterstacks.csctl.authoring.findings import split_message
from clusterstacks.csctl.authoring.linter import RULES, apply_rules
from clusterstacks.csctl.authoring.stack import load_stack
from tests.support.builders.tiny_stack import SETTINGS, STAGES, tiny

if TYPE_CHECKING:
    from clusterstacks.csctl.authoring.findings import LintFinding

NAMED = "cluster-class/Chart.yaml"
CHART = "apiVersion: v2\nname: {}\nversion: {}\n"
NET = "cluster-addon/net/Chart.yaml"
NEEDY = """\
apiVersion: v2
name: net
version: 1.0.0
dependencies:
  - name: cilium
    version: 1.18.2
    repository: https://charts.example
"""
VENDORED = "apiVersion: v2\nname: cilium\nversion: 1.18.2\n"
STACK = "provider: test\nclusterStackName: tiny\nkubernetesVersion: 1.35.4\n"
FACTS = "apiVersion: compatibility.clusterstack.x-k8s.io/v1alpha1\nkubernetes: '>=1.34 <1.37'\ncomponents:\n"
COMPONENT = "  - {{name: {0}, addon: {0}, version: 1.0.0, kubernetes: '>=1.30'}}\n"
OPENSTACK = SETTINGS.replace("type: test", "type: openstack")
IMAGES = "apiVersion: openstack.infrastructure.clusterstack.x-k8s.io/v1alpha1\nopenStackNodeImages:\n"
NAMED_IMAGE = """\
  - url: https://images.example.org/node.qcow2
    createOpts: {{disk_format: qcow2, container_format: bare, name: {}}}
"""
PLACE = "https://images.example.org/"
CHECKED = f"    checksum: sha256:{'0' * 64}\n"


class Case(NamedTuple):
    rule: str
    place: str
    changes: dict[str, str | None]


def image_case(rule: str, line: int, images: str) -> Case:
    return Case(rule, f"node-images/config.yaml:{line}", {"csctl.yaml": OPENSTACK, "node-images/config.yaml": images})


CASES = (
    Case("settings", "csctl.yaml:1", {"csctl.yaml": None}),
    Case("settings", "csctl.yaml:3", {"csctl.yaml": SETTINGS.replace("tiny", "ti--ny")}),
    Case("settings", "csctl.yaml:2", {"csctl.yaml": SETTINGS.replace("v1.35.4", "v1.35")}),
    Case("settings", "csctl.yaml:6", {"csctl.yaml": SETTINGS.replace("    type: test", "    type: a\n    type: b")}),
    Case("addon-versions", "stack.yaml:1", {"stack.yaml": f"{STACK}addons: {{nothere: 1.0.0}}\n"}),
    Case("chart-name", f"{NAMED}:2", {NAMED: CHART.format("test-tiny-1-34-cluster-class", "v1")}),
    Case("chart-version", f"{NAMED}:1", {NAMED: "apiVersion: v2\nname: test-tiny-1-35-cluster-class\n"}),
    Case(
        "left-version",
        "cluster-class/values.yaml:1",
        {"versions.yaml": "- kubernetes: 1.34.5\n", "cluster-class/values.yaml": "image: v1.35.4\n"},
    ),
    Case("idle-version", "csctl.yaml:2", {"versions.yaml": "- kubernetes: 1.35.5\n"}),
    Case("idle-version", "versions.yaml:2", {"versions.yaml": "- kubernetes: 1.35.4\n  ubuntu: '2404'\n"}),
    Case("directory-name", "csctl.yaml:2", {"csctl.yaml": SETTINGS.replace("1.35.4", "1.34.1")}),
    Case("files", f"{NAMED}:1", {NAMED: None}),
    Case("files", "clusteraddon.yaml:1", {"clusteraddon.yaml": None}),
    Case("files", "cluster-addon/Chart.yaml:1", {"clusteraddon.yaml": None, "cluster-addon-values.yaml": ""}),
    Case("file-names", "a\\b:1", {"a\\b": ""}),
    Case("file-names", "cluster-class/a\x1bb:1", {"cluster-class/a\x1bb": ""}),
    Case("stale-values", "cluster-addon-values.yaml:1", {"cluster-addon-values.yaml": ""}),
    Case("unknown-tag", "a.sh:2", {"a.sh": "cat << EOF\n<< .ClusterStackVersion >>\n"}),
    Case("stages", "clusteraddon.yaml:5", {"clusteraddon.yaml": STAGES.replace("apply", "aply")}),
    Case("stages", "clusteraddon.yaml:2", {"clusteraddon.yaml": "a: 1\naddonStages: [net]\n"}),
    Case("stages", "clusteraddon.yaml:6", {"clusteraddon.yaml": f"{STAGES[: STAGES.index('      wait')]}    - 1\n"}),
    Case("unknown-hook", "clusteraddon.yaml:3", {"clusteraddon.yaml": STAGES.replace("AfterC", "After")}),
    Case(
        "stage-chart", "clusteraddon.yaml:4", {"clusteraddon.yaml": STAGES.replace("name: net\n", "name: other\n", 1)}
    ),
    Case(
        "chart-stage",
        "cluster-addon/more/Chart.yaml:1",
        {"cluster-addon/more/Chart.yaml": CHART.format("more", "1.0.0")},
    ),
    Case(
        "contrary-stage",
        "clusteraddon.yaml:10",
        {"clusteraddon.yaml": f"{STAGES}    - {{name: net, action: delete}}\n"},
    ),
    Case(
        "unknown-key", "cluster-addon/net/overwrite.yaml:1", {"cluster-addon/net/overwrite.yaml": "valeus: |\n  a: 1\n"}
    ),
    Case(
        "unknown-key",
        "cluster-addon/net/overwrite.yaml:3",
        {"cluster-addon/net/overwrite.yaml": "values: |\n  a: 1\nmore: |\n  b: 1\n"},
    ),
    Case("editor-file", "a.orig:1", {"a.orig": ""}),
    Case("line-ends", "a.yaml:1", {"a.yaml": "a: 1\r\n"}),
    Case("private-key", "a.pem:1", {"a.pem": "-----BEGIN PRIVATE KEY-----\n"}),
    Case(
        "placeholder",
        "cluster-class/templates/a.yaml:3",
        {"cluster-class/templates/a.yaml": "# To be filled in\na:\n  spec: {}\n"},
    ),
    Case("dependency-unlocked", f"{NET}:5", {NET: NEEDY.replace("1.18.2", "1.18.x")}),
    Case("dependency-unvendored", f"{NET}:5", {NET: NEEDY}),
    Case("dependencies", f"{NET}:5", {NET: NEEDY, "cluster-addon/net/Chart.lock": "digest: sha256:0\n"}),
    Case("dependencies", f"{NET}:5", {NET: NEEDY.replace("1.18.2", "new")}),
    Case("chart-kubernetes", f"{NET}:4", {NET: f"{CHART.format('net', '1.0.0')}kubeVersion: '<1.35.0-0'\n"}),
    Case(
        "chart-kubernetes",
        f"{NET}:5",
        {NET: NEEDY, "cluster-addon/net/charts/cilium/Chart.yaml": f"{VENDORED}kubeVersion: '>=1.36'\n"},
    ),
    Case("node-images", "node-images.yaml:1", {"node-images.yaml": "apiVersion: v1\n"}),
    image_case("node-images", 7, f"{IMAGES}{NAMED_IMAGE.format('Node')}{CHECKED}{NAMED_IMAGE.format('node')}"),
    image_case("node-images", 5, f"{IMAGES}{NAMED_IMAGE.format('node')}    checksum: sha256:abc\n"),
    image_case("node-images", 3, f"{IMAGES}{NAMED_IMAGE.format('node').replace('https', 'http')}"),
    image_case("node-images", 3, f"{IMAGES}{NAMED_IMAGE.format('node').replace(PLACE, 'artifact:../')}"),
    image_case("image-checksum", 3, f"{IMAGES}{NAMED_IMAGE.format('node')}"),
    image_case("image-field", 4, f"{IMAGES}{NAMED_IMAGE.format('node, os_hidden: true')}{CHECKED}"),
    Case("compatibility", "compatibility.yaml:2", {"compatibility.yaml": FACTS.replace(">=1.34 <1.37", "new")}),
    Case("compatibility-addons", "compatibility.yaml:1", {"compatibility.yaml": FACTS}),
    Case(
        "compatibility-addons",
        "compatibility.yaml:1",
        {"compatibility.yaml": FACTS + COMPONENT.format("net") + COMPONENT.format("csi")},
    ),
    Case(
        "compatibility-kubernetes",
        "compatibility.yaml:2",
        {"compatibility.yaml": FACTS.replace("1.34 ", "1.36 ") + COMPONENT.format("net")},
    ),
    Case(
        "compatibility-name",
        "compatibility.yaml:4",
        {"compatibility.yaml": f"{FACTS}  - {{name: cillium, addon: net, version: 1.18.2}}\n"},
    ),
    Case(
        "compatibility-name",
        "compatibility.yaml:4",
        {"compatibility.yaml": FACTS + COMPONENT.format("net").replace("}\n", ", requires: {cillium: '>=1.18'}}\n")},
    ),
    Case(
        "compatibility-version",
        "compatibility.yaml:5",
        {
            NET: NEEDY,
            "cluster-addon/net/charts/cilium/Chart.yaml": f"{VENDORED}appVersion: 1.18.3\n",
            "compatibility.yaml": f"{FACTS}  - name: cilium\n    version: 1.18.2\n    addon: net\n",
        },
    ),
)


def found(files: dict[str, bytes]) -> tuple[LintFinding, ...]:
    return apply_rules(load_stack(files, "providers/test/tiny/1-35", listed=True))


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case.rule} {case.place}")
def test_rule_violation_is_reported_with_its_line(case: Case) -> None:
    places = [f"{one.problem.path}:{one.problem.line}" for one in found(tiny(case.changes)) if one.rule == case.rule]

    assert places == [case.place]


def test_unchanged_stack_violates_no_rule() -> None:
    assert found(tiny()) == ()
    assert found(tiny({"compatibility.yaml": FACTS + COMPONENT.format("net")})) == ()
    assert found(tiny({NET: NEEDY, "cluster-addon/net/charts/cilium/Chart.yaml": VENDORED})) == ()
    file = image_case("", 0, f"{IMAGES}{NAMED_IMAGE.format('node').replace(PLACE, 'artifact:')}")
    assert {one.rule for one in found(tiny(file.changes))}.isdisjoint({"node-images", "image-checksum"})


def test_every_finding_has_a_remedy() -> None:
    problems = [one.problem for case in CASES for one in found(tiny(case.changes))]

    assert len(problems) >= len(CASES)
    assert all(problem.message and problem.remedy for problem in problems)


def test_all_bad_stages_are_found_at_once() -> None:
    stages = STAGES + "    - {name: Net, action: apply}\n    - {name: net, action: remove}\n"
    lines = [one.problem.line for one in found(tiny({"clusteraddon.yaml": stages})) if one.rule == "stages"]

    assert lines == [10, 11]


def test_all_unknown_tags_of_a_file_are_found_at_once() -> None:
    problems = [
        one.problem for one in found(tiny({"a: line 7": "<< .A >>\n<< .ClusterClassVersion >><< .B >>\n<< .A >>\n"}))
    ]

    assert [(problem.line, problem.message.split(" is ")[0]) for problem in problems] == [
        (1, "<< .A >>"),
        (2, "<< .B >>"),
        (3, "<< .A >>"),
    ]


@pytest.mark.parametrize(
    "slip",
    [
        "<< .ClusterClassVersion",
        "<<.ClusterClassVersion>>",
        "<< ClusterClassVersion >>",
        "<< .ClusterClassVersion>>",
        "<<  .NodeImageVersion >",
    ],
)
def test_misspelt_tag_is_found(slip: str) -> None:
    text = f"a: 1\nb: {slip}\nc: << .ClusterAddonVersion >>\n"
    problems = [one.problem for one in found(tiny({"notes": text})) if one.rule == "unknown-tag"]

    assert [(problem.line, problem.message) for problem in problems] == [(2, f"{slip} is not a tag")]


def test_text_similar_to_a_tag_is_not_reported() -> None:
    text = "cat << EOF\nx <<.ClusterClassVersions>>\n<<-NodeImageVersion\n"

    assert not [one for one in found(tiny({"notes": text})) if one.rule == "unknown-tag"]


def test_rule_ids_are_unique() -> None:
    assert len({rule.id for rule in RULES}) == len(RULES)


PATHS = st.sampled_from(
    [*tiny(), "stack.yaml", "versions.yaml", "compatibility.yaml", "node-images.yaml", "cluster-addon-values.yaml", "x"]
)
WORDS = st.sampled_from(
    [b"config:", b"\n", b"  ", b"- ", b"&a ", b"*a", b"<< .X >>", b"{{", b"name: ", b"1", b"[", b"\xff"]
)
CONTENTS = st.binary(max_size=40) | st.lists(WORDS, max_size=12).map(b"".join)


@settings(max_examples=300, deadline=None)
@given(st.dictionaries(PATHS, CONTENTS, max_size=4))
def test_arbitrary_files_give_findings(changes: dict[str, bytes]) -> None:
    for finding in apply_rules(load_stack({**tiny(), **changes}, "1-35")):
        assert finding.problem.line >= 1


@pytest.mark.parametrize(
    ("message", "problem", "remedy"),
    [
        ("f.yaml, line 6: key 'type' is a duplicate", "key 'type' is a duplicate", ""),
        ("f.yaml: name is 'a-b': use letters: no dashes", "name is 'a-b'", "use letters: no dashes"),
        ("f.yaml is missing: add it", "is missing", "add it"),
        ("f.yaml: range: 'new' is no range: write >=1.34", "range: 'new' is no range", "write >=1.34"),
    ],
)
def test_error_message_is_split_into_problem_and_remedy(message: str, problem: str, remedy: str) -> None:
    assert split_message(message, "f.yaml") == (problem, remedy)
