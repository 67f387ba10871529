"""Decides who holds a Lease, as client-go's leader election does, so that programs of both kinds exclude each other.

A holder renews the record. Others never compare its timestamps with their own clock: they remember when they saw the
record change last, by a clock of their own, and may take it once it has not changed for the duration written in it. A
holder that could not renew gives up earlier than that. So clocks may show any time, as long as they run about equally
fast (the deadline by 15/10 at most). Every write names the resource version that it is based on: of two that write at
once, one fails.

Source: k8s.io/client-go v0.36 tools/leaderelection.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final, TypeAlias

if TYPE_CHECKING:
    from datetime import datetime

    from clusterstacks.domain.objects import Manifest

RELEASED_SECONDS: Final = 1
"""Duration in a released record; source: client-go, as the API refuses 0."""


@dataclass(frozen=True, slots=True)
class LeaseDurations:
    """How long a lease lasts, in seconds. Source of the defaults: client-go and controller-runtime.

    Args:
        duration: How long others wait for a record that does not change.
        renew_deadline: When a holder gives up that could not renew. The difference from ``duration`` is for requests
            that are under way then, and for clocks that run unequally fast.
        retry: How often a holder renews and others look.
    """

    duration: int = 15
    renew_deadline: float = 10.0
    retry: float = 2.0


@dataclass(frozen=True, slots=True)
class LeaseRecord:
    """What a Lease says; empty fields where it says nothing."""

    holder: str = ""
    duration: int = 0
    acquired: str = ""
    renewed: str = ""
    transitions: int = 0


@dataclass(frozen=True, slots=True)
class ObservedRecord:
    """A record, and since when (in seconds of the local clock) it has been seen as it is."""

    record: LeaseRecord
    since: float


@dataclass(frozen=True, slots=True)
class LeaseWait:
    """Another one holds the lease; look again, and take it ``until`` this moment if nothing has changed."""

    holder: str
    until: float


@dataclass(frozen=True, slots=True)
class Take:
    """The lease is free, ran out, or is ours from before: try to become the holder."""


@dataclass(frozen=True, slots=True)
class Renew:
    """We hold the lease and have to give it up at ``until`` if it cannot be renewed by then."""

    until: float


@dataclass(frozen=True, slots=True)
class Lost:
    """We held the lease and may not go on."""

    reason: str


Decision: TypeAlias = LeaseWait | Take | Renew | Lost


def observe(before: ObservedRecord | None, record: LeaseRecord, now: float) -> ObservedRecord:
    """Note a record that was just read or written."""
    if before is not None and before.record == record:
        return before
    return ObservedRecord(record, now)


def decide(seen: ObservedRecord | None, identity: str, held_until: float | None, now: float) -> Decision:
    """Decide what to do about a lease.

    Args:
        seen: The record; None while there is none.
        identity: Ours.
        held_until: Until when we hold it: the moment at which the last successful renewal was *begun*, plus the renew
            deadline. None when we do not hold it.
        now: The local clock.
    """
    if held_until is not None:
        if now >= held_until:
            return Lost("it could not be renewed in time")
        if seen is not None and seen.record.holder != identity:
            return Lost(f"{seen.record.holder} took it" if seen.record.holder else "it was released by another process")
        return Renew(held_until)
    if seen is None or seen.record.holder in ("", identity):
        return Take()
    until = seen.since + seen.record.duration
    return Take() if now >= until else LeaseWait(seen.record.holder, until)


def held_record(before: LeaseRecord | None, identity: str, durations: LeaseDurations, now: datetime) -> LeaseRecord:
    """The record of a holder that takes or renews the lease now, by the wall clock."""
    stamp = micro_time(now)
    if before is None:
        return LeaseRecord(identity, durations.duration, stamp, stamp)
    if before.holder == identity:
        return replace(before, duration=durations.duration, renewed=stamp)
    return LeaseRecord(identity, durations.duration, stamp, stamp, before.transitions + 1)


def released_record(before: LeaseRecord, now: datetime) -> LeaseRecord:
    """The record of a lease that its holder gives back."""
    stamp = micro_time(now)
    return LeaseRecord("", RELEASED_SECONDS, stamp, stamp, before.transitions)


def read_record(lease: Manifest) -> LeaseRecord:
    """Read a Lease; a field that is not set counts as empty, as in client-go."""
    spec: dict[str, Any] = lease.get("spec") or {}
    return LeaseRecord(
        spec.get("holderIdentity") or "",
        spec.get("leaseDurationSeconds") or 0,
        spec.get("acquireTime") or "",
        spec.get("renewTime") or "",
        spec.get("leaseTransitions") or 0,
    )


def record_spec(record: LeaseRecord) -> Manifest:
    """The fields of a Lease's spec that a holder sets; others stay as they are."""
    return {
        "holderIdentity": record.holder,
        "leaseDurationSeconds": record.duration,
        "acquireTime": record.acquired,
        "renewTime": record.renewed,
        "leaseTransitions": record.transitions,
    }


def micro_time(moment: datetime) -> str:
    """Write a moment in UTC as Kubernetes' MicroTime: ``2026-01-31T12:00:00.000000Z``."""
    return moment.strftime("%Y-%m-%dT%H:%M:%S.%fZ")
