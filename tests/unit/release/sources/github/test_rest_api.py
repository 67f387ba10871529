"""Rate limits of the GitHub API."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from email.utils import format_datetime

import pytest

from clusterstacks.net.http.errors import RateLimited
from clusterstacks.release.sources.github.rest_api import LONGEST, RateLimit, pause_requested

MINUTE = timedelta(minutes=1)
NOON = datetime(2001, 1, 1, 12, tzinfo=UTC)
EXHAUSTED = {"X-RateLimit-Remaining": "0", "X-RateLimit-Reset": str(int(NOON.timestamp()) + 600)}


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.mark.parametrize(
    ("headers", "body", "asked"),
    [
        ({}, b'{"message": "Resource not accessible by integration"}', None),
        ({}, b'{"message": "You have exceeded a secondary rate limit"}', timedelta(0)),
        ({"Retry-After": "90"}, b"", timedelta(seconds=90)),
        ({**EXHAUSTED, "Retry-After": "90"}, b"", timedelta(seconds=90)),
        ({**EXHAUSTED, "Date": format_datetime(NOON)}, b"", timedelta(minutes=10)),
        ({**EXHAUSTED, "Date": format_datetime(NOON + timedelta(hours=1))}, b"", timedelta(0)),
        ({"X-RateLimit-Remaining": "0", "X-RateLimit-Reset": "soon"}, b"", timedelta(0)),
        ({"X-RateLimit-Remaining": "0", "X-RateLimit-Reset": "9" * 5000}, b"", timedelta(0)),
        ({"X-RateLimit-Remaining": "1", "X-RateLimit-Reset": EXHAUSTED["X-RateLimit-Reset"]}, b"", None),
    ],
)
def test_rate_limit_response_gives_the_reset_time_if_known(
    headers: dict[str, str], body: bytes, asked: timedelta | None
) -> None:
    assert pause_requested(headers, body) == asked


def test_no_request_is_sent_until_the_pause_is_over(clock: Clock) -> None:
    rest = RateLimit(clock)
    rest.check("there")
    assert rest.begin(MINUTE) == MINUTE
    clock.now += 59
    with pytest.raises(RateLimited, match="there"):
        rest.check("there")
    clock.now += 1
    rest.check("there")


def test_pause_without_a_time_doubles_until_a_successful_response(clock: Clock) -> None:
    rest = RateLimit(clock)
    assert [rest.begin(timedelta(0)) for _ in range(8)] == [
        MINUTE,
        2 * MINUTE,
        4 * MINUTE,
        8 * MINUTE,
        16 * MINUTE,
        32 * MINUTE,
        LONGEST,
        LONGEST,
    ]
    rest.end()
    assert rest.begin(timedelta(0)) == MINUTE


def test_pause_is_limited_to_one_hour(clock: Clock) -> None:
    assert RateLimit(clock).begin(timedelta(days=400)) == LONGEST
