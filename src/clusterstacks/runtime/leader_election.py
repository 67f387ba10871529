"""Leader election: acquires a Lease, and allows services and writes only while it is held."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from clusterstacks.model.errors import DependencyError
from clusterstacks.net.kube.errors import AlreadyExists, Conflict
from clusterstacks.net.kube.resources import Resource
from clusterstacks.net.kube.write_gate import WriteGate
from clusterstacks.runtime.clock import SYSTEM_CLOCK, Clock, seconds_since_boot
from clusterstacks.runtime.leases import (
    LeaseDurations,
    LeaseRecord,
    LeaseWait,
    Lost,
    ObservedRecord,
    decide_leadership,
    held_record,
    observe,
    read_record,
    record_spec,
    released_record,
)

if TYPE_CHECKING:
    from clusterstacks.model.objects import Manifest, ObjectKey
    from clusterstacks.net.kube.client import Client

Service: TypeAlias = Callable[[], Awaitable[None]]

LEASES: Final = Resource("coordination.k8s.io", "v1", "Lease", "leases", namespaced=True)

REPORT_INTERVAL: Final = timedelta(minutes=10)
"""Interval at which a waiting process logs the holder again (arbitrary)."""

RELEASE_ATTEMPTS: Final = 2
"""The first attempt fails if a pending renewal is executed before it."""

log = logging.getLogger(__name__)


class LeaseLostError(DependencyError):
    """The process lost the lease and must end: its state may be outdated, and another process may write."""

    def __init__(self, message: str) -> None:
        super().__init__("LeaseLost", message)


class LeaderElector:
    """Acquires and renews one lease for one process; runs once.

    Services of ``while_held`` start when the lease is held. A cancelled ``run`` waits for their end and then releases
    the lease, so that the next holder can start immediately. ``gate`` is open only while the lease is certainly held.

    ``client`` must not use the gate; its deadline limits one attempt and is at most half of the renew deadline.
    ``identity`` is unique among running processes; a process that keeps it over a restart gets its lease back
    immediately. ``report`` is called with True when the lease is acquired, and with False when it is lost or released.
    """

    def __init__(  # noqa: PLR0913 - half of them have defaults
        self,
        client: Client,
        lease: ObjectKey,
        identity: str,
        *,
        durations: LeaseDurations = LeaseDurations(),  # noqa: B008 - an immutable value
        report: Callable[[bool], None] = lambda _: None,
        clock: Clock = SYSTEM_CLOCK,
        now: Callable[[], float] = seconds_since_boot,
    ) -> None:
        self.gate = WriteGate(now)
        self._client = client
        self._lease = lease
        self._identity = identity
        self._durations = durations
        self._report = report
        self._clock = clock
        self._now = now
        self._seen: ObservedRecord | None = None
        self._version = ""  # resource version of the observed Lease; empty if there is none
        self._certain = False  # the observed record is our own last write
        self._was_read = False
        self._wrote = False
        self._held_until: float | None = None
        self._held = asyncio.Event()
        self._services = 0
        self._idle = asyncio.Event()
        self._idle.set()
        self._last_error = ""
        self._logged_holder: tuple[str, float] = ("", 0.0)

    def problem(self) -> str:
        """Return why the Lease has not been read yet; empty once it was read, even if another process holds it."""
        if self._was_read:
            return ""
        return self._last_error or f"Lease {self._lease} has not been read yet"

    def while_held(self, service: Service) -> Callable[[], Coroutine[Any, Any, None]]:
        """Wrap a service: it starts when the lease is held, and the lease is not released before it ends."""

        async def run() -> None:
            await self._held.wait()
            self._services += 1
            self._idle.clear()
            try:
                await service()
            finally:
                self._services -= 1
                if not self._services:
                    self._idle.set()

        return run

    async def run(self) -> None:
        """Acquire the lease and renew it until cancelled, then release it; LeaseLostError if it is lost meanwhile."""
        rounds = asyncio.create_task(self._run_rounds(), name=f"lease {self._lease}")
        try:
            await asyncio.wait({rounds})
        except asyncio.CancelledError:
            try:
                await self._idle.wait()  # the lease is renewed meanwhile
            finally:
                rounds.cancel()
                await asyncio.gather(rounds, return_exceptions=True)
                await self._release()
            raise
        rounds.result()

    async def _run_rounds(self) -> None:
        while True:
            await self._clock.sleep(await self._round())

    async def _round(self) -> float:
        """Read, decide and act once; return the seconds until the next round."""
        retry = self._durations.retry
        try:
            self._raise_if_lost()
            async with asyncio.timeout(None if self._held_until is None else self._held_until - self._now()):
                if not self._certain:
                    await self._read()
                    self._raise_if_lost()
                decision = decide_leadership(self._seen, self._identity, self._held_until, self._now())
                if isinstance(decision, LeaseWait):
                    self._log_holder(decision.holder)
                    return max(min(retry, decision.until - self._now()), 0.0)
                await self._take_or_renew()
        except (Conflict, AlreadyExists):
            self._certain = False  # concurrent write: the next round reads the Lease again
        except TimeoutError:
            self._certain = False
        except LeaseLostError:
            raise
        except DependencyError as error:
            self._certain = False
            self._log_error(error.message)
        return retry if self._held_until is None else max(min(retry, self._held_until - self._now()), 0.0)

    def _raise_if_lost(self) -> None:
        decision = decide_leadership(self._seen, self._identity, self._held_until, self._now())
        if isinstance(decision, Lost):
            self._stop_writes()
            raise LeaseLostError(
                f"Lease {self._lease} is lost: {decision.reason}. This process ends, because another process may write"
            )

    def _stop_writes(self) -> None:
        self.gate.close()
        if self._held_until is not None:
            self._held_until = None
            self._report(False)

    async def _read(self) -> None:
        self._note(await self._client.find(LEASES, self._lease.name, self._lease.namespace))

    async def _take_or_renew(self) -> None:
        """Take or renew the lease; its time counts from the start of the request."""
        before = self._seen.record if self._seen is not None else None
        began = self._now()
        await self._write(held_record(before, self._identity, self._durations, self._clock.now()))
        self._certain = True
        until = began + self._durations.renew_deadline
        if self._now() >= until:
            return  # the response was too late
        self.gate.open_until(until)
        first, self._held_until = self._held_until is None, until
        if self._last_error:
            log.info("Lease %s can be read and written again", self._lease)
            self._last_error = ""
        if first:
            log.info("Lease %s is held by this process, %s", self._lease, self._identity)
            self._report(True)
            self._held.set()

    async def _write(self, record: LeaseRecord) -> None:
        name, namespace = self._lease.name, self._lease.namespace
        self._wrote = True
        spec = record_spec(record)
        if self._version:
            patch = {"metadata": {"resourceVersion": self._version}, "spec": spec}
            self._note(await self._client.merge_patch(LEASES, name, patch, namespace))
        else:
            metadata = {"name": name, "namespace": namespace}
            lease = {"apiVersion": LEASES.api_version, "kind": LEASES.kind, "metadata": metadata, "spec": spec}
            self._note(await self._client.create(LEASES, lease))

    def _note(self, lease: Manifest | None) -> None:
        self._was_read = True
        if lease is None:
            self._seen, self._version = None, ""
        else:
            self._seen = observe(self._seen, read_record(lease), self._now())
            self._version = lease["metadata"]["resourceVersion"]

    async def _release(self) -> None:
        """Release the lease if this process holds it; if that fails, others wait until it expires."""
        self._stop_writes()
        if not self._wrote:
            return
        for _ in range(RELEASE_ATTEMPTS):
            try:
                await self._read()
                if self._seen is None or self._seen.record.holder != self._identity:
                    return
                await self._write(released_record(self._seen.record, self._clock.now()))
            except Conflict:
                continue
            except DependencyError as error:
                log.warning("Lease %s is not released: %s", self._lease, error)
            else:
                log.info("Lease %s is released", self._lease)
            return

    def _log_holder(self, holder: str) -> None:
        if self._last_error:
            log.info("Lease %s can be read and written again", self._lease)
            self._last_error = ""
        known, since = self._logged_holder
        if holder != known or self._now() - since >= REPORT_INTERVAL.total_seconds():
            self._logged_holder = (holder, self._now())
            log.info("Lease %s is held by %s: this process writes nothing and waits for it", self._lease, holder)

    def _log_error(self, text: str) -> None:
        if text != self._last_error:
            self._last_error = text
            log.warning("Lease %s cannot be read or written: %s; retrying", self._lease, text)
