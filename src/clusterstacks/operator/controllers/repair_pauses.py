"""Growing pauses between the repairs of an object that another writer reverts."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import timedelta
from typing import TYPE_CHECKING, Generic, TypeVar

from clusterstacks.runtime.backoff import BackOff

if TYPE_CHECKING:
    from clusterstacks.runtime.clock import Clock

K = TypeVar("K")

REPAIRS = BackOff(first=timedelta(seconds=10), limit=timedelta(hours=1))
"""Pauses between two repairs. A writer that always reverts them finally costs one write an hour. Arbitrary."""

QUIET = timedelta(hours=2)
"""Time without repairs after which the next one is made at once again. Arbitrary: twice the longest pause."""

CONTESTED = 3
"""Repairs without ``QUIET`` in between after which another writer is said to revert them (arbitrary: a person may
repeat a change once)."""


@dataclass(slots=True)
class _Repairs:
    count: int
    last: float
    due: float


@dataclass(slots=True)
class RepairPauses(Generic[K]):
    """Back-off of repairs, per object."""

    clock: Clock
    _repairs: dict[K, _Repairs] = field(default_factory=dict, init=False)

    def pause(self, key: K) -> timedelta:
        """Return the pause before the next repair; zero unless there was one recently."""
        repairs = self._repairs.get(key)
        return timedelta(seconds=max(repairs.due - self.clock.monotonic(), 0)) if repairs else timedelta(0)

    def is_contested(self, key: K) -> bool:
        """Return whether another writer reverts the repairs."""
        repairs = self._repairs.get(key)
        if repairs is None or self.clock.monotonic() - repairs.last >= QUIET.total_seconds():
            return False
        return repairs.count >= CONTESTED

    def repaired(self, key: K) -> None:
        """Record a repair that was just made; the next one has to pause."""
        now, before = self.clock.monotonic(), self._repairs.get(key)
        count = before.count + 1 if before and now - before.last < QUIET.total_seconds() else 1
        pause = REPAIRS.delay(count - 1).total_seconds() if count > 1 else 0
        self._repairs[key] = _Repairs(count, now, now + pause)

    def forget(self, key: K) -> None:
        """Forget the repairs of a deleted object."""
        self._repairs.pop(key, None)

    def clear(self) -> None:
        """Forget all repairs: the next ones are made at once."""
        self._repairs.clear()
