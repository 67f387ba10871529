"""How long GitHub asks to be left alone.

Source: https://docs.github.com/en/rest/using-the-rest-api/rate-limits-for-the-rest-api
"""

from __future__ import annotations

import time
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING

from clusterstacks.http.errors import RateLimited
from clusterstacks.http.response import asked_pause

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

SHORTEST = timedelta(minutes=1)
"""The rest after a refusal that names no time; doubled each time it comes again. Source: as above."""

LONGEST = timedelta(hours=1)
"""The window of the primary limit: nothing that GitHub may ask for lasts longer."""


def rest_asked(headers: Mapping[str, str], body: bytes) -> timedelta | None:
    """Read how long a refusal (403) asks to wait; zero when it is about a limit without a time, None when it is not.

    A clock that is wrong on this machine does no harm: the end of the window counts from the server's own time.
    """
    if pause := asked_pause(headers):
        return pause
    if headers.get("X-RateLimit-Remaining") == "0":
        reset = headers.get("X-RateLimit-Reset", "")
        seconds = int(reset) - _server_time(headers) if reset.isdecimal() and len(reset) <= 12 else 0
        return timedelta(seconds=max(seconds, 0))
    return timedelta() if b"rate limit" in body.lower() else None


class RateLimit:
    """Remembers until when nothing may be asked.

    Args:
        clock: Seconds that only grow.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._until = clock()
        self._unsaid = timedelta()

    def check(self, place: str) -> None:
        """Return when something may be asked.

        Raises:
            RateLimited: Not yet.
        """
        left = self._until - self._clock()
        if left > 0:
            raise RateLimited(place, timedelta(seconds=round(left) or 1))

    def begin(self, asked: timedelta) -> timedelta:
        """Rest as long as asked, which is zero when no time was named, and return how long that is."""
        if not asked:
            self._unsaid = min(max(SHORTEST, 2 * self._unsaid), LONGEST)
        rest = min(asked or self._unsaid, LONGEST)
        self._until = self._clock() + rest.total_seconds()
        return rest

    def end(self) -> None:
        """Take note of an answer that was none about limits."""
        self._unsaid = timedelta()


def _server_time(headers: Mapping[str, str]) -> int:
    try:
        return int(parsedate_to_datetime(headers.get("Date", "")).timestamp())
    except (TypeError, ValueError):
        return int(datetime.now(UTC).timestamp())
