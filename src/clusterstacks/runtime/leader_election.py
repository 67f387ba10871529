"""Competes for a Lease, holds it, and lets services and writes run only meanwhile."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from clusterstacks.domain.errors import DependencyError
from clusterstacks.kube.errors import AlreadyExists, Conflict
from clusterstacks.kube.resources import Resource
from clusterstacks.kube.write_gate import WriteGate
from clusterstacks.runtime.clock import SYSTEM_CLOCK, Clock, seconds_since_boot
from clusterstacks.runtime.leases import (
    LeaseDurations,
    LeaseRecord,
    LeaseWait,
    Lost,
    ObservedRecord,
    decide,
    held_record,
    observe,
    read_record,
    record_spec,
    released_record,
)

if TYPE_CHECKING:
    from clusterstacks.domain.objects import Manifest, ObjectKey
    from clusterstacks.kube.client import Client

Service: TypeAlias = Callable[[], Awaitable[None]]

LEASES: Final = Resource("coordination.k8s.io", "v1", "Lease", "leases", namespaced=True)

REPORT_INTERVAL: Final = timedelta(minutes=10)
"""How often a process that waits says so again (arbitrary)."""

RELEASE_ATTEMPTS: Final = 2
"""The first one fails if a renewal that was under way came first."""

log = logging.getLogger(__name__)


class LeaseLostError(DependencyError):
    """The process held the lease and lost it. It must end: what it knows may be outdated, and another one may write."""

    def __init__(self, message: str) -> None:
        super().__init__("LeaseLost", message)


class LeaderElector:
    """Competes for one lease for one process; runs once.

    Services run by ``while_held`` start when the lease is held. A cancelled ``run`` waits for their end before it gives
    the lease back, so that the next holder can start at once. ``gate`` is open exactly as long as the lease is certain.

    Args:
        client: Not behind the gate. Its deadline bounds one attempt: at most half of the renew deadline is useful.
        lease: Namespace and name.
        identity: Differs from that of every other process that runs; a process that has it again after a restart gets
            its lease back at once.
        durations: How long a lease lasts.
        report: Called with True when the lease is held, and with False when it is not any more.
        clock: Wall time and sleep.
        now: Seconds of a clock that counts also while the machine is suspended.
    """

    def __init__(  # noqa: PLR0913 - what it joins; half of it has defaults
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
        self._version = ""  # the resource version of what was seen; empty where there is no Lease
        self._certain = False  # what was seen is our own last write
        self._answered = False
        self._wrote = False
        self._held_until: float | None = None
        self._held = asyncio.Event()
        self._services = 0
        self._idle = asyncio.Event()
        self._idle.set()
        self._complaint = ""
        self._waits_for: tuple[str, float] = ("", 0.0)

    def problem(self) -> str:
        """Why the lease is not even known yet; empty once it is. To wait for another holder is no problem."""
        if self._answered:
            return ""
        return self._complaint or f"Lease {self._lease} was not read yet"

    def while_held(self, service: Service) -> Callable[[], Coroutine[Any, Any, None]]:
        """Have a service begin when the lease is held; the lease is not released before the service ended."""

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
        """Compete for the lease and hold it until cancelled; then release it.

        Raises:
            LeaseLostError: It was held and could not be kept.
        """
        competing = asyncio.create_task(self._compete(), name=f"lease {self._lease}")
        try:
            await asyncio.wait({competing})
        except asyncio.CancelledError:
            try:
                await self._idle.wait()  # it is renewed meanwhile
            finally:
                competing.cancel()
                await asyncio.gather(competing, return_exceptions=True)
                await self._release()
            raise
        competing.result()

    async def _compete(self) -> None:
        while True:
            await self._clock.sleep(await self._round())

    async def _round(self) -> float:
        """Look, decide and act once; return the seconds until the next time."""
        retry = self._durations.retry
        try:
            self._give_up_if_lost()
            async with asyncio.timeout(None if self._held_until is None else self._held_until - self._now()):
                if not self._certain:
                    await self._read()
                    self._give_up_if_lost()
                decision = decide(self._seen, self._identity, self._held_until, self._now())
                if isinstance(decision, LeaseWait):
                    self._say_who(decision.holder)
                    return max(min(retry, decision.until - self._now()), 0.0)
                await self._hold()
        except (Conflict, AlreadyExists):
            self._certain = False  # another one was quicker, or edited the Lease: the next round shows
        except TimeoutError:
            self._certain = False
        except LeaseLostError:
            raise
        except DependencyError as error:
            self._certain = False
            self._complain(error.message)
        return retry if self._held_until is None else max(min(retry, self._held_until - self._now()), 0.0)

    def _give_up_if_lost(self) -> None:
        decision = decide(self._seen, self._identity, self._held_until, self._now())
        if isinstance(decision, Lost):
            self._stop_writes()
            raise LeaseLostError(
                f"Lease {self._lease} is lost: {decision.reason}. This process ends, because another one may write now"
            )

    def _stop_writes(self) -> None:
        self.gate.close()
        if self._held_until is not None:
            self._held_until = None
            self._report(False)

    async def _read(self) -> None:
        self._note(await self._client.find(LEASES, self._lease.name, self._lease.namespace))

    async def _hold(self) -> None:
        """Take or renew the lease; it is held from the moment at which the request was begun."""
        before = self._seen.record if self._seen is not None else None
        began = self._now()
        await self._write(held_record(before, self._identity, self._durations, self._clock.now()))
        self._certain = True
        until = began + self._durations.renew_deadline
        if self._now() >= until:
            return  # the answer came too late to rely on
        self.gate.open_until(until)
        first, self._held_until = self._held_until is None, until
        if self._complaint:
            log.info("Lease %s: answered again", self._lease)
            self._complaint = ""
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
        self._answered = True
        if lease is None:
            self._seen, self._version = None, ""
        else:
            self._seen = observe(self._seen, read_record(lease), self._now())
            self._version = lease["metadata"]["resourceVersion"]

    async def _release(self) -> None:
        """Give the lease back if it is ours; failing that, others wait until it runs out."""
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

    def _say_who(self, holder: str) -> None:
        if self._complaint:
            log.info("Lease %s: answered again", self._lease)
            self._complaint = ""
        known, since = self._waits_for
        if holder != known or self._now() - since >= REPORT_INTERVAL.total_seconds():
            self._waits_for = (holder, self._now())
            log.info("Lease %s is held by %s: this process writes nothing and waits for it", self._lease, holder)

    def _complain(self, text: str) -> None:
        if text != self._complaint:
            self._complaint = text
            log.warning("Lease %s cannot be read or written: %s; trying again", self._lease, text)
