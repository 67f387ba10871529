from __future__ import annotations

from datetime import timedelta

from hypothesis import given
from hypothesis import strategies as st

from clusterstacks.runtime.backoff import JITTER, BackOff

BACK_OFF = BackOff(first=timedelta(seconds=1), limit=timedelta(minutes=2))
WAITS = st.timedeltas(min_value=timedelta(milliseconds=1), max_value=timedelta(days=1))


@given(st.integers(1, 10_000), st.none() | WAITS)
def test_no_wait_exceeds_the_limit(failures: int, first: timedelta | None) -> None:
    assert timedelta(0) < BACK_OFF.delay(failures, first=first) <= BACK_OFF.limit


@given(st.integers(1, 6))
def test_waits_double_and_jitter_only_lengthens_them(failures: int) -> None:
    nominal = timedelta(seconds=2 ** (failures - 1))

    assert nominal <= BACK_OFF.delay(failures) <= nominal * (1 + JITTER)


@given(st.timedeltas(min_value=timedelta(seconds=1), max_value=timedelta(seconds=96)))
def test_the_shortest_useful_wait_is_kept(first: timedelta) -> None:
    assert BACK_OFF.delay(1, first=first) >= first
