"""The command line of csctl: init, lint, template and diff before rendering, and unknown verbs."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from clusterstacks.csctl.authoring.linter import RULES
from clusterstacks.csctl.shared import output
from tests.support.running.csctl import call_csctl

if TYPE_CHECKING:
    from pathlib import Path


def test_init_prints_written_files_and_next_commands(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)

    assert call_csctl("init", "local/mine/1-35") == 0
    said = capsys.readouterr()
    assert "providers/local/mine/1-35/csctl.yaml" in said.out.splitlines()
    assert "lint providers/local/mine/1-35" in said.err


def test_init_does_not_overwrite_files(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "README.md").write_text("mine")

    assert call_csctl("init", "local/mine/1-35", str(tmp_path)) == output.MUST_CHANGE
    assert "README.md already exists" in capsys.readouterr().err
    assert [path.name for path in tmp_path.iterdir()] == ["README.md"]


def test_lint_lists_its_rules_as_text_and_json(capsys: pytest.CaptureFixture[str]) -> None:
    assert call_csctl("lint", "--rules") == 0
    assert [line.split()[0] for line in capsys.readouterr().out.splitlines()[1:]] == [rule.id for rule in RULES]
    assert call_csctl("lint", "--rules", "-o", "json") == 0
    assert [one["id"] for one in json.loads(capsys.readouterr().out)] == [rule.id for rule in RULES]


@pytest.mark.parametrize(
    "arguments",
    [
        ("lint",),
        ("lint", "."),  # no stack here
        ("lint", ".", "--kubernetes", "new"),
        ("template", ".", "--class", "--values"),
        ("template", ".", "--class", "--addon", "x"),
        ("template", "nowhere"),
        ("diff", "."),
        ("init", "local"),
    ],
)
def test_invalid_command_line_is_rejected(
    arguments: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)

    assert call_csctl(*arguments) == output.MUST_CHANGE


def test_invalid_one_of_two_directories_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name in ("a", "b"):
        assert call_csctl("init", "local/mine/1-35", str(tmp_path / name)) == 0
    (tmp_path / "b" / "cluster-class" / "Chart.yaml").unlink()
    capsys.readouterr()

    assert call_csctl("diff", str(tmp_path / "a"), str(tmp_path / "b"), "--offline") == output.MUST_CHANGE
    assert capsys.readouterr().err.startswith(f"Error: {tmp_path / 'b'}: cluster-class/Chart.yaml is missing")


def test_misspelt_verb_suggests_the_verb(capsys: pytest.CaptureFixture[str]) -> None:
    assert call_csctl("lnit") == output.MUST_CHANGE
    assert "did you mean" in capsys.readouterr().err
    assert call_csctl("xyzzy") == output.MUST_CHANGE
    assert "csctl help" in capsys.readouterr().err


def test_directory_without_release_or_stack_is_rejected(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "disk").symlink_to("/dev/full")

    assert call_csctl("template", str(tmp_path), "--offline") == output.MUST_CHANGE
    assert "is neither a release nor a stack" in capsys.readouterr().err
