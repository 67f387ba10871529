"""Moving many bytes: told to whoever wants to know, and tried again while it gets on."""

from __future__ import annotations

import asyncio
import contextlib
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Protocol

from clusterstacks.http.errors import RateLimited
from clusterstacks.http.messages import PIECE_BYTES

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from clusterstacks.http.errors import ServerUnavailable

ATTEMPTS = 5
"""How often in a row a transfer may break off without having got on (arbitrary)."""

PAUSE = timedelta(milliseconds=250)
"""Before the second of them; doubled each time (arbitrary)."""

BLOBS_AT_ONCE = 4
"""Blobs moved at a time (arbitrary): small ones wait for answers most of the time, and registries count requests."""


class TransferProgress(Protocol):
    """Whoever wants to know how far a transfer is."""

    def __call__(self, what: str, done: int, total: int) -> None:
        """Take note that ``done`` of ``total`` bytes of ``what`` have been moved."""
        ...


def silent(what: str, done: int, total: int) -> None:
    """Tell nobody."""


@dataclass(slots=True)
class RetryState:
    """Decides whether a transfer that broke off goes on."""

    reached: int = -1
    failures: int = 0

    async def wait(self, reached: int, error: ServerUnavailable) -> None:
        """Wait before the next attempt, or give up with the error when nothing moves any more.

        Args:
            reached: How many bytes are over there by now.
            error: Why it broke off.
        """
        if reached > self.reached:
            self.reached, self.failures = reached, 0
        self.failures += 1
        if self.failures >= ATTEMPTS or isinstance(error, RateLimited):
            raise error
        await asyncio.sleep((PAUSE * 2 ** (self.failures - 1)).total_seconds())


async def read_pieces(path: Path, start: int, length: int) -> AsyncIterator[bytes]:
    """Read a part of a file piece by piece, away from the event loop.

    Raises:
        OSError: The disk refuses.
    """
    with contextlib.closing(await asyncio.to_thread(path.open, "rb")) as file:
        file.seek(start)
        left = length
        while left and (piece := await asyncio.to_thread(file.read, min(left, PIECE_BYTES))):
            left -= len(piece)
            yield piece
