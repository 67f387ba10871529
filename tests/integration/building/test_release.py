"""``make release`` up to the push: versions, change log, commit and tag, in a repository of its own."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path  # noqa: TC003 - pytest reads the annotations of fixtures

import pytest

from tools.release import CHANGE_LOG, PROJECT, STATED, commit, current, refusal, section, write

NEXT = "12.0.0"


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A repository with the files that state the version."""
    for variable, value in (("NAME", "A"), ("EMAIL", "a@example.org")):
        monkeypatch.setenv(f"GIT_AUTHOR_{variable}", value)
        monkeypatch.setenv(f"GIT_COMMITTER_{variable}", value)
    for file in (*STATED, CHANGE_LOG):
        (tmp_path / file).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(PROJECT / file, tmp_path / file)
    git(tmp_path, "init", "--quiet", "--initial-branch=main")
    git(tmp_path, "add", "--all")
    git(tmp_path, "commit", "--quiet", "--message=before")
    return tmp_path


def git(project: Path, *arguments: str) -> str:
    return subprocess.run(["git", *arguments], cwd=project, check=True, capture_output=True, text=True).stdout


def test_a_release_is_one_commit_with_a_tag_and_is_not_pushed(project: Path) -> None:
    before, unreleased = current((project / "pyproject.toml").read_text()), section(log(project), "Unreleased")

    write(project, NEXT)
    left = commit(project, NEXT)

    for file in STATED:
        assert NEXT in (project / file).read_text(), file
    assert current((project / "pyproject.toml").read_text()) == NEXT != before
    assert section(log(project), NEXT) == unreleased
    assert section(log(project), "Unreleased") == ""
    assert git(project, "status", "--porcelain") == ""
    assert git(project, "log", "--format=%s").splitlines() == [f"release: {NEXT}", "before"]
    assert git(project, "describe", "HEAD").strip() == f"v{NEXT}"
    assert left.startswith(f"git push --atomic origin main v{NEXT}\n")


def log(project: Path) -> str:
    return (project / CHANGE_LOG).read_text()


def test_a_refused_release_changes_nothing(project: Path) -> None:
    (project / "left").write_text("")

    with pytest.raises(SystemExit, match=r"not committed:\n\?\? left"):
        write(project, NEXT)

    assert git(project, "status", "--porcelain") == "?? left\n"


@pytest.mark.parametrize(
    ("version", "changes", "dirty", "why"),
    [
        ("0.10.0", "- a", "", ""),
        ("0.9.0", "- a", "", "0.9.0 is not newer than 0.9.0"),
        ("0.9", "- a", "", "'0.9' is not a version"),
        ("v1.0.0", "- a", "", "'v1.0.0' is not a version"),
        ("1.0.0", "", "", "Unreleased of CHANGELOG.md is empty"),
        ("1.0.0", "- a", "?? b", "not committed"),
    ],
)
def test_a_release_is_refused_with_its_reason(version: str, changes: str, dirty: str, why: str) -> None:
    said = refusal(version, "0.9.0", changes, dirty)

    assert why in said
    assert bool(said) == bool(why)
