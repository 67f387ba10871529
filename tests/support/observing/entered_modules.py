"""Plugin of pytest that prints the modules whose functions run until the addons of a Cluster are ready.

It observes from the creation of the Cluster on, and everything of the process: also informers, and the client of the
test. ``make house WHAT=delivery`` runs it with a test of one addon.
"""

from __future__ import annotations

import sys
import threading
from typing import TYPE_CHECKING, Any, Final

import pytest

from tests.support.running.world import World

if TYPE_CHECKING:
    from types import FrameType

ENTERED: Final[set[str]] = set()


def _note(frame: FrameType, event: str, _arg: object) -> None:
    if event == "call":
        ENTERED.add(frame.f_globals.get("__name__", ""))


@pytest.fixture(autouse=True)
def entered(monkeypatch: pytest.MonkeyPatch) -> None:
    """Observe between the two calls of a test."""
    create, wait = World.cluster, World.addons_ready

    async def cluster(self: World, *args: Any, **topology: Any) -> Any:
        threading.setprofile(_note)
        sys.setprofile(_note)
        return await create(self, *args, **topology)

    async def addons_ready(self: World, *args: Any, **namespace: Any) -> Any:
        found = await wait(self, *args, **namespace)
        sys.setprofile(None)
        threading.setprofile(None)
        return found

    monkeypatch.setattr(World, "cluster", cluster)
    monkeypatch.setattr(World, "addons_ready", addons_ready)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Print the modules."""
    for name in sorted(ENTERED):
        terminalreporter.write_line(name)
