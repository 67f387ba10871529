"""Reports objects that cannot be read: in the log, as a metric, and as an event of the object."""

from __future__ import annotations

import asyncio
import logging
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from clusterstacks.runtime.clock import SYSTEM_CLOCK
from clusterstacks.runtime.component_health import REPEAT_INTERVAL

if TYPE_CHECKING:
    from clusterstacks.net.kube.resources import UnreadableObject
    from clusterstacks.runtime.clock import Clock
    from clusterstacks.runtime.events import EventRecorder
    from clusterstacks.runtime.informer import Informer
    from clusterstacks.runtime.metrics import Metrics

REASON: Final = "ObjectUnreadable"

BATCH_SIZE: Final = 20
"""Objects per batch; the pause between batches prevents thousands of objects from flooding log and API server."""

PAUSE_SECONDS: Final = 10.0
"""Pause between two batches (arbitrary)."""

log = logging.getLogger(__name__)


class UnreadableObjectReporter:
    """Reports the unreadable objects of informers, each at every ``REPEAT_INTERVAL``."""

    def __init__(self, events: EventRecorder, metrics: Metrics, *, clock: Clock = SYSTEM_CLOCK) -> None:
        self._events = events
        self._metrics = metrics
        self._clock = clock
        self._informers: list[Informer] = []
        self._reported_at: dict[tuple[str, str], float] = {}
        self._unreported = asyncio.Event()

    def follow(self, informer: Informer) -> None:
        """Report the unreadable objects of this informer as well."""
        self._informers.append(informer)
        informer.on_unreadable = self._unreported.set
        self._metrics.watch_unreadable(str(informer), informer.unreadable.__len__)

    async def run(self) -> None:
        """Report objects in batches until cancelled."""
        while True:
            with suppress(TimeoutError):
                async with asyncio.timeout(REPEAT_INTERVAL.total_seconds()):
                    await self._unreported.wait()
            await self._report_batch()
            await self._clock.sleep(PAUSE_SECONDS)

    async def _report_batch(self) -> None:
        self._unreported.clear()
        now = self._clock.monotonic()
        present = {
            (str(informer), str(key)): unreadable
            for informer in self._informers
            for key, unreadable in informer.unreadable.items()
        }
        self._reported_at = {name: at for name, at in self._reported_at.items() if name in present}
        due = [name for name in present if now - self._reported_at.get(name, -1e9) >= REPEAT_INTERVAL.total_seconds()]
        for kind, key in due[:BATCH_SIZE]:
            self._reported_at[kind, key] = now
            await self._report(kind, present[kind, key])
        if len(due) > BATCH_SIZE:
            log.warning("%d more objects cannot be read", len(due) - BATCH_SIZE)
            self._unreported.set()

    async def _report(self, kind: str, unreadable: UnreadableObject) -> None:
        message = f"{unreadable.why}, so it is skipped: simplify or delete it"
        if not unreadable.key.name:
            log.warning("An object of %s whose name cannot be read %s", kind, message)
            return
        log.warning("%s %s %s", kind, unreadable.key, message)
        await self._events.record(unreadable.object, "Warning", REASON, f"The object {message}")
