"""The progress bar of transfers on a slow connection, as a terminal shows it."""

from __future__ import annotations

import asyncio
import os
import pty
import random
import re
import sys
from typing import TYPE_CHECKING

import pytest

from tests.support.builders.stacks import TinyStack, config_map, publish, templates
from tests.support.running.csctl import call_csctl
from tests.support.servers.cutting_proxy import CuttingProxy

if TYPE_CHECKING:
    from pathlib import Path

    from tests.support.servers.registries import RegistryServer


STACK = TinyStack("slow")
COUNTER = re.compile(r"\r +\d+\.\d s  …\x1b\[K")
BAR = re.compile(r"\r\[#*-*\] +\d+%  0\.\d of 0\.5 MB  \d+ kB/s(?:  \d:\d\d left)?\x1b\[K")


@pytest.fixture
def release(tmp_path: Path) -> Path:
    """A release of half a megabyte."""
    name = STACK.release("v1")
    ballast = random.Random(1).randbytes(400_000).hex()
    return publish(tmp_path, name, STACK.files("v1", {"cni": templates(config_map("cni", ballast=ballast))}))


def on_terminal(*arguments: object) -> tuple[int, str]:
    """Run csctl on a terminal of 80 columns, and return its exit code and everything that it printed."""
    pid, terminal = pty.fork()
    if pid == 0:  # pragma: no cover - the process of csctl
        os.environ.update(COLUMNS="80", TERM="xterm")
        os.execv(sys.executable, [sys.executable, "-m", "clusterstacks.csctl.main", *map(str, arguments)])
    printed = b""
    try:
        while piece := os.read(terminal, 65536):
            printed += piece
    except OSError:  # the end of a terminal
        pass
    finally:
        os.close(terminal)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), printed.decode()


async def test_download_over_a_slow_connection_shows_a_bar_that_the_result_replaces(
    registry: RegistryServer, release: Path, tmp_path: Path
) -> None:
    pushed = await asyncio.to_thread(call_csctl, "push", release, f"{registry.host}/slow:{release.name}")
    async with CuttingProxy.started(registry.host) as proxy:
        proxy.rate = 100_000
        reference = f"{proxy.host}/slow:{release.name}"
        code, printed = await asyncio.to_thread(on_terminal, "pull", reference, "-d", tmp_path / "pulled")

    result = printed.split("\r\n")[0].rpartition("\x1b[K")
    assert (pushed, code) == (0, 0)
    assert BAR.search(printed)
    assert BAR.sub("", COUNTER.sub("", result[0] + result[1])) == "\r\x1b[K"
    assert result[2].startswith(f"{release.name} pulled into ")
