"""Lease decisions of leader election, compatible with client-go, so that both kinds of programs exclude each other.

The holder renews the record. Other processes never compare its timestamps with their own clock: they record, by their
own clock, when they observed its last change, and take the lease when it has not changed for the duration in the
record. A holder that cannot renew gives up earlier. So clocks may show any time if they run at about the same speed
(the ratio must be below 15/10). Every write contains the resource version it is based on, so one of two concurrent
writes fails.

Source: k8s.io/client-go v0.36 tools/leaderelection.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final, TypeAlias

if TYPE_CHECKING:
    from datetime import datetime

    from clusterstacks.model.objects import Manifest

RELEASED_SECONDS: Final = 1
"""Duration in a released record, as in client-go; the API refuses 0."""


@dataclass(frozen=True, slots=True)
class LeaseDurations:
    """Durations of a lease in seconds. Source of the defaults: client-go and controller-runtime."""

    duration: int = 15
    """Time that other processes wait for a change of the record (LeaseDuration)."""
    renew_deadline: float = 10.0
    """Time after which a holder that cannot renew gives up (RenewDeadline); shorter than ``duration`` by what pending
    requests and clocks of different speed need."""
    retry: float = 2.0
    """Interval between attempts to renew or take the lease (RetryPeriod)."""


@dataclass(frozen=True, slots=True)
class LeaseRecord:
    """Content of a Lease; fields that are not set are empty or 0."""

    holder: str = ""
    duration: int = 0
    acquired: str = ""
    renewed: str = ""
    transitions: int = 0


@dataclass(frozen=True, slots=True)
class ObservedRecord:
    """A record, and the time of its last observed change (seconds of the local clock)."""

    record: LeaseRecord
    since: float


@dataclass(frozen=True, slots=True)
class LeaseWait:
    """Another process holds the lease; it may be taken at ``until`` if the record does not change."""

    holder: str
    until: float


@dataclass(frozen=True, slots=True)
class Take:
    """The lease is free, expired, or held by this identity since before a restart: try to take it."""


@dataclass(frozen=True, slots=True)
class Renew:
    """This process holds the lease, until ``until`` if it cannot be renewed."""

    until: float


@dataclass(frozen=True, slots=True)
class Lost:
    """This process held the lease and must stop writing."""

    reason: str


Decision: TypeAlias = LeaseWait | Take | Renew | Lost


def observe(before: ObservedRecord | None, record: LeaseRecord, now: float) -> ObservedRecord:
    """Update the observation with a record that was just read or written at ``now``."""
    if before is not None and before.record == record:
        return before
    return ObservedRecord(record, now)


def decide_leadership(seen: ObservedRecord | None, identity: str, held_until: float | None, now: float) -> Decision:
    """Decide whether to take, renew or wait for a lease, or whether it is lost.

    ``seen`` is None if there is no Lease. ``held_until`` is the start of the last successful renewal plus the renew
    deadline, by the same local clock as ``now``; None if this process is not the holder.
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


def has_ended(seen: ObservedRecord, now: float) -> bool:
    """Return whether nobody holds a lease whose record was read at ``now``, so that its last holder writes no more."""
    return not seen.record.holder or now >= seen.since + seen.record.duration


def held_record(before: LeaseRecord | None, identity: str, durations: LeaseDurations, now: datetime) -> LeaseRecord:
    """Return the record that takes or renews the lease at this wall time."""
    stamp = micro_time(now)
    if before is None:
        return LeaseRecord(identity, durations.duration, stamp, stamp)
    if before.holder == identity:
        return replace(before, duration=durations.duration, renewed=stamp)
    return LeaseRecord(identity, durations.duration, stamp, stamp, before.transitions + 1)


def released_record(before: LeaseRecord, now: datetime) -> LeaseRecord:
    """Return a record without a holder, as client-go writes it."""
    stamp = micro_time(now)
    return LeaseRecord("", RELEASED_SECONDS, stamp, stamp, before.transitions)


def read_record(lease: Manifest) -> LeaseRecord:
    """Read the spec of a Lease, whose fields are all optional."""
    spec: dict[str, Any] = lease.get("spec") or {}
    return LeaseRecord(
        spec.get("holderIdentity") or "",
        spec.get("leaseDurationSeconds") or 0,
        spec.get("acquireTime") or "",
        spec.get("renewTime") or "",
        spec.get("leaseTransitions") or 0,
    )


def record_spec(record: LeaseRecord) -> Manifest:
    """Return the fields of the spec that a holder sets; other fields are preserved."""
    return {
        "holderIdentity": record.holder,
        "leaseDurationSeconds": record.duration,
        "acquireTime": record.acquired,
        "renewTime": record.renewed,
        "leaseTransitions": record.transitions,
    }


def micro_time(moment: datetime) -> str:
    """Format a UTC time as MicroTime of Kubernetes: ``2026-01-31T12:00:00.000000Z``."""
    return moment.strftime("%Y-%m-%dT%H:%M:%S.%fZ")
