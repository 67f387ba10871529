"""Names objects that cannot be read: in the log, in a metric, and by an event where their owner looks."""

from __future__ import annotations

import asyncio
import logging
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from clusterstacks.runtime.clock import SYSTEM_CLOCK
from clusterstacks.runtime.health import REPEAT_INTERVAL

if TYPE_CHECKING:
    from clusterstacks.kube.resources import UnreadableObject
    from clusterstacks.runtime.clock import Clock
    from clusterstacks.runtime.events import EventRecorder
    from clusterstacks.runtime.informer import Informer
    from clusterstacks.runtime.metrics import Metrics

REASON: Final = "ObjectUnreadable"
"""Reason of the events."""

NAMED_AT_ONCE: Final = 20
"""Objects named in a row; then there is a pause, so that a thousand of them do not flood log and API server."""

PAUSE_SECONDS: Final = 10.0
"""Between two rows (arbitrary)."""

log = logging.getLogger(__name__)


class UnreadableObjectReporter:
    """Names the unreadable objects of informers, each again at every ``REPEAT_INTERVAL``.

    Args:
        events: Writes the events.
        metrics: Shows their number by kind.
        clock: Time.
    """

    def __init__(self, events: EventRecorder, metrics: Metrics, *, clock: Clock = SYSTEM_CLOCK) -> None:
        self._events = events
        self._metrics = metrics
        self._clock = clock
        self._informers: list[Informer] = []
        self._named: dict[tuple[str, str], float] = {}
        self._found = asyncio.Event()

    def follow(self, informer: Informer) -> None:
        """Name the unreadable objects of one informer more."""
        self._informers.append(informer)
        informer.on_unreadable = self._found.set
        self._metrics.watch_unreadable(str(informer), informer.unreadable.__len__)

    async def run(self) -> None:
        """Name them until cancelled."""
        while True:
            with suppress(TimeoutError):
                async with asyncio.timeout(REPEAT_INTERVAL.total_seconds()):
                    await self._found.wait()
            await self._name_some()
            await self._clock.sleep(PAUSE_SECONDS)

    async def _name_some(self) -> None:
        self._found.clear()
        now = self._clock.monotonic()
        present = {
            (str(informer), str(key)): remnant
            for informer in self._informers
            for key, remnant in informer.unreadable.items()
        }
        self._named = {name: at for name, at in self._named.items() if name in present}
        due = [name for name in present if now - self._named.get(name, -1e9) >= REPEAT_INTERVAL.total_seconds()]
        for kind, key in due[:NAMED_AT_ONCE]:
            self._named[kind, key] = now
            await self._name(kind, present[kind, key])
        if len(due) > NAMED_AT_ONCE:
            log.warning("%d more objects cannot be read", len(due) - NAMED_AT_ONCE)
            self._found.set()

    async def _name(self, kind: str, remnant: UnreadableObject) -> None:
        message = f"{remnant.why}, so it is skipped: simplify or delete it"
        if not remnant.key.name:
            log.warning("An object of %s whose name cannot be read %s", kind, message)
            return
        log.warning("%s %s %s", kind, remnant.key, message)
        await self._events.record(remnant.object, "Warning", REASON, f"The object {message}")
