"""How much of a server's answers is read, and for how long it is asked."""

from __future__ import annotations

import math
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


@dataclass(frozen=True, slots=True, kw_only=True)
class Bounds:
    """The bounds of one client; the defaults are those for a server that is trusted, but holds what others wrote.

    Args:
        answer_bytes: Largest answer and largest event of a watch. By default etcd's 1.5 MiB an object times six, as
            JSON writes a control character in six bytes, and some for the rest.
        list_bytes: Largest list, all pages together. By default the size that etcd may have by default
            (--quota-backend-bytes).
        list_values: Most values of a list, as ``decoding.estimate_values`` counts them; one takes 30 to 100 bytes of
            memory. By default as many as ``list_bytes`` may hold.
        list_pages: Most requests for one list. Arbitrary by default: one for each of 100,000 objects.
        list_time: Longest time for one list. Arbitrary by default.
        busy_time: Longest time in which requests are under way until ``Client.rested`` is called.
    """

    answer_bytes: int = 10 * 1024 * 1024
    list_bytes: int = 2 * 1024**3
    list_values: int = 2 * 1024**3
    list_pages: int = 100_000
    list_time: timedelta = timedelta(minutes=10)
    busy_time: timedelta | None = None


class BusyTime:
    """Measures for how long requests are under way, those at the same time counted once.

    Args:
        limit: Longest time until ``restart``; None for no limit.
        monotonic: The event loop's time in seconds.
    """

    def __init__(self, limit: timedelta | None, monotonic: Callable[[], float]) -> None:
        self._limit = limit.total_seconds() if limit is not None else math.inf
        self._monotonic = monotonic
        self._running = 0
        self._since = 0.0
        self._spent = 0.0
        self.ended = 0.0
        """When the last request ended."""

    @property
    def seconds(self) -> float:
        """The time so far."""
        return self._spent + (self._monotonic() - self._since if self._running else 0.0)

    @property
    def left(self) -> float:
        """Seconds until the limit; 0 or less once it is reached."""
        return self._limit - self.seconds

    def restart(self) -> None:
        """Begin to measure anew."""
        self._spent, self._since = 0.0, self._monotonic()

    @contextmanager
    def request(self) -> Iterator[None]:
        """Measure a request."""
        if not self._running:
            self._since = self._monotonic()
        self._running += 1
        try:
            yield
        finally:
            self._running -= 1
            if not self._running:
                self.ended = self._monotonic()
                self._spent += self.ended - self._since
