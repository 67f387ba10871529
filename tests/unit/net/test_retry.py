"""Delays between the attempts of a request, and Retry-After."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from email.utils import format_datetime

import pytest

from clusterstacks.net.retry import MAX_RETRY_AFTER, RetryPolicy, retry_after

POLICY = RetryPolicy(attempts=3, pause=timedelta(seconds=1), longest=timedelta(seconds=10))


@pytest.mark.parametrize(
    ("attempt", "asked", "delay"),
    [(1, 0, 1), (2, 0, 2), (3, 0, None), (1, 10, 10), (2, 10, 10), (3, 10, None), (1, 11, None)],
)
def test_delay_doubles_unless_the_server_asks_for_another_and_ends_with_the_attempts(
    attempt: int, asked: int, delay: float | None
) -> None:
    assert POLICY.delay(attempt, timedelta(seconds=asked)) == delay


@pytest.mark.parametrize("seconds", ["7", " 7 ", 7])
def test_retry_after_in_seconds(seconds: object) -> None:
    assert retry_after(seconds) == timedelta(seconds=7)


def test_retry_after_as_a_date() -> None:
    found = retry_after(format_datetime(datetime.now(UTC) + timedelta(minutes=30), usegmt=True))

    assert timedelta(minutes=20) < found <= timedelta(minutes=30)


@pytest.mark.parametrize("value", ["9" * 5000, 10**18, "Wed, 21 Oct 9999 07:28:00 GMT"])
def test_retry_after_has_an_upper_bound(value: object) -> None:
    assert retry_after(value) == MAX_RETRY_AFTER


@pytest.mark.parametrize("value", ["", "soon", "-1", "1.5", None, True, 1e300, [], "Wed, 21 Oct 2015 07:28:00 GMT"])
def test_invalid_or_past_retry_after_is_no_wait(value: object) -> None:
    assert retry_after(value) == timedelta()
