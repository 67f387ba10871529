"""Output and exit codes of ``csctl compat``."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from clusterstacks.csctl.shared import output
from clusterstacks.csctl.shared.compat_output import print_matrix
from clusterstacks.model.versions import KubernetesMinor
from clusterstacks.plan.compat.matrices import Cell, Matrix, Row
from clusterstacks.plan.compat.verdicts import Verdict
from tests.support.builders.releases import METADATA, write_release
from tests.support.builders.tiny_stack import tiny, write
from tests.support.running.csctl import call_csctl

if TYPE_CHECKING:
    from pathlib import Path

STATED = """\
apiVersion: compatibility.clusterstack.x-k8s.io/v1alpha1
kubernetes: ">=1.35 <1.37"
components:
- {name: cilium, addon: cni, version: 1.19.4}
- {name: metrics-server, addon: metrics, version: 0.8.0}
- {name: mine, version: 1.0.0}
"""

FACTS = """\
schemaVersion: 1
component: cilium
title: Cilium CNI
category: cni
semantics: Listed minors are tested.
sources:
- {id: page, url: https://cilium.example/matrix, retrieved: 'DAY', authority: upstream}
versions:
- {version: '1.19', kubernetes: '>=1.32 <1.37', kind: tested, source: page}
"""


def run(*arguments: object) -> int:
    return call_csctl("compat", *arguments)


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "home"))
    return tmp_path / "home"


@pytest.fixture
def release(tmp_path: Path) -> Path:
    files = {"metadata.yaml": METADATA.format(version="v2").encode(), "compatibility.yaml": STATED.encode()}
    return write_release(tmp_path / "local-tiny-1-35-v2", files)


def printed(capsys: pytest.CaptureFixture[str]) -> Any:
    return json.loads(capsys.readouterr().out)


def test_list_prints_the_age_of_the_facts(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("show") == 0
    lines = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert ["calico", "Calico", "CNI", "(open", "source)", "2026-11-20", "built", "in"] in lines

    assert run("show", "-o", "json") == 0
    assert {
        "component": "cilium",
        "title": "Cilium CNI",
        "factsOf": "2026-11-20",
        "installed": None,
    } in printed(capsys)


def test_component_is_shown_with_its_ranges_and_their_meaning(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("show", "cilium") == 0
    shown = capsys.readouterr().out
    assert "facts of 2026-11-20" in shown
    assert "Outside of the ranges: untested." in shown
    assert "Upgraded by at most 1 minor at a time and never down" in shown
    (row,) = [line for line in shown.splitlines() if line.startswith("1.18 ")]
    assert row.split()[:5] == ["1.18", ">=1.30", "<1.34", ">=1.21", "tested"]

    assert run("show", "longhorn", "-o", "json") == 0
    document = printed(capsys)
    assert document["outside"] == "incompatible"
    assert document["upgrade"]["since"] == "1.5.0"
    assert {"version", "kubernetes", "kind", "source", "retrieved"} <= document["statements"][0].keys()


def test_unknown_component_is_rejected(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("show", "cillium") == output.MUST_CHANGE
    assert "no facts about cillium are known: 'csctl compat show' lists" in capsys.readouterr().err


def test_check_reports_every_part_of_a_release(release: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("check", release) == 0
    first, *parts = capsys.readouterr().out.splitlines()
    assert first == "local-tiny-1-35-v2 with Kubernetes v1.35.4: unknown"
    assert [line.split()[0] for line in parts] == ["ok", "ok", "ok", "unknown"]
    assert "cilium 1.19.4 is tested with Kubernetes >=1.32 <1.36" in parts[1]
    assert "[addon cni]  https://" in parts[1]


@pytest.mark.parametrize(
    ("kubernetes", "code", "verdicts"),
    [
        ("v1.36.1", 0, ["ok", "untested", "ok", "unknown"]),
        ("1.37.0", output.NEGATIVE, ["incompatible", "untested", "ok", "unknown"]),
    ],
)
def test_check_uses_the_requested_kubernetes_version(
    release: Path, capsys: pytest.CaptureFixture[str], kubernetes: str, code: int, verdicts: list[str]
) -> None:
    assert run("check", release, "--kubernetes", kubernetes, "-o", "json") == code
    (found,) = printed(capsys)["releases"]
    assert found["kubernetes"] == f"v{kubernetes.removeprefix('v')}"
    assert [part["verdict"] for part in found["parts"]] == verdicts
    assert found["parts"][1]["fact"] == "component:cilium@1.19.4:kubernetes"
    assert found["parts"][1]["source"].startswith("https://")


def test_contradicting_releases_are_reported(release: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    stated = STATED.replace("version: 1.19.4", "version: 1.19.4, kubernetes: '>=1.34'")
    files = {"metadata.yaml": METADATA.format(version="v3").encode(), "compatibility.yaml": stated.encode()}
    other = write_release(tmp_path / "local-tiny-1-35-v3", files)

    assert run("check", release, other) == 0
    assert "cilium@1.19.4 has another Kubernetes range in local-tiny-1-35-v3 than in" in capsys.readouterr().err
    assert run("check", release, other, "-o", "json") == 0
    assert len(printed(capsys)["contradictions"]) == 1


def test_matrix_shows_a_verdict_for_every_pair(release: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("matrix", release) == 0
    lines = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert lines == [
        ["KUBERNETES", "1.35", "1.36", "1.37"],
        ["local-tiny-1-35-v2", "unknown", "unknown", "incompatible"],
        ["cilium", "1.19.4", "[addon", "cni]", "ok", "untested", "untested"],
        ["metrics-server", "0.8.0", "[addon", "metrics]", "ok", "ok", "ok"],
        ["mine", "1.0.0", "unknown", "unknown", "unknown"],
    ]

    assert run("matrix", release, "-o", "json") == 0
    document = printed(capsys)
    assert document["kubernetes"] == ["1.35", "1.36", "1.37"]
    assert document["components"][0]["kubernetes"]["1.36"] == {"verdict": "untested", "partly": False}


def test_newer_facts_are_used_after_their_installation(
    release: Path, tmp_path: Path, home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "new.yaml"
    file.write_text(FACTS.replace("DAY", "2026-11-21"))
    place = home / "cluster-stacks/compatibility/cilium.yaml"

    assert run("update", file) == 0
    assert capsys.readouterr().out == f"cilium: facts of 2026-11-21, {place}\n"
    assert run("show", "-o", "json") == 0
    assert str(place) in [one["installed"] for one in printed(capsys)]
    assert run("check", release, "--kubernetes", "v1.36.1", "-o", "json") == 0
    assert printed(capsys)["releases"][0]["parts"][1]["verdict"] == "ok"


def test_facts_older_than_the_built_in_facts_are_installed_with_a_note(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "old.yaml"
    file.write_text(FACTS.replace("DAY", "2026-01-31"))

    assert run("update", file) == 0
    assert "the built-in facts are newer (of 2026-11-20)" in capsys.readouterr().err


def test_invalid_facts_are_not_installed(tmp_path: Path, home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "wrong.yaml"
    file.write_text(FACTS)

    assert run("update", file) == output.MUST_CHANGE
    assert f"{file}: sources[0].retrieved is 'DAY': write a day" in capsys.readouterr().err
    assert not home.exists()


def test_infer_writes_a_file_and_names_the_next_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    root = write(tmp_path / "1-35", tiny())

    assert run("infer", root) == 0
    said = capsys.readouterr()
    assert said.out == f"{root / 'compatibility.yaml'}\n"
    assert "lint" in said.err
    assert run("check", root) == 0
    assert run("infer", root) == output.MUST_CHANGE
    assert run("infer", "--force", root) == 0


@pytest.mark.parametrize(
    "arguments",
    [
        ("check",),
        ("check", "."),
        ("check", ".", "--kubernetes", "1.35"),
        ("matrix",),
        ("update",),
        ("infer", "nowhere"),
    ],
)
def test_invalid_command_line_is_rejected(
    arguments: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)

    assert run(*arguments) == output.MUST_CHANGE


@pytest.mark.parametrize(
    ("subjects", "words"),
    [
        (["a/b", "c/d"], "expected either directories and references or one CLUSTER"),
        ([".", "a/b"], "expected either directories and references or one CLUSTER"),
        (["a/b/c"], "'a/b/c' is not an existing directory, not a release (expected REF:<release name>), and not the"),
        ([".", "--context", "prod"], "--kubeconfig, --context, --namespace and --releases require CLUSTER"),
    ],
)
@pytest.mark.parametrize("verb", ["check", "matrix"])
def test_check_and_matrix_take_directories_or_one_cluster(
    capsys: pytest.CaptureFixture[str], verb: str, subjects: list[str], words: str
) -> None:
    assert run(verb, *subjects) == output.MUST_CHANGE
    assert words in capsys.readouterr().err


@pytest.mark.parametrize("verb", ["check", "matrix"])
def test_mistyped_path_that_reads_like_a_cluster_is_explained(
    capsys: pytest.CaptureFixture[str], verb: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "kubeconfig"))

    assert run(verb, "releases/x") == output.MUST_CHANGE
    said = capsys.readouterr().err
    assert "no directory has the path releases/x, so it was read as the name of a Cluster; correct it for files" in said


def test_directory_named_like_a_cluster_is_read_as_a_directory(
    release: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(release.parent.parent)

    assert run("check", f"{release.parent.name}/{release.name}") == 0
    assert capsys.readouterr().out.startswith("local-tiny-1-35-v2 with Kubernetes v1.35.4")


HOSTILE = "a|b <script>alert(1)</script> \x1b[31m# d"


def test_a_matrix_shows_hostile_names_without_control_characters(capsys: pytest.CaptureFixture[str]) -> None:
    cells = (Cell(Verdict.OK, partly=True), Cell(Verdict.INCOMPATIBLE))
    minors = (KubernetesMinor(1, 35), KubernetesMinor(1, 36))
    matrix = Matrix(minors, (Row((HOSTILE,), "", "", "", cells),), (Row((), "\"'&", HOSTILE, "1.0", cells),))

    print_matrix(matrix, "text")

    header, release, component, hint = capsys.readouterr().out.splitlines()
    assert header.split() == ["KUBERNETES", "1.35", "1.36"]
    assert release.split("   ")[0] == r"a|b <script>alert(1)</script> \x1b[31m# d"
    assert component.split()[-2:] == ["ok*", "incompatible"]
    assert "[addon \"'&]" in component
    assert hint.startswith("* not with every patch")


def test_community_data_is_installed_beside_the_built_in_facts(
    tmp_path: Path, home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    row = "versions: [{version: 1.2.3, kube: ['1.35']}]"
    for name, content in (("cilium", row), ("mine", row), ("manifest", "names: [mine]")):
        (tmp_path / f"{name}.yaml").write_text(content)

    assert run("import", "plural", tmp_path) == 0

    assert [file.name for file in home.rglob("*.yaml")] == ["mine.yaml"]
    out, err = capsys.readouterr()
    assert out.startswith("mine: 1 statements, ")
    assert "cilium: skipped" in err
    assert run("show", "mine") == 0
    assert "community" in capsys.readouterr().out
