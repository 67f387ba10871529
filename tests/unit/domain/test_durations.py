"""Durations as people write them."""

from __future__ import annotations

from datetime import timedelta

import pytest

from clusterstacks.domain.durations import parse_duration
from clusterstacks.domain.errors import SpecError


@pytest.mark.parametrize(
    ("text", "minutes"), [("45s", 0.75), ("10m", 10), ("1h", 60), ("1h30m", 90), ("1h1m30s", 61.5), ("0s", 0)]
)
def test_it_is_read(text: str, minutes: float) -> None:
    assert parse_duration(text) == timedelta(minutes=minutes)


@pytest.mark.parametrize("text", ["", "10", "m", "1m1h", "-1m", "1.5h", "1h ", "٣m", "9" * 50 + "s"])
def test_anything_else_is_refused(text: str) -> None:
    with pytest.raises(SpecError, match="is not a valid duration"):
        parse_duration(text)
