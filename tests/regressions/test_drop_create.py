"""``csctl create`` gives the same release or the same failure as csctl written in Go."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING

import pytest

from clusterstacks.csctl.authoring.linter import apply_rules
from clusterstacks.csctl.authoring.stack import load_stack
from clusterstacks.csctl.building.source_tree import read_tree
from clusterstacks.csctl.shared import output
from clusterstacks.csctl.verbs.create import UNCHANGED, create, default_remote
from clusterstacks.csctl.verbs.hash import hash as hash_command
from clusterstacks.csctl.verbs.template import template
from clusterstacks.model import yaml
from clusterstacks.release.charts.archive import read_archive
from tests.support.builders.stack_directories import copied
from tests.support.builders.tiny_stack import STAGES, tiny, write

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    import click

    Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    """Run a verb in an empty directory, where nothing of the remotes is set."""
    for variable in ("GIT_PROVIDER", "GIT_ORG_NAME", "GIT_REPOSITORY_NAME", "OCI_REGISTRY", "OCI_REPOSITORY"):
        monkeypatch.delenv(variable, raising=False)
    (tmp_path / "working").mkdir()
    monkeypatch.chdir(tmp_path / "working")

    def call(*arguments: str | Path, verb: click.Command = create) -> tuple[int, str, str]:
        code = output.run(lambda: verb.main([str(one) for one in arguments], standalone_mode=False))
        out, err = capsys.readouterr()
        return code, out, err

    return call


@pytest.fixture
def several(tmp_path: Path) -> Path:
    """A stack whose versions.yaml lists 1.34.2 and 1.35.1; csctl.yaml names v1.35.1."""
    return copied("several", tmp_path)


def built(tmp_path: Path) -> list[str]:
    directory = tmp_path / "working" / ".release"
    return sorted(path.name.partition("-v0")[0] for path in directory.iterdir()) if directory.is_dir() else []


def addon_chart(tmp_path: Path) -> dict[str, bytes]:
    (archive,) = (tmp_path / "working" / ".release").glob("*/*-cluster-addon-*.tgz")
    return read_archive(archive.read_bytes(), archive.name)


HASH = ("--mode", "hash", "--dependencies", "leave")


@pytest.mark.regression("DROP-H1")
def test_release_of_csctl_yaml_is_built_with_unchanged_charts(run: Run, tmp_path: Path, several: Path) -> None:
    settings = several / "csctl.yaml"
    settings.write_text(settings.read_text().replace("v1.35.1", "v1.35.0"))
    chart = several / "cluster-addon/cloud/Chart.yaml"
    chart.write_text(chart.read_text().replace("2.35.0", "2.35.9"))
    (several / "cluster-addon/cloud/Chart.lock").write_text("anything\n")

    code, _, err = run(several, *HASH)

    assert (code, built(tmp_path)) == (0, ["local-several-1-35"]), err
    (metadata,) = (tmp_path / "working/.release").glob("*/metadata.yaml")
    assert "kubernetes: v1.35.0\n" in metadata.read_text()
    held = addon_chart(tmp_path)
    assert held["cloud/Chart.yaml"] == chart.read_bytes()
    assert held["cloud/Chart.lock"] == b"anything\n"


@pytest.mark.regression("DROP-H1")
def test_versions_yaml_is_not_read_for_the_release_of_csctl_yaml(run: Run, tmp_path: Path, several: Path) -> None:
    (several / "versions.yaml").write_text("- kubernetes: unknown\n")

    assert run(several, *HASH)[0] == 0
    assert built(tmp_path) == ["local-several-1-35"]


@pytest.mark.regression("DROP-H1")
def test_minors_of_versions_yaml_are_built_on_demand(run: Run, tmp_path: Path, several: Path) -> None:
    assert run(several, *HASH, "--kubernetes", "1-34")[0] == 0
    assert built(tmp_path) == ["local-several-1-34"]
    assert b"version: 2.34.1\n" in addon_chart(tmp_path)["cloud/Chart.yaml"]

    assert run(several, *HASH, "--all-minors")[0] == 0
    assert built(tmp_path) == ["local-several-1-34", "local-several-1-35"]

    assert "cannot be combined with --all-minors" in run(several, *HASH, "--all-minors", "--kubernetes", "1-34")[2]


@pytest.mark.regression("DROP-H1")
def test_all_minors_include_the_one_of_csctl_yaml(run: Run, tmp_path: Path, several: Path) -> None:
    for file in ("csctl.yaml", "cluster-class/Chart.yaml"):
        (several / file).write_text((several / file).read_text().replace("1.35.1", "1.33.9").replace("1-35", "1-33"))

    assert run(several, *HASH, "--all-minors")[0] == 0
    assert built(tmp_path) == ["local-several-1-33", "local-several-1-34", "local-several-1-35"]


@pytest.mark.regression("DROP-H1")
@pytest.mark.parametrize("file", ["values.yaml", "templates/class.yaml"])
@pytest.mark.parametrize("minors", [("--all-minors",), ("--kubernetes", "1-34")])
def test_hard_coded_version_of_another_minor_is_an_error_before_the_build(
    run: Run, tmp_path: Path, several: Path, file: str, minors: tuple[str, ...]
) -> None:
    named = several / "cluster-class" / file
    named.write_text(f"# was made for 1.35.1\nimage: ubuntu-v1.35.1\n{named.read_text()}")

    code, out, err = run(several, *HASH, *minors)

    assert (code, out, built(tmp_path)) == (output.MUST_CHANGE, "", [])
    problem = f"cluster-class/{file}, line 2 names Kubernetes v1.35.1, which stays in a release for v1.34.2"
    assert problem in err
    assert run(several, *HASH)[0] == 0
    assert run(several, *HASH, "--kubernetes", "1-35")[0] == 0


@pytest.mark.regression("DROP-H1")
@pytest.mark.parametrize(
    "text", ["# as in 1.35.1", "a: 1  # 1.35.1", "a: 1.35.10", "a: 21.35.1", "images: {v1.34.2: a, v1.35.1: b}"]
)
def test_comments_other_numbers_and_version_tables_are_not_errors(run: Run, several: Path, text: str) -> None:
    (several / "cluster-class/values.yaml").write_text(f"{text}\n")

    code, _, err = run(several, *HASH, "--kubernetes", "1-34")
    assert code == 0, err


@pytest.mark.regression("DROP-H1")
def test_stacks_without_a_version_in_csctl_yaml_are_built_from_stack_yaml(run: Run, tmp_path: Path) -> None:
    assert run(copied("minor", tmp_path), *HASH)[0] == 0
    assert built(tmp_path) == ["local-minor-1-35"]


@pytest.mark.regression("DROP-H1")
def test_every_verb_uses_the_release_of_csctl_yaml(run: Run, several: Path) -> None:
    leave = ("--dependencies", "leave")

    assert "several-1-35" in run(several, *leave, "--class", verb=template)[1]
    assert "several-1-34" in run(several, *leave, "--class", "--kubernetes", "1-34", verb=template)[1]
    assert run(several, verb=hash_command)[1].splitlines()[0] == "local-several-1-35"
    assert "local-several-1-34" in run(several, "--all-minors", verb=hash_command)[1]
    assert [one.name.series for one in load_stack(read_tree(several), "several") if one.name] == ["local-several-1-35"]


@pytest.mark.regression("DROP-H1")
def test_lint_reports_two_patches_of_one_minor(several: Path) -> None:
    settings = several / "csctl.yaml"
    settings.write_text(settings.read_text().replace("v1.35.1", "v1.35.0"))

    found = apply_rules(load_stack(read_tree(several), "several", listed=True))

    (problem,) = [one.problem for one in found if one.rule == "idle-version"]
    assert problem.message == "names Kubernetes v1.35.0, but versions.yaml v1.35.1 for the same minor"


@pytest.fixture
def remote(tmp_path: Path) -> Path:
    """A directory of releases."""
    directory = tmp_path / "remote"
    directory.mkdir()
    return directory


def to(remote: Path) -> tuple[str, ...]:
    return ("--publish", "--remote", "directory", "--remote-dir", str(remote))


CUSTOM = ("--mode", "custom", *(f"--{one}-version=v9" for one in ("cluster-stack", "cluster-addon", "node-image")))


@pytest.mark.regression("DROP-M1")
@pytest.mark.parametrize("mode", [("--mode", "hash"), CUSTOM])
def test_release_published_by_another_csctl_from_the_same_source_is_kept(
    run: Run, tmp_path: Path, remote: Path, mode: tuple[str, ...]
) -> None:
    stack = copied("single", tmp_path)
    run(stack, *mode, *to(remote))
    (metadata,) = remote.glob("*/metadata.yaml")
    metadata.write_text(json.dumps(yaml.load(metadata.read_text(), name="metadata.yaml"), indent=4))
    (hashes,) = remote.glob("*/hashes.json")
    known = json.loads(hashes.read_text())
    hashes.write_text(json.dumps({key: value for key, value in known.items() if key != "nodeImagesDir"}))
    before = {path: path.read_bytes() for path in remote.rglob("*") if path.is_file()}

    code, _, err = run(stack, *mode, *to(remote))

    assert code == 0, err
    assert f"is already published in {remote}, built from the same source by another csctl" in err
    assert {path: path.read_bytes() for path in remote.rglob("*") if path.is_file()} == before


@pytest.mark.regression("DROP-M1")
@pytest.mark.parametrize("file", ["hashes.json", "metadata.yaml"])
def test_release_of_another_source_or_other_versions_is_rejected(
    run: Run, tmp_path: Path, remote: Path, file: str
) -> None:
    stack = copied("single", tmp_path)
    run(stack, *CUSTOM, *to(remote))
    (published,) = remote.glob(f"*/{file}")
    text = published.read_text()
    published.write_text(text.replace('": "', '": "x', 1) if file == "hashes.json" else text.replace(".4", ".5"))

    code, _, err = run(stack, *CUSTOM, *to(remote))

    assert code == output.MUST_CHANGE
    assert "is already published with other content" in err


REMOTES = {
    "nothing": ({}, "none"),
    "a repository on GitHub": ({"GIT_PROVIDER": "github"}, "github"),
    "its organisation alone": ({"GIT_ORG_NAME": "acme"}, "github"),
    "a registry": ({"OCI_REGISTRY": "registry.example"}, "oci"),
    "both": ({"OCI_REGISTRY": "registry.example", "GIT_REPOSITORY_NAME": "stacks"}, "github"),
    "what git itself reads": ({"GIT_AUTHOR_NAME": "me", "GIT_PROVIDER": ""}, "none"),
}


@pytest.mark.regression("USER-20")
@pytest.mark.parametrize("case", REMOTES)
def test_environment_variables_select_the_remote(case: str) -> None:
    environ, remote = REMOTES[case]

    assert default_remote(environ)[0] == remote


@pytest.mark.regression("USER-20")
def test_create_builds_without_a_remote_and_reports_it(run: Run, tmp_path: Path) -> None:
    code, _, err = run(copied("staged", tmp_path))

    assert code == 0, err
    assert built(tmp_path) == ["local-staged-1-34-v4"]
    assert err.splitlines()[0].startswith("remote none, because neither GIT_* nor OCI_* is set")


@pytest.mark.regression("USER-20")
def test_selected_remote_is_printed(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OCI_REGISTRY", "registry.example")

    code, _, err = run(copied("single", tmp_path))

    assert (code, err.splitlines()[0]) == (2, "remote oci, because OCI_REGISTRY is set (--remote selects another)")


@pytest.mark.regression("DROP-L4")
@pytest.mark.parametrize("remote", [("--remote", "directory"), ("--remote", "gitlab"), ("--remote", "oci"), ()])
def test_invalid_remote_is_ignored_if_none_is_used(run: Run, tmp_path: Path, remote: tuple[str, ...]) -> None:
    code, _, err = run(copied("single", tmp_path), "--mode", "hash", *remote)

    assert (code, "--remote" in err) == (0, False), err


@pytest.mark.regression("DROP-L4")
def test_publishing_without_a_remote_is_rejected_before_the_build(run: Run, tmp_path: Path) -> None:
    code, _, err = run(copied("single", tmp_path), "--mode", "hash", "--publish")

    assert (code, built(tmp_path)) == (output.MUST_CHANGE, [])
    assert "--publish needs a remote: use --remote github, oci or directory" in err


@pytest.mark.regression("DROP-L3")
@pytest.mark.parametrize("directory", [(), ("-o", "out"), ("--output", "./out/deep/")])
def test_last_output_line_equals_that_of_go_csctl(run: Run, tmp_path: Path, directory: tuple[str, ...]) -> None:
    """Go: fmt.Printf("Created %s\\n", filepath.Join(outputDirectory, releaseDirName))."""
    code, out, err = run(copied("single", tmp_path), *HASH, *directory)

    assert code == 0, err
    where = {(): ".release", ("-o", "out"): "out"}.get(directory, "out/deep")
    (release,) = (tmp_path / "working" / where).iterdir()
    assert out == f"Created {where}/{release.name}\n"


@pytest.mark.regression("DROP-M6")
@pytest.mark.parametrize(
    ("hook", "expected"),
    [("BeforeClusterUpgrade", 0), ("AfterClusterUpgrade", 0), ("AfterControlPlaneInitialized", output.MUST_CHANGE)],
)
def test_upgrade_stage_may_name_an_addon_without_a_chart(run: Run, tmp_path: Path, hook: str, expected: int) -> None:
    """As tests/cluster-stacks/docker/valencia of csctl does: new clusters get every addon of the release."""
    stack = copied("staged", tmp_path)
    config = yaml.load((stack / "clusteraddon.yaml").read_text(), name="clusteraddon.yaml")
    config["addonStages"].setdefault(hook, []).append({"name": "ngnix", "action": "apply"})
    (stack / "clusteraddon.yaml").write_text(json.dumps(config))

    code, _, err = run(stack, *HASH)

    assert code == expected, err
    assert ("applies ngnix in AfterControlPlaneInitialized" in err) == bool(expected)


@pytest.mark.regression("DROP-M6")
@pytest.mark.parametrize("lock", ["anything\n", "dependencies: []\ndigest: sha256:0000\n", "{"])
def test_lock_file_is_ignored_with_dependencies_leave(run: Run, tmp_path: Path, several: Path, lock: str) -> None:
    (several / "cluster-addon/cloud/Chart.lock").write_text(lock)

    code, _, err = run(several, *HASH)

    assert code == 0, err
    assert addon_chart(tmp_path)["cloud/Chart.lock"] == lock.encode()


@pytest.mark.regression("DROP-M6")
@pytest.mark.parametrize(("offline", "expected"), [(("--offline",), output.MUST_CHANGE), ((), output.FAILED)])
def test_network_error_names_the_dependencies_leave_option(
    run: Run,
    tmp_path: Path,
    several: Path,
    monkeypatch: pytest.MonkeyPatch,
    offline: tuple[str, ...],
    expected: int,
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    for chart in several.glob("cluster-addon/*/Chart.yaml"):
        chart.write_text(re.sub(r"https://[^ }\n]+", "http://127.0.0.1:9/charts", chart.read_text()))

    code, _, err = run(several, "--mode", "hash", *offline)

    assert (code, built(tmp_path)) == (expected, []), err
    assert "--dependencies leave" in err


FAILS_IN_GO = {
    "another mode": ("--mode", "alpha"),
    "custom without versions": ("--mode", "custom"),
    "publishing without a remote": ("--mode", "hash", "--publish"),
    "the registry is not named": ("--remote", "oci"),
    "two directories": ("--mode", "hash", "second"),
    "neither a registry nor metadata.yaml": ("--mode", "stable"),
}


@pytest.mark.regression("DROP-L2")
@pytest.mark.parametrize("case", FAILS_IN_GO)
def test_errors_of_go_csctl_are_errors(run: Run, tmp_path: Path, case: str) -> None:
    code, out, _ = run(copied("single", tmp_path), *FAILS_IN_GO[case])

    assert (code, out, built(tmp_path)) == (output.MUST_CHANGE, "", [])


@pytest.mark.regression("DROP-L2")
def test_nothing_to_build_is_an_error_as_in_go_csctl(run: Run, tmp_path: Path, remote: Path) -> None:
    stack = copied("single", tmp_path)

    assert run(stack, *to(remote))[0] == 0
    assert run(stack, *to(remote))[0] == UNCHANGED


@pytest.mark.regression("LV-1")
@pytest.mark.parametrize("condition", ["agnt.status.readyReplicas > 0", "agent.status.readyReplicas >", "'ready'"])
def test_conditions_are_checked_before_a_release_is_built(run: Run, tmp_path: Path, condition: str) -> None:
    stages = STAGES.replace("agent.status.readyReplicas > 0", condition)
    stack = write(tmp_path / "stack", tiny({"clusteraddon.yaml": stages}))

    code, _, err = run(stack, "--mode", "hash", "--strict")
    assert code != 0
    assert "clusteraddon.yaml:9: " in err
    assert run(stack, "--mode", "hash")[0] == 0
