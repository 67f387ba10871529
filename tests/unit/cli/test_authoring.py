"""What the verbs for authors take, refuse and print before anything is rendered."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from clusterstacks.authoring.linter import RULES
from clusterstacks.cli.main import csctl
from clusterstacks.cli.shared import output

if TYPE_CHECKING:
    from pathlib import Path


def run(*arguments: str) -> int:
    return output.run(lambda: csctl.main(list(arguments), prog_name="csctl", standalone_mode=False))


def test_init_says_what_it_wrote_and_how_to_go_on(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)

    assert run("init", "local/mine/1-35") == 0
    said = capsys.readouterr()
    assert "providers/local/mine/1-35/csctl.yaml" in said.out.splitlines()
    assert "lint providers/local/mine/1-35" in said.err


def test_init_leaves_what_is_there(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "README.md").write_text("mine")

    assert run("init", "local/mine/1-35", str(tmp_path)) == output.MUST_CHANGE
    assert "README.md already exists" in capsys.readouterr().err
    assert [path.name for path in tmp_path.iterdir()] == ["README.md"]


def test_lint_lists_its_rules_for_people_and_for_programs(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("lint", "--rules") == 0
    assert [line.split()[0] for line in capsys.readouterr().out.splitlines()[1:]] == [rule.id for rule in RULES]
    assert run("lint", "--rules", "-o", "json") == 0
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
def test_a_command_line_that_makes_no_sense_is_refused(
    arguments: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)

    assert run(*arguments) == output.MUST_CHANGE


def test_of_two_directories_the_broken_one_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name in ("a", "b"):
        assert run("init", "local/mine/1-35", str(tmp_path / name)) == 0
    (tmp_path / "b" / "cluster-class" / "Chart.yaml").unlink()
    capsys.readouterr()

    assert run("diff", str(tmp_path / "a"), str(tmp_path / "b"), "--offline") == output.MUST_CHANGE
    assert capsys.readouterr().err.startswith(f"Error: {tmp_path / 'b'}: cluster-class/Chart.yaml is missing")


def test_a_slip_in_a_verb_is_answered_with_the_verb(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("lnit") == output.MUST_CHANGE
    assert "did you mean" in capsys.readouterr().err
    assert run("xyzzy") == output.MUST_CHANGE
    assert "csctl help" in capsys.readouterr().err


def test_a_directory_that_is_neither_release_nor_stack_is_not_read(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "disk").symlink_to("/dev/full")

    assert run("template", str(tmp_path), "--offline") == output.MUST_CHANGE
    assert "is neither a release nor a stack" in capsys.readouterr().err
