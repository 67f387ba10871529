"""Time as a port, so that what depends on it can be tested without waiting."""

from __future__ import annotations

import asyncio
import time
from datetime import UTC, datetime
from typing import Final, Protocol


class Clock(Protocol):
    """Wall time for what people read, monotonic time for what is measured."""

    def now(self) -> datetime:
        """Return the wall time, aware and in UTC."""
        ...

    def monotonic(self) -> float:
        """Return seconds that never jump; only differences mean anything."""
        ...

    async def sleep(self, seconds: float) -> None:
        """Let other tasks run for ``seconds``."""
        ...


class SystemClock:
    """The time of this machine; monotonic time is the event loop's, the one its timers run on."""

    def now(self) -> datetime:
        """Return the wall time, aware and in UTC."""
        return datetime.now(UTC)

    def monotonic(self) -> float:
        """Return the event loop's time in seconds; needs a running loop."""
        return asyncio.get_running_loop().time()

    async def sleep(self, seconds: float) -> None:
        """Let other tasks run for ``seconds``."""
        await asyncio.sleep(seconds)


SYSTEM_CLOCK: Final[Clock] = SystemClock()


def seconds_since_boot() -> float:
    """Return seconds that also pass while the machine is suspended, unlike those of ``Clock.monotonic``.

    Leases need it: others go on counting. A virtual machine that its host stops may not count at all; no clock inside
    it can tell.
    """
    # macOS has no CLOCK_BOOTTIME; its CLOCK_MONOTONIC counts a suspension.
    return time.clock_gettime(getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC))
