from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
from click.testing import CliRunner

from clusterstacks.csctl.shared import output
from clusterstacks.csctl.verbs.create import UNCHANGED, create
from clusterstacks.csctl.verbs.hash import hash as hash_command
from tests.support.builders.stack_directories import REPOSITORY, copied, directory_of

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    import click

    Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    """Run a verb with arguments in an empty directory, where nothing of the remotes is set."""
    for variable in ("GIT_PROVIDER", "GIT_ORG_NAME", "GIT_REPOSITORY_NAME", "OCI_REGISTRY", "OCI_REPOSITORY"):
        monkeypatch.delenv(variable, raising=False)
    working = tmp_path / "working"
    working.mkdir()
    monkeypatch.chdir(working)

    def call(*arguments: str | Path, verb: click.Command = create) -> tuple[int, str, str]:
        code = output.run(lambda: verb.main([str(one) for one in arguments], standalone_mode=False))
        out, err = capsys.readouterr()
        return code, out, err

    return call


@pytest.fixture
def remote(tmp_path: Path) -> tuple[str, ...]:
    (tmp_path / "remote").mkdir()
    return "--remote", "directory", "--remote-dir", str(tmp_path / "remote")


def test_create_prints_the_directory_to_stdout_and_the_reasons_to_stderr(
    run: Run, tmp_path: Path, remote: tuple[str, ...]
) -> None:
    stack = copied("single", tmp_path)
    run(stack, *remote, "--publish")
    (tmp_path / "remote" / "latest").mkdir()
    (stack / "cluster-addon/values.yaml").write_text("replicas: 3\n")

    code, out, err = run(stack, *remote)

    assert (code, out) == (0, "Created .release/local-single-1-33-v2\n")
    assert err == (
        f"local-single-1-33 for Kubernetes v1.33.4 from {stack}, after local-single-1-33-v1\n"
        "  clusterStack v1 -> v2: cluster-addon/values.yaml changed\n"
        "  clusterAddon v1 -> v2: cluster-addon/values.yaml changed\n"
        "  nodeImage v1: unchanged\n"
        f"  note: 1 name in {tmp_path}/remote skipped: not a release name\n"
    )


def test_repeated_create_before_publishing_gives_the_same_version(
    run: Run, tmp_path: Path, remote: tuple[str, ...]
) -> None:
    stack = copied("single", tmp_path)
    first = run(stack, *remote)[1]
    (stack / "cluster-addon/values.yaml").write_text("replicas: 3\n")

    assert run(stack, *remote)[1] == first
    assert run(stack, *remote, "--publish")[2].endswith(f"local-single-1-33-v1 is published in {tmp_path}/remote\n")
    assert run(stack, *remote)[0] == UNCHANGED


def test_only_changed_stacks_of_a_repository_are_built_and_published(
    run: Run, tmp_path: Path, remote: tuple[str, ...]
) -> None:
    copied("single", tmp_path / "stacks")
    several = copied("several", tmp_path / "stacks")
    options = (tmp_path / "stacks", *remote, "--publish", "--dependencies", "leave", "--all-minors")
    code, out, _ = run(*options)
    assert (code, len(out.splitlines())) == (0, 3)

    (several / "versions.yaml").write_text((several / "versions.yaml").read_text().replace("2.34.1", "2.34.2"))
    code, out, err = run(*options)
    assert code == 0
    assert [line.rpartition("/")[2] for line in out.splitlines()] == ["local-several-1-34-v2", "local-several-1-35-v2"]
    assert [line for line in err.splitlines() if "clusterAddon" in line] == [
        "  clusterAddon v1 -> v2: the versions of addons in versions.yaml or stack.yaml changed",
        "  clusterAddon v1: unchanged",
    ]
    assert "local-single-1-33: nothing changed since local-single-1-33-v1" in err

    code, out, err = run(*options)
    assert (code, out) == (UNCHANGED, "")
    assert err.endswith("Error: nothing was built: no stack changed since its newest release\n")


def test_minor_is_selected_by_option(run: Run) -> None:
    out = run(REPOSITORY, "--mode", "hash", "--kubernetes", "1-35", "--dependencies", "leave")[1]

    assert [line.rpartition("/")[2].partition("-v0")[0] for line in out.splitlines()] == [
        "local-minor-1-35",
        "local-several-1-35",
    ]


def test_metadata_yaml_keeps_versions_between_builds(run: Run, tmp_path: Path) -> None:
    stack = copied("staged", tmp_path)
    options = (stack, "--remote", "none", "--write-metadata", "--offline")

    assert run(*options)[1].endswith("local-staged-1-34-v4\n")
    assert run(*options)[2].startswith("Error: nothing changed since local-staged-1-34-v4")
    (stack / "cluster-addon/network/values.yaml").write_text("a: 1\n")
    assert run(*options)[1].endswith("local-staged-1-34-v5\n")
    assert "clusterAddon: v4" in (stack / "metadata.yaml").read_text()


