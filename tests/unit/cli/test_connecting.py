"""Lines about long transfers."""

from __future__ import annotations

from clusterstacks.cli.connecting import Meter


def test_a_short_transfer_says_nothing() -> None:
    lines: list[str] = []
    meter = Meter(iter([0.0, 1.0, 2.9]).__next__, lines.append)

    for done in (1, 2, 3):
        meter("file", done, 3)

    assert lines == []


def test_a_long_transfer_tells_size_and_speed_now_and_then() -> None:
    lines: list[str] = []
    meter = Meter(iter([0.0, 2.0, 4.0, 5.0, 8.0]).__next__, lines.append)

    for done in (10, 20, 50, 60, 90):
        meter("file", done * 1_000_000, 100_000_000)

    assert lines == ["file: 50 of 100 MB, 10.0 MB/s", "file: 90 of 100 MB, 10.0 MB/s"]


def test_the_speed_is_that_of_one_transfer() -> None:
    lines: list[str] = []
    meter = Meter(iter([0.0, 100.0, 104.0]).__next__, lines.append)

    meter("first", 10_000_000, 10_000_000)
    meter("second", 10_000_000, 100_000_000)
    meter("second", 50_000_000, 100_000_000)

    assert lines == ["second: 50 of 100 MB, 10.0 MB/s"]
