"""Lint rules that need rendering: the smallest stack that violates each."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from clusterstacks.csctl.authoring.example_objects import read_example_objects
from clusterstacks.csctl.authoring.findings import LintSeverity
from clusterstacks.csctl.authoring.linter import BEFORE_BUILD, RULES, Linter
from clusterstacks.csctl.building.source_tree import read_tree
from clusterstacks.csctl.verbs.create import _check_sources
from clusterstacks.deliver.render.renderer import Renderer
from clusterstacks.model.errors import SpecError
from clusterstacks.net.http.client import HTTPClient
from clusterstacks.release.charts.vendor import ChartDependencies
from tests.support.builders.tiny_stack import CLASS, DEPLOYMENT, STAGES, TEMPLATE, tiny
from tests.unit.csctl.authoring.test_rules import CASES as SOURCE_CASES
from tests.unit.csctl.authoring.test_rules import Case as SourceCase

if TYPE_CHECKING:
    from clusterstacks.csctl.authoring.findings import LintFinding

pytestmark = pytest.mark.asyncio(loop_scope="module")

EXAMPLES = Path(__file__).parents[3] / "examples" / "stacks" / "local" / "demo"

CLASS_FILE = "cluster-class/templates/class.yaml"
TEMPLATE_FILE = "cluster-class/templates/template.yaml"
NET = "cluster-addon/net/templates/deployment.yaml"
NET_CHART = "cluster-addon/net/Chart.yaml"
MORE = "cluster-addon/net/templates/more.yaml"
OVERWRITE = "cluster-addon/net/overwrite.yaml"
CONFIG = "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: {}\n"
HOOKED = CONFIG.format("more") + "  annotations: {{helm.sh/hook: {}}}\n"
HEALTH = f"{STAGES}health:\n- kind: Widget.example.org\n"
WIDGET = """\
apiVersion: example.org/v1
kind: Widget
metadata:
  name: a
  annotations:
    clusterstack.x-k8s.io/health: {}
"""
SLICE = "apiVersion: discovery.k8s.io/{}\nkind: EndpointSlice\nmetadata:\n  name: a\n"
ATTRIBUTES = """\
{{- $old := semverCompare ">=1.35-0" .Capabilities.KubeVersion.Version }}
apiVersion: storage.k8s.io/{{ $old | ternary "v1alpha1" "v1" }}
kind: VolumeAttributesClass
metadata: {name: a}
"""
READING = """\
size: {{ (index .Cluster.spec.topology.variables 0).value }}
kind: {{ .InfraCluster.kind }}
flavour: {{ .InfraCluster.spec.flavour }}
"""
ENABLED_IF = '    - name: size\n      enabledIf: "{{ not .size }}"\n      def'
PORT = "{containerPort: 80}"
SERVICE = "apiVersion: v1\nkind: Service\nmetadata:\n  namespace: kube-system\n  name: a\nspec: {"
LOOKED_UP = '"v1" "Secret" "kube-system" "a"'
GUARDED = """
apiVersion: v1
kind: Secret
metadata: {name: a}
stringData: {key: {{ if $old }}old{{ else }}{{ randAlphaNum 9 }}{{ end }}}
"""
SECRET = "apiVersion: v1\nkind: Secret\nmetadata:\n  name: a\nstringData:\n  key: hunter2\n"


RANGED = """\
apiVersion: compatibility.clusterstack.x-k8s.io/v1alpha1
kubernetes: '>=1.34 <1.37'
components:
- {name: net, addon: net, version: 1.0.0, kubernetes: '>=1.30'}
"""


class Case(NamedTuple):
    rule: str
    place: str
    changes: dict[str, str | None]


IMAGE_FILE = "cluster-class/templates/image.yaml"
IMAGE = """apiVersion: openstack.k-orc.cloud/v1alpha1
kind: Image
metadata:
  name: {}
spec:
  resource:
    content:
      download:
        url: http://images.example.org/node.qcow2