def test_metadata_yaml_of_several_minors_is_rejected(run: Run, tmp_path: Path) -> None:
    options = (copied("several", tmp_path), "--remote", "none", "--write-metadata", "--dependencies", "leave")

    assert "choose a minor with --kubernetes" in run(*options, "--all-minors")[2]
    assert run(*options, "--kubernetes", "1.35")[0] == 0


def test_given_versions_are_used(run: Run) -> None:
    versions = ("--cluster-stack-version", "v9", "--cluster-addon-version", "v1-rc.2", "--node-image-version", "v3")

    code, out, err = run(directory_of("single"), "-m", "custom", *versions)

    assert (code, out.rpartition("/")[2]) == (0, "local-single-1-33-v9\n")
    assert "  clusterAddon v1-rc.2: as given\n" in err


WRONG = {
    "no GitHub is set": (("--remote", "github"), "or use --remote oci, directory or none"),
    "no such remote": (("--remote", "gitlab"), "--remote takes one of github, oci, directory, none"),
    "no registry is set": (("--remote", "oci"), "set OCI_REGISTRY and OCI_REPOSITORY"),
    "a version is missing": (
        ("-m", "custom", "--node-image-version", "v1"),
        "--cluster-stack-version, --cluster-addon",
    ),
    "a version too many": (("-m", "hash", "--node-image-version", "v1"), "can only be used with --mode custom"),
    "a dash version": (
        ("-m", "custom", *(f"--{one}-version=v1-a-b" for one in ("cluster-stack", "cluster-addon", "node-image"))),
        "is not a valid cluster stack version",
    ),
    "a directory is missing": (("--remote", "directory"), "must be used together"),
    "nowhere to publish": (("--remote", "none", "--publish"), "--publish needs a remote"),
    "no remote to publish to": (("-m", "hash", "--publish"), "--publish needs a remote"),
    "a hash of itself": (("-m", "hash", "--write-metadata"), "changes the source and its hash"),
    "no such minor": (("-m", "hash", "--kubernetes", "1-30"), "--kubernetes takes one of 1.33"),
    "no minor": (("-m", "hash", "--kubernetes", "new"), "is not a valid Kubernetes minor version"),
}


@pytest.mark.parametrize("case", WRONG)
def test_error_names_a_remedy_and_nothing_is_written(run: Run, tmp_path: Path, case: str) -> None:
    arguments, complaint = WRONG[case]

    code, out, err = run(directory_of("single"), *arguments)

    assert (code, out) == (output.MUST_CHANGE, "")
    assert complaint in err
    assert list((tmp_path / "working").iterdir()) == []


def test_an_error_in_one_stack_of_many_names_its_directory(run: Run, tmp_path: Path) -> None:
    copied("single", tmp_path / "stacks")
    broken = copied("minor", tmp_path / "stacks")
    (broken / "cluster-class/Chart.yaml").unlink()

    err = run(tmp_path / "stacks", "-m", "hash", "--dependencies", "leave")[2]
    assert f"Error: {broken}: cluster-class/Chart.yaml is missing" in err


def test_hashes_are_printed_as_in_hashes_json(run: Run) -> None:
    built = run(directory_of("single"), "-m", "hash")[1].strip().removeprefix("Created ")

    with open(f"{built}/hashes.json") as file:  # noqa: PTH123 - a text, not a path
        printed = json.loads(run(directory_of("single"), "-o", "json", verb=hash_command)[1])
        assert printed == json.load(file) | {"clusterClassDir": printed["clusterClassDir"]}
    lines = run(directory_of("single"), verb=hash_command)[1].splitlines()
    assert [line.split()[0] for line in lines] == [
        "local-single-1-33",
        "clusterStack",
        "clusterAddonDir",
        "clusterAddonValues",
        "nodeImageDir",
        "nodeImagesDir",
        "clusterClassDir",
    ]


def test_hashes_of_a_repository_are_printed_for_each_stack(run: Run) -> None:
    assert list(json.loads(run(REPOSITORY, "-o", "json", "--all-minors", verb=hash_command)[1])) == [
        "local-minor-1-35",
        "local-minor-1-36",
        "local-several-1-34",
        "local-several-1-35",
        "local-single-1-33",
        "local-staged-1-34",
    ]


def test_help_names_the_variables_of_every_remote() -> None:
    text = CliRunner().invoke(create, ["--help"]).output

    assert all(word in text for word in ("GIT_PROVIDER", "OCI_REGISTRY", "docker login"))
