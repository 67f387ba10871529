"""Controller: takes keys from a work queue and reconciles them."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Final, TypeAlias

from clusterstacks.model.errors import DependencyError, SpecError
from clusterstacks.model.objects import ObjectKey
from clusterstacks.model.outcomes import Stalled
from clusterstacks.runtime.clock import SYSTEM_CLOCK, Clock
from clusterstacks.runtime.log_format import log_context
from clusterstacks.runtime.queue import QueueClosedError, WorkQueue
from clusterstacks.runtime.tracing import span

if TYPE_CHECKING:
    from clusterstacks.runtime.metrics import Metrics

Reconcile: TypeAlias = Callable[[ObjectKey], Awaitable[timedelta | Stalled | None]]
"""Reconciles one object. Returns the time until the next reconcile, None to wait for the next change, or Stalled if a
person must act first."""

RECONCILE_DEADLINE: Final = timedelta(minutes=10)
"""Timeout of a reconcile (arbitrary); everything it waits for has a shorter deadline, so exceeding it is a bug."""

SPEC_RECHECK: Final = timedelta(minutes=5)
"""Interval of reconciles of a stalled object, for changes without an event, e.g. of permissions; the resync period of
the Go operator."""

STOP_DEADLINE: Final = timedelta(seconds=20)
"""Leaves 10 s of the default terminationGracePeriodSeconds (30 s)."""

log = logging.getLogger(__name__)


class Controller:
    """A work queue and the workers that reconcile its keys.

    Every exception of a reconcile is counted and retried. A DependencyError is logged and retried with back-off up to
    2 min. A SpecError, which a person must fix, is retried at the next change or after ``SPEC_RECHECK``. Every other
    exception is a bug: it is logged with its traceback and retried with back-off. A stalled outcome is counted, and
    logged once per object and reason.

    A controller runs once. After the cancellation of ``run`` no new reconcile starts.
    """

    def __init__(
        self, name: str, reconcile: Reconcile, *, workers: int, metrics: Metrics, clock: Clock = SYSTEM_CLOCK
    ) -> None:
        self.name = name
        self._reconcile = reconcile
        self._workers = workers
        self._clock = clock
        self._metrics = metrics.controller(name)
        self.queue: WorkQueue[ObjectKey] = WorkQueue(self._metrics.queue_seconds.observe)
        self._metrics.watch_depth(self.queue.__len__)
        self._metrics.max_concurrent.set(workers)
        self._stalled: dict[ObjectKey, str] = {}
        self._metrics.watch_stalled(self._stalled.__len__)
        self._running: dict[ObjectKey, float] = {}
        metrics.before_scrape(self._measure)

    def enqueue(self, key: ObjectKey) -> None:
        """Queue the object; before ``run`` the keys only collect."""
        self.queue.add(key)

    @property
    def is_idle(self) -> bool:
        """True if no reconcile runs, and no key is to be processed now."""
        return not self._running and not len(self.queue)

    async def run(self) -> None:
        """Reconcile until cancelled; running reconciles then have ``STOP_DEADLINE`` to end."""
        workers = [
            asyncio.create_task(self._work(), name=f"{self.name} worker {number}") for number in range(self._workers)
        ]
        try:
            ended, _ = await asyncio.wait(workers, return_when=asyncio.FIRST_COMPLETED)
        finally:
            self.queue.close()
            await self._stop(workers)
        for worker in ended:
            worker.result()  # no Exception ends a worker, so the process is ending

    async def _stop(self, workers: Sequence[asyncio.Task[None]]) -> None:
        try:
            _, late = await asyncio.wait(workers, timeout=STOP_DEADLINE.total_seconds())
            if late:
                log.warning(
                    "%s: %d reconciles did not end within %s and are cancelled", self.name, len(late), STOP_DEADLINE
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
            began = self._running[key] = self._clock.monotonic()
            try:
                with (
                    self._metrics.busy.track_inprogress(),
                    log_context(self.name, key) as identity,
                    span("reconcile", controller=self.name, object=key, reconcileID=identity),
                ):
                    await self._attempt(key)
            finally:
                del self._running[key]
                self._metrics.seconds.observe(self._clock.monotonic() - began)
                self.queue.done(key)

    def _measure(self) -> None:
        now = self._clock.monotonic()
        running = [now - began for began in self._running.values()]
        self._metrics.note_running(longest=max(running, default=0.0), together=sum(running))
        self._metrics.note_queue(self.queue.added, self.queue.retried, self.queue.oldest_wait())

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
            if _is_cancelled():
                raise
            again = self._retry_bug(key, error)  # something inside was cancelled, not this task
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


def _is_cancelled() -> bool:
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0
