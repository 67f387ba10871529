"""Output and exit codes of ``csctl plan`` and ``csctl why``."""

from __future__ import annotations

import json
from random import Random
from typing import TYPE_CHECKING

import pytest

from benchmarks.worlds import Size, all_coupled
from clusterstacks.csctl.shared import output
from clusterstacks.model import yaml
from clusterstacks.model.files.compatibility import API_VERSION, write_compatibility
from tests.support.running.csctl import call_csctl

if TYPE_CHECKING:
    from pathlib import Path

STATED = """\
apiVersion: compatibility.clusterstack.x-k8s.io/v1alpha1
kubernetes: ">=1.{low} <1.37"
components:
- {{name: cilium, addon: cni, version: 1.{cni}.0, kubernetes: ">=1.30 <1.{end}"}}
"""


@pytest.fixture
def world(tmp_path: Path) -> Path:
    """Two releases, of each the two files that are needed, and what must not disturb; and a state."""
    for minor, cni in ((35, 17), (36, 18)):
        directory = tmp_path / "releases" / f"p-s-1-{minor}-v1"
        directory.mkdir(parents=True)
        (directory / "metadata.yaml").write_text(f"versions: {{kubernetes: v1.{minor}.1}}\n")
        (directory / "compatibility.yaml").write_text(STATED.format(low=minor - 1, cni=cni, end=minor + 1))
    (tmp_path / "releases" / "notes").mkdir()
    (tmp_path / "releases" / "file").touch()
    (tmp_path / "state.yaml").write_text("{kubernetes: v1.35.1, class: p-s-1-35-v1}")
    return tmp_path


def run(world: Path, *arguments: str) -> int:
    return call_csctl("plan", "--from", world / "state.yaml", "--releases", world / "releases", *arguments)


