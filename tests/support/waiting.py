"""Waits for a condition with a deadline and a message that shows the last state."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

T = TypeVar("T")
POLL_SECONDS = 0.1


async def eventually(look: Callable[[], Awaitable[T | None]], *, seconds: float = 120, about: str = "") -> T:
    """Poll ``look`` until it returns a true value, and return it; an AssertionError counts as not yet."""
    until = time.monotonic() + seconds
    last = "nothing"
    while True:
        try:
            found = await look()
        except AssertionError as error:
            found, last = None, str(error)
        if found:
            return found
        assert time.monotonic() < until, f"{about or 'it'} did not happen within {seconds} s; last seen: {last}"
        await asyncio.sleep(POLL_SECONDS)
