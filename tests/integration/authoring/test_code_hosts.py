"""The hook for pre-commit and the action for GitHub, with the commands that they run."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

CHECKOUT = Path(__file__).parents[3]
STACK = CHECKOUT / "examples/stacks/local/demo/1-35"
(HOOK,) = yaml.safe_load((CHECKOUT / ".pre-commit-hooks.yaml").read_text())
ACTION = yaml.safe_load((CHECKOUT / "action.yml").read_text())


@pytest.fixture
def stack(tmp_path: Path) -> Path:
    return shutil.copytree(STACK, tmp_path / "stack")


def called(command: list[str], directory: Path, **environ: str) -> subprocess.CompletedProcess[str]:
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    environment = {**os.environ, **environ, "PATH": path}
    return subprocess.run(command, cwd=directory, env=environment, text=True, capture_output=True, check=False)


def break_stack(stack: Path) -> None:
    (stack / "csctl.yaml").write_text("config: [\n")


def test_the_hook_refuses_a_stack_with_errors(stack: Path) -> None:
    command = [*HOOK["entry"].split(), *HOOK["args"]]
    good = called(command, stack)
    break_stack(stack)
    bad = called(command, stack)

    assert good.returncode == 0, good.stderr
    assert bad.returncode == 2
    assert "csctl.yaml:" in bad.stdout + bad.stderr


@pytest.mark.parametrize("path", [path.relative_to(CHECKOUT) for path in sorted(STACK.rglob("*")) if path.is_file()])
def test_the_hook_runs_when_a_file_of_a_stack_changes(path: Path) -> None:
    assert re.search(HOOK["files"], str(path))


def test_the_action_writes_a_report_and_fails_with_the_stack(stack: Path, tmp_path: Path) -> None:
    (step,) = [one for one in ACTION["runs"]["steps"] if one.get("id") == "lint"]
    inputs = {"directory": str(stack), "report": str(tmp_path / "report.sarif")}
    environ = {
        name: inputs[value.removeprefix("${{ inputs.").removesuffix(" }}")] for name, value in step["env"].items()
    }
    command = ["bash", "-e", "-c", step["run"]]

    good = called(command, tmp_path, **environ)
    assert good.returncode == 0, good.stderr
    assert results(tmp_path) == []

    break_stack(stack)
    bad = called(command, tmp_path, **environ)
    assert bad.returncode == 2
    assert "csctl.yaml:" in bad.stdout + bad.stderr
    assert results(tmp_path) != []


def results(directory: Path) -> list[Any]:
    (run,) = json.loads((directory / "report.sarif").read_text())["runs"]
    return [one for one in run["results"] if one["level"] == "error"]