def test_text_output_lists_steps_with_commands(world: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(world, "--to", "v1.36.1") == 0
    assert capsys.readouterr().out.splitlines() == [
        "1. update addon cni from 1.17.0 to 1.18.0 (from release p-s-1-36-v1)",
        "     needed for Kubernetes v1.36.1: cilium 1.17.0 works with Kubernetes >=1.30 <1.36",
        (
            "     kubectl patch cluster NAME --type merge --patch "
            '\'{"metadata":{"annotations":{"clusterstack.x-k8s.io/addon.cni":"p-s-1-36-v1"}}}\''
        ),
        (
            "     kubectl wait clusteraddon cluster-addon-NAME "
            "'--for=jsonpath={.status.addons[?(@.name==\"cni\")].release}=p-s-1-36-v1' --timeout=15m"
        ),
        "2. update Kubernetes from v1.35.1 to v1.36.1",
        "     the version asked for",
        '     kubectl patch cluster NAME --type merge --patch \'{"spec":{"topology":{"version":"v1.36.1"}}}\'',
        "     kubectl wait cluster NAME --for=condition=TopologyReconciled --timeout=2h",
        (
            "     kubectl wait clusteraddon cluster-addon-NAME "
            "'--for=jsonpath={.status.observedKubernetesVersion}=v1.36.1' --timeout=2h"
        ),
        "     kubectl wait cluster NAME --for=condition=ClusterStackAddonsReady --timeout=15m",
        "2 steps; 1 of them replaces nodes.",
    ]


@pytest.mark.regression("U-22")
@pytest.mark.parametrize("minor", ["1.36", "v1.36"])
def test_u_22_a_minor_is_a_target_and_means_its_newest_known_version(
    world: Path, minor: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(world, "--to", "v1.36.1", "-o", "json") == 0
    expected = capsys.readouterr().out

    assert run(world, "--to", minor, "-o", "json") == 0
    assert capsys.readouterr().out == expected


@pytest.mark.regression("U-22")
def test_u_22_an_unknown_minor_is_answered_with_the_known_versions(
    world: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(world, "--to", "1.37") == output.MUST_CHANGE
    said = " ".join(capsys.readouterr().err.split())
    assert "no known release is made for Kubernetes 1.37: the known ones have v1.35.1, v1.36.1" in said


@pytest.mark.regression("U-22")
def test_u_22_without_a_target_the_releases_within_reach_are_listed(
    world: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(world) == 0
    assert [line.split() for line in capsys.readouterr().out.splitlines()[1:]] == [["p-s-1-36-v1", "v1.36.1", "2"]]


def test_json_and_yaml_output_are_the_same_document(world: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(world, "--to", "p-s-1-36-v1", "-o", "json") == 0
    first = json.loads(capsys.readouterr().out)
    assert run(world, "--to", "p-s-1-36-v1", "-o", "yaml") == 0
    assert yaml.load(capsys.readouterr().out, name="plan") == first
    assert list(first) == ["from", "to", "cost", "steps", "warnings", "refused"]


def test_missing_plan_is_exit_code_3_with_a_document(world: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(world, "--to", "v1.34.0", "-o", "json") == 3
    assert json.loads(capsys.readouterr().out)["steps"] == []
    assert run(world, "--to", "v1.34.0") == 3
    assert capsys.readouterr().out.startswith("There is no plan: Kubernetes v1.34.0 is out of reach")


@pytest.mark.parametrize(
    ("target", "file", "content", "complaint"),
    [
        ("latest", "", "", "'latest' is not a valid target"),
        ("p-s-1-37-v1", "", "", "p-s-1-37-v1 is not among the releases"),
        ("v1.36.1", "state.yaml", "{kubernetes: new}", "state.yaml: kubernetes is 'new'"),
        ("v1.36.1", "state.yaml", "{", "state.yaml"),
        ("v1.36.1", "releases/p-s-1-36-v1/compatibility.yaml", "a: b", "compatibility.yaml has the unknown field a"),
        (
            "v1.36.1",
            "releases/p-s-1-36-v1/metadata.yaml",
            "versions: {kubernetes: v1.35.1}",
            "the name of the release says 1.36",
        ),
        ("v1.36.1", "releases/p-s-1-36-v1/metadata.yaml", "versions: {}", "versions.kubernetes is missing"),
    ],
)
def test_bad_input_is_exit_code_2_without_a_document(
    world: Path, capsys: pytest.CaptureFixture[str], target: str, file: str, content: str, complaint: str
) -> None:
    if file:
        (world / file).write_text(content)
    assert run(world, "--to", target, "-o", "json") == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert complaint in captured.err


def test_interrupted_search_is_exit_code_4_without_a_verdict(world: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(world, "--to", "v1.36.1", "-o", "json", "--timeout", "0.000000001") == 4
    captured = capsys.readouterr()
    assert captured.out == ""
    assert "the search for a plan stopped without a result after" in captured.err
    assert "increase --timeout, or choose a nearer target" in captured.err


def test_hostile_input_ends_at_the_time_limit_and_reports_the_progress(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    world = all_coupled(Random(2), Size())
    for one in world.candidates:
        directory = tmp_path / "releases" / one.name.release
        directory.mkdir(parents=True)
        assert one.compatibility is not None
        (directory / "metadata.yaml").write_text(f"versions: {{kubernetes: {one.kubernetes}}}\n")
        stated = {"apiVersion": API_VERSION, **write_compatibility(one.compatibility)}
        (directory / "compatibility.yaml").write_text(json.dumps(stated))
    first, last = world.candidates[0], world.candidates[-1]
    (tmp_path / "state.yaml").write_text(f"{{kubernetes: {first.kubernetes}, class: {first.name}}}")
    assert run(tmp_path, "--to", str(last.kubernetes), "--timeout", "1.5") == 4
    assert "the search for a plan stopped without a result after" in capsys.readouterr().err


def test_upstream_facts_apply_if_a_release_states_nothing(world: Path, capsys: pytest.CaptureFixture[str]) -> None:
    stated = (
        "apiVersion: compatibility.clusterstack.x-k8s.io/v1alpha1\n"
        "kubernetes: '>=1.35 <1.37'\n"
        "components: [{name: metrics-server, addon: metrics, version: 0.3.7}]\n"
    )
    (world / "releases/p-s-1-35-v1/compatibility.yaml").write_text(stated)
    assert run(world, "--to", "v1.35.1") == 0
    assert "the cluster is outside what is allowed already: metrics-server 0.3.7" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["plan", "--to", "v1.36.1"], "expected either CLUSTER or --from FILE"),
        (
            ["plan", "team/one", "--from", "STATE", "--to", "v1.36.1"],
            "expected either CLUSTER or --from FILE",
        ),
        (["plan", "--from", "STATE", "--to", "v1.36.1"], "--from requires --releases, and reads no Cluster"),
        (
            ["plan", "--from", "STATE", "--context", "a", "--to", "v1.36.1"],
            "--from requires --releases, and reads no Cluster",
        ),
        (["plan", "a/", "--to", "v1.36.1"], "'a/' is not the name of an object (expected NAME or NAMESPACE/NAME"),
        (["why", "a/b/c", "v1.36.1"], "'a/b/c' is not the name of an object"),
        (["why", "a/b", "v1.36.1", "-n", "c"], "a/b is not in namespace c"),
        (["why", "team/one", "newest"], "'newest' is not a valid target"),
        (["why", "team/one", "v1.36.1", "--kubeconfig", "STATE", "--context", "none"], "kubeconfig"),
    ],
)
def test_invalid_arguments_of_plan_and_why_are_rejected(
    world: Path, arguments: list[str], words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    named = [str(world / "state.yaml") if one == "STATE" else one for one in arguments]
    assert call_csctl(*named) == output.MUST_CHANGE
    out, err = capsys.readouterr()
    assert (out, words in " ".join(err.split())) == ("", True), err