"""
HASH = "        hash: {{algorithm: {}, value: {}}}\n"

CASES = (
    Case("chart-renders", f"{NET}:2", {NET: 'a: 1\n{{ include "nothing" . }}\n'}),
    Case("chart-renders", f"{NET}:1", {NET: "{{ if }}\n"}),
    Case("chart-renders", f"{NET}:1", {NET: "apiVersion: v1\nkind: ConfigMap\nmetadata: {}\n"}),
    Case("chart-renders", f"{NET}:1", {NET: "a: b: c\n"}),
    Case("chart-renders", "cluster-addon/net/Chart.yaml:1", {"cluster-addon/net/Chart.yaml": "name: net\n"}),
    Case("chart-renders", "cluster-addon/net/values.yaml:2", {"cluster-addon/net/values.yaml": "a: 1\nb: c: d\n"}),
    Case("chart-renders", "cluster-class/Chart.yaml:1", {"cluster-class/Chart.yaml": "a: b: c\n"}),
    Case("values-render", f"{OVERWRITE}:2", {OVERWRITE: "values: |\n  a: {{ .Cluster.metadata.nothing }}\n"}),
    Case("values-render", f"{OVERWRITE}:1", {OVERWRITE: "- 1\n"}),
    Case("helm-hook", f"{MORE}:4", {MORE: HOOKED.format("pre-delete")}),
    Case("helm-hook", f"{MORE}:4", {MORE: HOOKED.format("post-install")}),
    Case("repeated-key", f"{MORE}:7", {MORE: f"{CONFIG.format('more')}data:\n  a: b\n  a: c\n"}),
    Case("condition", "clusteraddon.yaml:9", {"clusteraddon.yaml": STAGES.replace("agent.status", "agnt.status")}),
    Case("condition", "clusteraddon.yaml:9", {"clusteraddon.yaml": STAGES.replace("> 0", ">")}),
    Case("condition", "clusteraddon.yaml:12", {"clusteraddon.yaml": f"{HEALTH}  current: status.done\n"}),
    Case("condition", "clusteraddon.yaml:13", {"clusteraddon.yaml": f"{HEALTH}  current: 'true'\n  failed: self =\n"}),
    Case("stages", "clusteraddon.yaml:11", {"clusteraddon.yaml": f"{HEALTH}  failed: 'true'\n"}),
    Case("unknown-key", "clusteraddon.yaml:13", {"clusteraddon.yaml": f"{HEALTH}  current: 'true'\n  ready: 'true'\n"}),
    Case("condition", f"{MORE}:6", {MORE: WIDGET.format("status.phase == 'Ready'")}),
    Case("condition", f"{MORE}:6", {MORE: WIDGET.format(f"self.name == '{'a' * 2048}'")}),
    Case(
        "class-kind", "cluster-class/templates/more.yaml:4", {"cluster-class/templates/more.yaml": CONFIG.format("a")}
    ),
    Case(
        "class-kind",
        f"{TEMPLATE_FILE}:2",
        {TEMPLATE_FILE: TEMPLATE.replace("metadata:\n", "metadata:\n  namespace: elsewhere\n")},
    ),
    Case(
        "class-extra-kind",
        "cluster-class/templates/more.yaml:4",
        {"cluster-class/templates/more.yaml": "apiVersion: a.example/v1\nkind: OtherTemplate\nmetadata:\n  name: a\n"},
    ),
    Case("image-hash", f"{IMAGE_FILE}:9", {IMAGE_FILE: IMAGE.format("node")}),
    Case("image-hash", f"{IMAGE_FILE}:10", {IMAGE_FILE: IMAGE.format("node") + HASH.format("sha256", "ab")}),
    Case("image-hash", f"{IMAGE_FILE}:10", {IMAGE_FILE: IMAGE.format("node") + HASH.format("crc32", "ab" * 32)}),
    Case(
        "image-name",
        "cluster-class/templates/more.yaml:7",
        {
            IMAGE_FILE: IMAGE.format("node") + HASH.format("sha256", "ab" * 32),
            "cluster-class/templates/more.yaml": IMAGE.format("other").replace(
                "resource:", "resource:\n    name: node", 1
            )
            + HASH.format("sha256", "ab" * 32),
        },
    ),
    Case("class-name", f"{CLASS_FILE}:2", {CLASS_FILE: CLASS.replace("name: {{ .Release.Name }}-", "name: my-", 1)}),
    Case("class-name", "cluster-class/Chart.yaml:1", {CLASS_FILE: None}),
    Case("class-reference", f"{CLASS_FILE}:2", {TEMPLATE_FILE: None}),
    Case(
        "patch-target",
        f"{CLASS_FILE}:21",
        {CLASS_FILE: CLASS.replace("TinyClusterTemplate\n            match", "TinyTemplate\n            match")},
    ),
    Case("patch-variable", f"{CLASS_FILE}:24", {CLASS_FILE: CLASS.replace("variable: size", "variable: sizes.small")}),
    Case(
        "fixed-version",
        f"{TEMPLATE_FILE}:7",
        {TEMPLATE_FILE: TEMPLATE.replace("plain", "image-v1.35.4"), "compatibility.yaml": RANGED},
    ),
    Case(
        "passed-version",
        f"{CLASS_FILE}:6",
        {
            CLASS_FILE: CLASS.replace("spec:\n", "spec:\n  kubernetesVersions: [v1.34.2, v1.36.3]\n", 1),
            "compatibility.yaml": RANGED,
        },
    ),
    Case(
        "repeated-object",
        f"{MORE}:5",
        {MORE: DEPLOYMENT.replace("metadata:\n", "metadata:\n  namespace: kube-system\n", 1)},
    ),
    Case(
        "repeated-object",
        "cluster-addon/two/templates/a.yaml:4",
        {
            "cluster-addon/two/Chart.yaml": "apiVersion: v2\nname: two\nversion: 1.0.0\n",
            "cluster-addon/two/templates/a.yaml": CONFIG.format("same"),
            "cluster-addon/one/Chart.yaml": "apiVersion: v2\nname: one\nversion: 1.0.0\n",
            "cluster-addon/one/templates/a.yaml": CONFIG.format("same"),
        },
    ),
    Case("namespace", f"{MORE}:5", {MORE: CONFIG.format("more").replace("  name", "  namespace: far\n  name")}),
    Case("removed-api", f"{MORE}:4", {MORE: SLICE.format("v1beta1")}),
    Case(
        "leaving-api",
        f"{MORE}:4",
        {MORE: "apiVersion: scheduling.k8s.io/v1alpha1\nkind: Workload\nmetadata:\n  name: a\n"},
    ),
    Case(
        "object-policy",
        f"{MORE}:6",
        {MORE: CONFIG.format("more") + "  annotations:\n    clusterstack.x-k8s.io/recreate: always\n"},
    ),
    Case("class-template", f"{CLASS_FILE}:18", {CLASS_FILE: CLASS.replace("    - name: size\n      def", ENABLED_IF)}),
    Case("repeated-item", f"{NET}:4", {NET: f"{DEPLOYMENT}          env: [{{name: A}}, {{name: A, value: b}}]\n"}),
    Case("repeated-item", f"{NET}:4", {NET: f"{DEPLOYMENT}          ports: [{PORT}, {PORT[:-1]}, protocol: TCP}}]\n"}),
    Case("repeated-item", f"{MORE}:5", {MORE: f"{SERVICE}ports: [{{name: a, port: 80}}, {{name: b, port: 80}}]}}\n"}),
    Case("random-value", f"{MORE}:4", {MORE: f"{SECRET.replace('hunter2', '{{ randAlphaNum 9 }}')}"}),
    Case("random-value", f"{MORE}:4", {MORE: SECRET.replace("hunter2", "id-{{ uuidv4 }}")}),
    Case("random-value", f"{MORE}:4", {MORE: f"{{{{ $old := lookup {LOOKED_UP} }}}}{GUARDED}"}),
    Case("health-kind", "clusteraddon.yaml:11", {"clusteraddon.yaml": f"{HEALTH}  current: 'true'\n"}),
    Case(
        "condition",
        "clusteraddon.yaml:9",
        {"clusteraddon.yaml": STAGES.replace("agent.status.readyReplicas > 0", "'yes'")},
    ),
    Case("condition", "clusteraddon.yaml:9", {"clusteraddon.yaml": STAGES.replace("Replicas > 0", "Replicas + 1")}),
    Case("image-digest", f"{NET}:14", {NET: DEPLOYMENT.replace("registry.example/tiny@sha256:", "tiny:1.0#")}),
)


async def found(renderer: Renderer, changes: dict[str, str | None]) -> tuple[LintFinding, ...]:
    return (await Linter(renderer, listed=True).lint(tiny(changes), "1-35")).findings


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case.rule} {case.place}")
async def test_rule_violation_is_reported_with_its_line(renderer: Renderer, case: Case) -> None:
    places = [
        f"{one.problem.path}:{one.problem.line}" for one in await found(renderer, case.changes) if one.rule == case.rule
    ]

    assert places == [case.place]


async def test_unchanged_stack_violates_no_rule(renderer: Renderer) -> None:
    assert await found(renderer, {}) == ()


@pytest.mark.parametrize("minor", ["1-35", "1-36"])
async def test_example_stack_has_only_warnings_about_placeholder_images(renderer: Renderer, minor: str) -> None:
    directory = EXAMPLES / minor
    report = await Linter(renderer).lint(read_tree(directory), str(directory))

    assert report.clean
    assert {one.rule for one in report.findings} == {"image-digest"}


async def test_stack_for_several_kubernetes_versions_is_checked_for_each(renderer: Renderer) -> None:
    both = "- kubernetes: 1.34.2\n- kubernetes: 1.35.4\n"
    changes: dict[str, str | None] = {"versions.yaml": both, MORE: ATTRIBUTES}

    assert [one.rule for one in await found(renderer, changes)] == ["removed-api"]


async def test_values_are_rendered_with_the_objects_of_a_file(renderer: Renderer) -> None:
    changes: dict[str, str | None] = {OVERWRITE: "cluster: {{ .InfraCluster.status.network.id }}\n"}
    examples = read_example_objects(
        b"{apiVersion: cluster.x-k8s.io/v1beta2, kind: Cluster, metadata: {name: a}}\n---\n"
        b"{apiVersion: infrastructure.cluster.x-k8s.io/v1, kind: TinyCluster, status: {network: {id: n}}}\n",
        "roots.yaml",
    )

    assert [one.rule for one in await found(renderer, changes)] == ["values-render"]
    assert (await Linter(renderer, examples).lint(tiny(changes), "1-35")).findings == ()


async def test_example_cluster_has_the_variable_defaults_of_the_class(renderer: Renderer) -> None:

    assert await found(renderer, {OVERWRITE: f"{READING}cluster: a\n"}) == ()


async def test_findings_do_not_contain_secret_data(renderer: Renderer) -> None:
    changes: dict[str, str | None] = {MORE: f"{SECRET}---\n{SECRET}  other: hunter3\n  other: hunter4\n"}
    findings = await found(renderer, changes)

    assert {one.rule for one in findings} == {"repeated-key", "repeated-object"}
    assert "hunter" not in str(findings)


SHARED = "apiVersion: v2\nname: shared\nversion: 1.0.0\n"
NEEDY = """\
apiVersion: v2
name: net
version: 1.0.0
dependencies:
  - name: shared
    version: 1.0.0
    repository: {}
