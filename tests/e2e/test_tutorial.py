"""The tutorial works as it is written: its commands, in their order, each from a shell of its own."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from clusterstacks.devcluster import teardown
from clusterstacks.devcluster.binaries import silent
from clusterstacks.devcluster.state import StateDirectory

if TYPE_CHECKING:
    from collections.abc import Iterator

CHECKOUT = Path(__file__).parents[2]
TUTORIAL = CHECKOUT / "docs" / "tutorial" / "first-cluster.md"
SET_UP = "make setup\n"
"""The tests run in what this command makes."""


@pytest.fixture
def state(tmp_path: Path) -> Iterator[StateDirectory]:
    state = StateDirectory(tmp_path / "cluster-stacks" / "default")
    yield state
    teardown.down(state, silent)


def blocks() -> list[str]:
    """Return the commands of the tutorial, block by block."""
    return [block.replace(SET_UP, "") for block in re.findall(r"```console\n(.*?)```", TUTORIAL.read_text(), re.DOTALL)]


def run(commands: str, states: Path) -> str:
    """Run commands as a reader does who stops at the first one that fails."""
    done = subprocess.run(
        ["bash", "-euc", commands],
        cwd=CHECKOUT,
        env={**os.environ, "XDG_STATE_HOME": str(states)},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, f"{commands}\n{done.stdout}{done.stderr}"
    return done.stdout


def test_every_command_of_the_tutorial_does_what_is_written(state: StateDirectory, tmp_path: Path) -> None:
    *work, clean_up = blocks()
    printed = [run(commands, tmp_path) for commands in work]

    assert any("local-demo-1-35-v1" in text for text in printed), "the first release is built"
    assert "deployment.apps/demo-network-controller" in "".join(printed), "the addons are delivered"
    assert "demo-network-agent-health" not in printed[-1], "the second release has that Service no longer"
    assert "poddisruptionbudget.policy/demo-network-controller" in printed[-1]

    run(clean_up, tmp_path)
    assert teardown.marked(state.root) == []
    assert list(tmp_path.iterdir()) == []
