"""Runs one controller: takes keys from its queue and reconciles them, come what may."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Final, TypeAlias

from clusterstacks.domain.errors import DependencyError, SpecError
from clusterstacks.domain.objects import ObjectKey
from clusterstacks.domain.outcomes import Stalled
from clusterstacks.runtime.clock import SYSTEM_CLOCK, Clock
from clusterstacks.runtime.log_format import log_context
from clusterstacks.runtime.queue import QueueClosedError, WorkQueue

if TYPE_CHECKING:
    from clusterstacks.runtime.metrics import Metrics

Reconcile: TypeAlias = Callable[[ObjectKey], Awaitable[timedelta | Stalled | None]]
"""Bring one object to what it should be; return when to look again, None for at its next change, or Stalled where a
person must act first."""

RECONCILE_DEADLINE: Final = timedelta(minutes=10)
"""A reconcile that takes longer waits for something without a deadline, which is a bug (arbitrary)."""

SPEC_RECHECK: Final = timedelta(minutes=5)
"""How soon a stalled object is looked at again, for what no event tells of, e.g. a right that was granted meanwhile. As
the Go operator's resync."""

STOP_DEADLINE: Final = timedelta(seconds=20)
"""Leaves 10 s of the 30 s a pod has for its end by default (terminationGracePeriodSeconds)."""

log = logging.getLogger(__name__)


class Controller:
    """A queue of keys and the workers that reconcile them.

    Whatever a reconcile raises is counted and retried: a DependencyError with back-off up to 2 min and a line in the
    log, a SpecError, which a person must mend, at the next change or after ``SPEC_RECHECK``, and anything else, being a
    bug, with back-off and its trace. A stalled outcome is counted as such and logged once for each object and reason.
    Cancelling ``run`` stops it in order: nothing new begins, what runs has
    ``STOP_DEADLINE`` to end. A host runs once; ``enqueue`` before that collects keys.
    """

    def __init__(
        self, name: str, reconcile: Reconcile, *, workers: int, metrics: Metrics, clock: Clock = SYSTEM_CLOCK
    ) -> None:
        self.name = name
        self.queue: WorkQueue[ObjectKey] = WorkQueue()
        self._reconcile = reconcile
        self._workers = workers
        self._clock = clock
        self._metrics = metrics.controller(name)
        self._metrics.watch_depth(self.queue.__len__)
        self._stalled: dict[ObjectKey, str] = {}
        self._metrics.watch_stalled(self._stalled.__len__)

    def enqueue(self, key: ObjectKey) -> None:
        """Have the object looked at soon."""
        self.queue.add(key)

    async def run(self) -> None:
        """Reconcile until cancelled."""
        workers = [
            asyncio.create_task(self._work(), name=f"{self.name} worker {number}") for number in range(self._workers)
        ]
        try:
            ended, _ = await asyncio.wait(workers, return_when=asyncio.FIRST_COMPLETED)
        finally:
            self.queue.close()
            await self._stop(workers)
        for worker in ended:
            worker.result()  # no Exception ends a worker, so this can only be the end of the process

    async def _stop(self, workers: Sequence[asyncio.Task[None]]) -> None:
        try:
            _, late = await asyncio.wait(workers, timeout=STOP_DEADLINE.total_seconds())
            if late:
                log.warning(
                    "%s: %d reconciles did not end in %s and are cancelled", self.name, len(late), STOP_DEADLINE
                )
        finally:
            for worker in workers:
                worker.cancel()
            await asyncio.gather(*workers, return_exceptions=True)

    async def _work(self) -> None:
        while True:
            try:
                key = await self.queue.get()
            except QueueClosedError:
                return
            began = self._clock.monotonic()
            try:
                with self._metrics.busy.track_inprogress(), log_context(self.name, key):
                    await self._attempt(key)
            finally:
                self._metrics.seconds.observe(self._clock.monotonic() - began)
                self.queue.done(key)

    async def _attempt(self, key: ObjectKey) -> None:
        try:
            async with asyncio.timeout(RECONCILE_DEADLINE.total_seconds()):
                again = await self._reconcile(key)
        except DependencyError as error:
            self._metrics.failed.inc()
            again = self.queue.back_off(key, first=error.retry)
            log.warning("%s; next attempt in %.0f s", error, again.total_seconds())
        except SpecError as error:
            self._metrics.failed.inc()
            again = SPEC_RECHECK
            log.warning("%s", error)
        except asyncio.CancelledError as error:
            if _being_cancelled():
                raise
            again = self._retry_bug(key, error)  # something inside was cancelled and nobody minded it
        except Exception as error:  # noqa: BLE001 - a bug in one reconcile must not stop the others
            again = self._retry_bug(key, error)
        else:
            again = self._ended(key, again)
        if again is not None:
            self.queue.add_after(key, again)

    def _ended(self, key: ObjectKey, outcome: timedelta | Stalled | None) -> timedelta | None:
        self.queue.forget(key)
        if not isinstance(outcome, Stalled):
            self._metrics.succeeded.inc()
            self._stalled.pop(key, None)
            return outcome
        self._metrics.stalled.inc()
        if self._stalled.get(key) != outcome.reason:
            self._stalled[key] = outcome.reason
            log.warning("Stalled until a person acts: %s: %s", outcome.reason, outcome.message)
        return SPEC_RECHECK

    def _retry_bug(self, key: ObjectKey, error: BaseException) -> timedelta:
        self._metrics.bugs.inc()
        delay = self.queue.back_off(key)
        log.error("Unexpected failure, please report it; next attempt in %.0f s", delay.total_seconds(), exc_info=error)
        return delay


def _being_cancelled() -> bool:
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0
