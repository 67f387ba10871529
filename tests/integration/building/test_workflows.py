"""The workflows of GitHub are what actionlint accepts, and call only targets and scripts that exist."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from tests.support.running.go_programs import go_program

ROOT = Path(__file__).parents[3]
WORKFLOWS = sorted((ROOT / ".github/workflows").glob("*.yaml"))
TARGETS = set(re.findall(r"(?m)^([a-z0-9-]+):", (ROOT / "Makefile").read_text()))


def test_actionlint_finds_nothing() -> None:
    command: list[str | Path] = [go_program("actionlint"), "-shellcheck=", "-pyflakes=", *WORKFLOWS]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)

    assert (done.returncode, done.stdout) == (0, "")


@pytest.mark.parametrize("workflow", WORKFLOWS, ids=lambda path: path.stem)
def test_targets_of_make_exist(workflow: Path) -> None:
    text = workflow.read_text()
    called = {name for line in re.findall(r"\bmake ([a-z][a-z0-9 -]*)", text) for name in line.split()}
    tiers = {name for line in re.findall(r"tier: \[(.*)\]", text) for name in line.split(", ")}

    assert called | tiers <= TARGETS


def test_changes_are_tested_by_the_tiers_of_ci_run_but_the_node() -> None:
    tiers = set(re.findall(r"\btest(?:-[a-z0-9]+)?\b", re.sub("#.*", "", (ROOT / ".ci/run").read_text())))
    (matrix,) = re.findall(r"tier: \[(.*)\]", (ROOT / ".github/workflows/ci.yaml").read_text())

    assert {*matrix.split(", ")} == tiers - {"test-install"}
