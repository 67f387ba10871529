"""Times at which changes may begin: some days of the week, from a time of the day on, for a while.

A window begins at the time of the day that clocks in its time zone show, and lasts as long as it says. So in the night
in which clocks are set back it ends an hour earlier by the clock, and in the other night an hour later. A time that
clocks show twice is the first of the two; one that they skip is as many minutes after midnight as in other nights.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, time, timedelta
from difflib import get_close_matches
from enum import StrEnum
from typing import TYPE_CHECKING, Final
from zoneinfo import ZoneInfo, available_timezones

from clusterstacks.model.documents import parse_duration, shown
from clusterstacks.model.errors import SpecError

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

WEEK: Final = timedelta(days=7)


class Weekday(StrEnum):
    """A day of the week, Monday first."""

    MONDAY = "Mon"
    TUESDAY = "Tue"
    WEDNESDAY = "Wed"
    THURSDAY = "Thu"
    FRIDAY = "Fri"
    SATURDAY = "Sat"
    SUNDAY = "Sun"


class InvalidWindow(SpecError):
    """The duration or the time zone of a window cannot be used."""

    def __init__(self, problem: str) -> None:
        super().__init__("InvalidWindow", problem)


@dataclass(frozen=True, slots=True)
class MaintenanceWindow:
    """A time span that recurs every week on some days."""

    days: frozenset[int]
    """Days on which it begins: 0 is Monday."""
    start: time
    duration: timedelta
    zone: ZoneInfo

    def is_open(self, now: datetime) -> bool:
        """Return whether a moment (with a time zone) is within the window."""
        return any(start <= now < start + self.duration for start in self._starts(now))

    def next_change(self, now: datetime) -> datetime:
        """Return when the window next opens or closes; of windows that overlap, when the next of them does."""
        moments = (moment for start in self._starts(now) for moment in (start, start + self.duration))
        return min(moment for moment in moments if moment > now)

    def _starts(self, now: datetime) -> Iterator[datetime]:
        """Yield all beginnings that may matter at a moment, in UTC: arithmetic within a zone ignores its changes."""
        today = now.astimezone(self.zone).date()
        for offset in range(-8, 9):
            day = today + timedelta(days=offset)
            if day.weekday() in self.days:
                yield datetime.combine(day, self.start, self.zone).astimezone(UTC)


def parse_window(days: Collection[str], start: str, duration: str, zone: str) -> MaintenanceWindow:
    """Return a window; no days mean all of them. The start is like ``02:00``, the duration like ``4h``.

    Raises:
        InvalidWindow: A part is not valid.
    """
    length = parse_duration(duration)
    if not timedelta() < length <= WEEK:
        raise InvalidWindow(
            f"duration {shown(duration)} of the window must be more than zero, and at most a week (168h)"
        )
    week = [day.value for day in Weekday]
    unknown = [day for day in days if day not in week]
    if unknown:
        raise InvalidWindow(f"{shown(unknown[0])} is not a day: write {', '.join(week)}")
    try:
        begin = time.fromisoformat(start)
    except ValueError:
        raise InvalidWindow(f"start {shown(start)} of the window is not a time (expected for example 02:00)") from None
    return MaintenanceWindow(
        frozenset(week.index(day) for day in days) or frozenset(range(7)), begin, length, _zone(zone or "UTC")
    )


def _zone(name: str) -> ZoneInfo:
    try:
        return ZoneInfo(name)
    except (LookupError, OSError, ValueError):
        similar = get_close_matches(name, available_timezones())
        meant = f"did you mean {' or '.join(similar)}?" if similar else "expected for example Europe/Berlin or UTC"
        raise InvalidWindow(f"time zone {shown(name)} is not known: {meant}") from None