"""


SINGLE: dict[str, str | None] = {
    **{path: None for path in tiny() if path.startswith("cluster-addon") or path == "clusteraddon.yaml"},
    "cluster-addon/Chart.yaml": "apiVersion: v2\nname: addons\nversion: << .ClusterAddonVersion >>\n",
    "cluster-addon/templates/deployment.yaml": DEPLOYMENT,
    "cluster-addon-values.yaml": "values: |\n  cluster: {{ .Cluster.metadata.name }}\n",
}


async def test_single_chart_layout_is_checked(renderer: Renderer) -> None:
    values = {"cluster-addon-values.yaml": "values: |\n  cluster: {{ .Cluster.metadata.title }}\n"}

    assert await found(renderer, SINGLE) == ()
    assert [(one.rule, one.problem.path, one.problem.line) for one in await found(renderer, {**SINGLE, **values})] == [
        ("values-render", "cluster-addon-values.yaml", 2)
    ]


async def test_chart_with_missing_dependencies_is_skipped_without_a_render_error(renderer: Renderer) -> None:
    findings = await found(renderer, {NET_CHART: NEEDY.format("https://charts.example"), NET: "{{ if }}"})

    assert [(one.rule, one.severity) for one in findings] == [("dependency-unvendored", LintSeverity.WARNING)]


async def test_namespace_of_another_addon_exists(renderer: Renderer) -> None:
    changes: dict[str, str | None] = {
        MORE: CONFIG.format("more").replace("  name", "  namespace: far\n  name"),
        NET: "apiVersion: v1\nkind: Namespace\nmetadata:\n  name: far\n",
    }

    assert await found(renderer, changes) == ()


async def test_chart_dependencies_are_added_before_the_check(renderer: Renderer) -> None:
    changes = {
        NET_CHART: NEEDY.format("file://../../shared"),
        "shared/Chart.yaml": SHARED,
        "shared/templates/a.yaml": DEPLOYMENT.replace("@sha256", "#sha256").replace("name: net", "name: shared"),
    }
    async with HTTPClient() as web:
        linter = Linter(renderer, dependencies=ChartDependencies(web, None, offline=True))
        findings = (await linter.lint(tiny(changes), "1-35")).findings

    assert [(one.rule, one.problem.path) for one in findings] == [("image-digest", NET_CHART)]


async def test_unavailable_dependency_is_an_error(renderer: Renderer) -> None:
    async with HTTPClient() as web:
        linter = Linter(renderer, dependencies=ChartDependencies(web, None, offline=True))
        report = await linter.lint(tiny({NET_CHART: NEEDY.format("https://charts.example")}), "1-35")

    assert [(one.rule, one.problem.line) for one in report.findings] == [("dependency-missing", 5)]
    assert "charts.example" in report.findings[0].problem.message


PATHS = st.sampled_from([*tiny(), "cluster-addon/net/values.yaml", "cluster-addon/net/.helmignore", MORE])
WORDS = st.sampled_from(
    [
        b"a: ",
        b"\n",
        b"  ",
        b"- ",
        b"{{ ",
        b" }}",
        b".Values",
        b"name: ",
        b"1",
        b"[",
        b"\xff",
        b"\x00",
        b'"\\ud800"',
        b"{}",
        b"kind: X\n",
    ]
)
CONTENTS = st.binary(max_size=40) | st.lists(WORDS, max_size=12).map(b"".join)


async def test_lint_of_arbitrary_files_does_not_raise() -> None:
    """Hypothesis calls from outside of the event loop, so the property runs in a thread with loops of its own."""
    await asyncio.to_thread(check_whatever_the_files_hold)


def check_whatever_the_files_hold() -> None:
    with asyncio.Runner() as runner:
        renderer = Renderer(workers=1)

        @settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])
        @given(st.dictionaries(PATHS, CONTENTS, min_size=1, max_size=3))
        def holds(changes: dict[str, bytes]) -> None:
            report = runner.run(Linter(renderer).lint({**tiny(), **changes}, "1-35"))
            assert all(one.problem.line >= 1 for one in report.findings)

        try:
            holds()
        finally:
            runner.run(renderer.close())


@pytest.mark.regression("CASE-06")
@pytest.mark.regression("CASE-10")
@pytest.mark.regression("CASE-19")
@pytest.mark.regression("CASE-20")
@pytest.mark.regression("CASE-30")
@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({CLASS_FILE: CLASS.replace("    - name: size\n      def", ENABLED_IF)}, "escape it: {{ `{{ .size }}` }}"),
        (
            {CLASS_FILE: CLASS.replace("    - name: size\n      def", ENABLED_IF.replace(".size", ".builtin.a.b"))},
            "escape it: {{ `{{ .builtin.a.b }}` }}",
        ),
        ({MORE: SECRET.replace("hunter2", "{{ randAlphaNum 9 }}")}, "turn it off by a value"),
        ({NET: f"{DEPLOYMENT}          env: [{{name: A}}, {{name: A, value: b}}]\n"}, "two items with name A"),
        ({"cluster-addon/net/.helmignore": "*\n!templates\n"}, "correct .helmignore"),
        ({"cluster-addon/net/.helmignore": "Chart.*\n"}, "correct .helmignore"),
        (
            {"cluster-addon/net/values.schema.json": '{"properties": {"cluster": {"type": "integer"}}}'},
            "correct values.yaml or the values template",
        ),
    ],
)
async def test_finding_names_the_remedy(renderer: Renderer, changes: dict[str, str | None], words: str) -> None:
    findings = await found(renderer, changes)

    assert [one for one in findings if words in f"{one.problem.message}; {one.problem.remedy}"]
    assert LintSeverity.ERROR in {one.severity for one in findings}


OF_CREATE = {rule.id for rule in BEFORE_BUILD}
BEFORE_RENDERING = [one for one in (*SOURCE_CASES, *CASES) if one.rule in OF_CREATE and not one.place.startswith(MORE)]
"""Only ``csctl lint`` sees expressions in annotations of rendered objects."""
ELSEWHERE = {"dependency-missing", "server", "not-utf8", "file-size", "value-unset"}
"""Rules that need a server, bytes or several values; other tests violate them."""


@pytest.mark.regression("LV-1")
@pytest.mark.parametrize("case", BEFORE_RENDERING)
async def test_rule_that_create_applies_refuses_a_release_with_strict(case: Case | SourceCase) -> None:
    with pytest.raises(SpecError, match=re.escape(f"1-35/{case.place}: ")):
        await _check_sources({"1-35": tiny(case.changes)}, strict=True)


@pytest.mark.regression("LV-1")
async def test_every_rule_has_a_case() -> None:
    assert {rule.id for rule in RULES} - {one.rule for one in (*SOURCE_CASES, *CASES)} == ELSEWHERE
