"""``csctl compat``: what it prints, for people and for programs, and how it exits."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from clusterstacks.cli.main import csctl
from clusterstacks.cli.shared import output
from tests.support.builders.releases import METADATA, write_release
from tests.support.builders.tiny_stack import tiny, write

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
    words = [str(argument) for argument in arguments]
    return output.run(lambda: csctl.main(["compat", *words], prog_name="csctl", standalone_mode=False))


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


def test_the_list_tells_the_age_of_the_facts(capsys: pytest.CaptureFixture[str]) -> None:
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


def test_one_component_is_shown_with_its_ranges_and_what_they_mean(capsys: pytest.CaptureFixture[str]) -> None:
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


def test_a_component_nobody_knows_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("show", "cillium") == output.MUST_CHANGE
    assert "no facts about cillium are known: 'csctl compat show' lists" in capsys.readouterr().err


def test_a_release_is_judged_part_by_part(release: Path, capsys: pytest.CaptureFixture[str]) -> None:
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
def test_another_version_is_judged_when_asked_for(
    release: Path, capsys: pytest.CaptureFixture[str], kubernetes: str, code: int, verdicts: list[str]
) -> None:
    assert run("check", release, "--kubernetes", kubernetes, "-o", "json") == code
    (found,) = printed(capsys)["releases"]
    assert found["kubernetes"] == f"v{kubernetes.removeprefix('v')}"
    assert [part["verdict"] for part in found["parts"]] == verdicts
    assert found["parts"][1]["fact"] == "component:cilium@1.19.4:kubernetes"
    assert found["parts"][1]["source"].startswith("https://")


def test_releases_that_contradict_each_other_are_told(
    release: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    stated = STATED.replace("version: 1.19.4", "version: 1.19.4, kubernetes: '>=1.34'")
    files = {"metadata.yaml": METADATA.format(version="v3").encode(), "compatibility.yaml": stated.encode()}
    other = write_release(tmp_path / "local-tiny-1-35-v3", files)

    assert run("check", release, other) == 0
    assert "cilium@1.19.4 has another Kubernetes range in local-tiny-1-35-v3 than in" in capsys.readouterr().err
    assert run("check", release, other, "-o", "json") == 0
    assert len(printed(capsys)["contradictions"]) == 1


def test_a_matrix_shows_what_works_with_what(release: Path, capsys: pytest.CaptureFixture[str]) -> None:
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


def test_newer_facts_count_once_they_are_installed(
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


def test_facts_that_are_older_than_the_built_in_ones_are_installed_with_a_word(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "old.yaml"
    file.write_text(FACTS.replace("DAY", "2026-01-31"))

    assert run("update", file) == 0
    assert "the built-in facts are newer (of 2026-11-20)" in capsys.readouterr().err


def test_facts_that_cannot_be_used_are_not_installed(
    tmp_path: Path, home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "wrong.yaml"
    file.write_text(FACTS)

    assert run("update", file) == output.MUST_CHANGE
    assert f"{file}: sources[0].retrieved is 'DAY': write a day" in capsys.readouterr().err
    assert not home.exists()


def test_a_stack_gets_a_file_that_says_how_to_go_on(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
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
def test_a_command_line_that_makes_no_sense_is_refused(
    arguments: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)

    assert run(*arguments) == output.MUST_CHANGE


@pytest.mark.parametrize(
    ("subjects", "words"),
    [
        (["a/b", "c/d"], "expected either directories or one NAMESPACE/CLUSTER"),
        ([".", "a/b"], "expected either directories or one NAMESPACE/CLUSTER"),
        (["nowhere"], "'nowhere' is neither a directory nor a Cluster (expected for example team-a/prod)"),
        ([".", "--context", "prod"], "--kubeconfig, --context and --releases require NAMESPACE/CLUSTER"),
    ],
)
@pytest.mark.parametrize("verb", ["check", "matrix"])
def test_a_question_is_about_directories_or_one_cluster(
    capsys: pytest.CaptureFixture[str], verb: str, subjects: list[str], words: str
) -> None:
    assert run(verb, *subjects) == output.MUST_CHANGE
    assert words in capsys.readouterr().err


def test_a_directory_that_is_named_like_a_cluster_is_read(
    release: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(release.parent.parent)

    assert run("check", f"{release.parent.name}/{release.name}") == 0
    assert capsys.readouterr().out.startswith("local-tiny-1-35-v2 with Kubernetes v1.35.4")
