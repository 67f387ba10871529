"""The tutorial for authors works as it is written, in one shell and with the output it shows."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from clusterstacks.dev import teardown
from clusterstacks.dev.binaries import cache_directory, silent
from clusterstacks.dev.state_directory import StateDirectory
from tests.support.running.doc_pages import CHECKOUT, Page

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture
def state(tmp_path: Path) -> Iterator[StateDirectory]:
    state = StateDirectory(tmp_path / "state" / "cluster-stacks" / "default")
    yield state
    teardown.down(state, silent)


def test_every_command_of_the_authors_tutorial_does_what_is_written(state: StateDirectory, tmp_path: Path) -> None:
    environ = {
        **os.environ,
        "HOME": str(tmp_path),
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
        "XDG_CACHE_HOME": str(cache_directory(os.environ).parents[1]),
        "XDG_STATE_HOME": str(tmp_path / "state"),
    }

    Page.read("tutorial/first-stack.md").run(CHECKOUT, environ, seconds=500)  # its files are in ~/stacks

    assert teardown.marked(state.root) == []
    assert sorted(path.name for path in (tmp_path / "stacks").iterdir()) == [
        ".gitignore",
        ".release",
        "providers",
        "releases",
    ]
