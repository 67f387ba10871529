"""Retries: how often a failed request is repeated, and when. The same for API servers, registries and web servers."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

MAX_RETRY_AFTER = timedelta(hours=1)
"""Longest ``Retry-After`` that is believed (arbitrary; Kubernetes itself uses 1 to 60 s)."""

_MAX_CHARACTERS = 64  # a date has 29


class RequestBroken(Exception):
    """A request without a response, or with an incomplete one; the text is the cause. It never leaves the package.

    ``permanent``: the same request would fail again. ``unsent``: the server cannot have received the request.
    """

    def __init__(self, cause: str, *, permanent: bool = False, unsent: bool = False) -> None:
        super().__init__(cause)
        self.permanent = permanent
        self.unsent = unsent


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """Bounds of the retries of a request; all arbitrary."""

    attempts: int = 5
    """Maximum number of requests, with the first."""
    pause: timedelta = timedelta(milliseconds=200)
    """Pause before the second request; doubled each time."""
    longest: timedelta = timedelta(seconds=20)
    """Longest ``Retry-After`` that is waited for."""
    sleep: Callable[[float], Awaitable[object]] = asyncio.sleep

    def delay(self, attempt: int, asked: timedelta = timedelta()) -> float | None:
        """Return the seconds to wait after an attempt (the first is 1), None to give up; ``asked`` is Retry-After."""
        if attempt >= self.attempts or asked > self.longest:
            return None
        return (asked or self.pause * 2 ** (attempt - 1)).total_seconds()


def retry_after(value: object) -> timedelta:
    """Read ``Retry-After``: seconds or a date (RFC 9110 section 10.2.3); zero without a valid one.

    The result is at most ``MAX_RETRY_AFTER``, because a server may send a number that exceeds every duration.
    """
    text = str(value).strip()
    if text.isdecimal():
        return min(timedelta(seconds=int(text[:9])), MAX_RETRY_AFTER)
    try:
        until = parsedate_to_datetime(text[:_MAX_CHARACTERS])
        asked = (until if until.tzinfo else until.replace(tzinfo=UTC)) - datetime.now(UTC)
    except (TypeError, ValueError, OverflowError):
        return timedelta()
    return min(max(timedelta(), asked), MAX_RETRY_AFTER)
