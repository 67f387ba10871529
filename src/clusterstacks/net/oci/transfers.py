"""Progress and retries of large transfers."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from clusterstacks.net.http.errors import RateLimited
from clusterstacks.net.http.messages import PIECE_BYTES
from clusterstacks.net.retry import RetryPolicy

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from clusterstacks.net.http.errors import ServerUnavailable

RETRIES = RetryPolicy()
"""Retries of an interrupted transfer; only attempts without progress count."""

BLOBS_AT_ONCE = 4
"""Blobs moved at a time (arbitrary): small ones wait for answers most of the time, and registries count requests."""


class TransferProgress(Protocol):
    """Receives the progress of a transfer."""

    def __call__(self, what: str, done: int, total: int) -> None:
        """Report that ``done`` of ``total`` bytes of ``what`` are transferred."""
        ...


def silent(what: str, done: int, total: int) -> None:
    """Ignore the progress; the default."""


@dataclass(slots=True)
class TransferRetries:
    """Decides whether an interrupted transfer is continued."""

    reached: int = -1
    failures: int = 0

    async def wait(self, reached: int, error: ServerUnavailable) -> None:
        """Wait before the next attempt after ``reached`` bytes; raise the error if too many made no progress."""
        if reached > self.reached:
            self.reached, self.failures = reached, 0
        self.failures += 1
        delay = RETRIES.delay(self.failures)
        if delay is None or isinstance(error, RateLimited):
            raise error
        await RETRIES.sleep(delay)


async def read_pieces(path: Path, start: int, length: int) -> AsyncIterator[bytes]:
    """Read a part of a file piece by piece, away from the event loop.

    Between two pieces the file is closed, because a request that breaks leaves its body unfinished.
    """
    end = start + length
    while start < end and (piece := await asyncio.to_thread(_read_piece, path, start, min(end - start, PIECE_BYTES))):
        start += len(piece)
        yield piece


def _read_piece(path: Path, start: int, length: int) -> bytes:
    with path.open("rb") as file:
        file.seek(start)
        return file.read(length)
