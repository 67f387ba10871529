"""Time as a port, so that what depends on it can be tested without waiting."""

from __future__ import annotations

import asyncio
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
