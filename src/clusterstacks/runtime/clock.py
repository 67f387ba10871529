"""Clocks: an interface to time, which tests replace."""

from __future__ import annotations

import asyncio
import time
from datetime import UTC, datetime
from typing import Final, Protocol


class Clock(Protocol):
    """Wall time for timestamps, and monotonic time for durations."""

    def now(self) -> datetime:
        """Return the wall time, aware and in UTC."""
        ...

    def monotonic(self) -> float:
        """Return monotonic seconds; only differences are meaningful."""
        ...

    async def sleep(self, seconds: float) -> None:
        """Suspend the caller; virtual time in tests."""
        ...


class SystemClock:
    """The system time; monotonic time is that of the event loop, so it needs a running loop."""

    def now(self) -> datetime:
        """Return the system's time, aware and in UTC."""
        return datetime.now(UTC)

    def monotonic(self) -> float:
        """Return the event loop's time in seconds; needs a running loop."""
        return asyncio.get_running_loop().time()

    async def sleep(self, seconds: float) -> None:
        """Suspend the caller with the timer of the event loop."""
        await asyncio.sleep(seconds)


SYSTEM_CLOCK: Final[Clock] = SystemClock()


def seconds_since_boot() -> float:
    """Return seconds that, unlike ``Clock.monotonic``, include the time in which the machine was suspended.

    Leases require it, because other machines continue to count. A pause of a virtual machine's host is not detectable.
    """
    # macOS has no CLOCK_BOOTTIME; its CLOCK_MONOTONIC includes suspension.
    return time.clock_gettime(getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC))
