"""When a window is open, also in the nights in which clocks change."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clusterstacks.model.errors import SpecError
from clusterstacks.model.maintenance_window import MaintenanceWindow, Weekday, parse_window

BERLIN = "Europe/Berlin"


def at(text: str) -> datetime:
    return datetime.fromisoformat(text).astimezone(UTC)


@pytest.mark.parametrize(
    ("days", "start", "duration", "zone", "opens", "closes"),
    [
        (["Sat"], "02:00", "4h", "UTC", "2026-11-14T02:00+00:00", "2026-11-14T06:00+00:00"),
        (["Sat"], "02:00", "4h", BERLIN, "2026-11-14T01:00+00:00", "2026-11-14T05:00+00:00"),
        (["Sat"], "22:00", "6h30m", BERLIN, "2026-11-14T21:00+00:00", "2026-11-15T03:30+00:00"),
        # Clocks go from 3:00 back to 2:00: 02:30 is the first of two, and the window ends at 05:30 by the clock.
        (["Sun"], "02:30", "4h", BERLIN, "2026-10-25T00:30+00:00", "2026-10-25T04:30+00:00"),
        (["Sun"], "01:00", "4h", BERLIN, "2026-10-24T23:00+00:00", "2026-10-25T03:00+00:00"),
        # Clocks go from 2:00 to 3:00: 02:30, which they skip, is 03:30 by the clock.
        (["Sun"], "02:30", "4h", BERLIN, "2026-03-29T01:30+00:00", "2026-03-29T05:30+00:00"),
        (["Sun"], "01:00", "4h", BERLIN, "2026-03-29T00:00+00:00", "2026-03-29T04:00+00:00"),
        # The zones are half an hour and almost a day from UTC.
        (["Mon"], "00:15", "1h", "Asia/Kolkata", "2026-11-15T18:45+00:00", "2026-11-15T19:45+00:00"),
        (["Mon"], "00:15", "1h", "Pacific/Kiritimati", "2026-11-15T10:15+00:00", "2026-11-15T11:15+00:00"),
    ],
)
def test_window_opens_and_closes(
    days: list[str], start: str, duration: str, zone: str, opens: str, closes: str
) -> None:
    window = parse_window(days, start, duration, zone)
    begin, end, moment = at(opens), at(closes), timedelta(seconds=1)

    assert [window.is_open(time) for time in (begin - moment, begin, end - moment, end)] == [False, True, True, False]
    assert window.next_change(begin - moment) == begin
    assert window.next_change(begin) == end
    assert window.next_change(end - moment) == end


@pytest.mark.parametrize(
    ("days", "start", "duration", "zone", "says"),
    [
        ([], "02:00", "0h", "UTC", "must be more than zero, and at most a week (168h)"),
        ([], "02:00", "168h1s", "UTC", "must be more than zero, and at most a week (168h)"),
        ([], "02:00", "4 hours", "UTC", "not a valid duration"),
        ([], "2 am", "4h", "UTC", "is not a time (expected for example 02:00)"),
        (["Saturday"], "02:00", "4h", "UTC", "is not a day: write Mon, Tue, Wed, Thu, Fri, Sat, Sun"),
        ([], "02:00", "4h", "Europe/Berlim", "is not known: did you mean Europe/Berlin"),
        ([], "02:00", "4h", "../../etc/passwd", "is not known: expected for example Europe/Berlin or UTC"),
        ([], "02:00", "4h", "Mars", "is not known"),
    ],
)
def test_what_is_not_valid_is_named(days: list[str], start: str, duration: str, zone: str, says: str) -> None:
    with pytest.raises(SpecError) as refused:
        parse_window(days, start, duration, zone)
    assert says in refused.value.message


WINDOWS = st.builds(
    parse_window,
    st.sets(st.sampled_from([day.value for day in Weekday])),
    st.times().map(lambda time: time.strftime("%H:%M")),
    st.integers(1, 168).map(lambda hours: f"{hours}h"),
    st.sampled_from([BERLIN, "UTC", "America/St_Johns", "Australia/Lord_Howe", "Pacific/Apia"]),
)


@given(WINDOWS, st.datetimes(datetime(2026, 1, 1), datetime(2027, 12, 31), timezones=st.just(UTC)))  # noqa: DTZ001 - hypothesis adds the zone
def test_nothing_changes_before_the_next_change(window: MaintenanceWindow, now: datetime) -> None:
    change = window.next_change(now)

    assert now < change <= now + timedelta(days=8)
    assert window.is_open(now) == window.is_open(change - timedelta(microseconds=1))
