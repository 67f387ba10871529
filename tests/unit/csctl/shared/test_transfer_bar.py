"""The progress bar of transfers."""

from __future__ import annotations

import os
import pty
import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clusterstacks.csctl.shared.transfer_bar import TransferBar, bar_line, transfer_bar

MB = 1_000_000


class Clock:
    """A clock that a test sets."""

    now = 100.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


def shown(clock: Clock, *reports: tuple[float, str, int, int], enabled: bool = True) -> list[str]:
    """Return the lines for reports (time, transfer, done and total in MB)."""
    lines: list[str] = []
    bar = TransferBar(enabled=enabled, clock=clock, show=lines.append)
    for seconds, what, done, total in reports:
        clock.now = 100.0 + seconds
        bar(what, done * MB, total * MB)
    return lines


def test_short_transfer_shows_nothing(clock: Clock) -> None:
    assert shown(clock, (0, "a", 1, 9), (1, "a", 5, 9), (1.9, "a", 9, 9)) == []


def test_long_transfer_shows_share_bytes_rate_and_remaining_time(clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")

    assert shown(clock, (0, "a", 0, 100), (4, "a", 40, 100), (4.1, "a", 41, 100), (5, "a", 50, 100)) == [
        "[############------------------]  40%  40 of 100 MB  10.0 MB/s  0:06 left",
        "[###############---------------]  50%  50 of 100 MB  10.0 MB/s  0:05 left",
    ]


def test_small_and_slow_transfer_shows_decimals_and_kilobytes() -> None:
    assert bar_line(250_000, 1_000_000, 50_000, 44) == " 25%  0.2 of 1.0 MB  50 kB/s  0:15 left"


def test_concurrent_and_following_transfers_are_added(clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "44")

    assert shown(clock, (0, "a", 0, 40), (1, "b", 10, 20), (4, "a", 30, 40), (8, "a", 10, 40)) == [
        " 67%  40 of 60 MB  10.0 MB/s  0:02 left",
        " 60%  60 of 100 MB  7.5 MB/s  0:05 left",
    ]


def test_transfer_after_a_pause_is_measured_anew(clock: Clock) -> None:
    assert shown(clock, (0, "a", 0, 100), (5, "a", 100, 100), (60, "b", 10, 100), (61, "b", 20, 100))[1:] == []


def test_nothing_is_shown_without_a_terminal(clock: Clock, capsys: pytest.CaptureFixture[str]) -> None:
    assert shown(clock, (0, "a", 0, 100), (9, "a", 40, 100), enabled=False) == []
    transfer_bar.cache_clear()
    bar = transfer_bar()
    bar("a", 0, 10)
    assert capsys.readouterr() == ("", "")


@given(
    done=st.integers(0, 10**15),
    total=st.integers(0, 10**15),
    rate=st.floats(0, 1e12),
    columns=st.integers(0, 300),
)
def test_line_always_fits_into_the_terminal(done: int, total: int, rate: float, columns: int) -> None:
    assert len(bar_line(done, total, rate, columns)) < max(columns, 1)


SCRIPT = """
from clusterstacks.csctl.shared import output
from clusterstacks.csctl.shared.transfer_bar import TransferBar, transfer_bar
def verb():
    times = iter([0.0, 3.0])
    assert transfer_bar()._enabled is TERMINAL
    bar = TransferBar(enabled=transfer_bar()._enabled, clock=lambda: next(times))
    bar("a", 0, 100_000_000)
    bar("a", 50_000_000, 100_000_000)
    output.say("the result")
output.run(verb)
"""


def test_result_replaces_the_bar_on_a_terminal_and_a_pipe_gets_only_the_result() -> None:
    terminal, inner = pty.openpty()
    environ = {**os.environ, "COLUMNS": "80", "TERM": "xterm"}
    script = [sys.executable, "-c", SCRIPT.replace("TERMINAL", "True")]
    subprocess.run(script, stdout=inner, stderr=inner, env=environ, check=True, timeout=120)
    os.close(inner)
    printed = os.read(terminal, 65536).decode()
    os.close(terminal)
    piped = subprocess.run(
        [sys.executable, "-c", SCRIPT.replace("TERMINAL", "False")],
        capture_output=True,
        text=True,
        env=environ,
        check=True,
        timeout=120,
    )

    line = "[###############---------------]  50%  50 of 100 MB  16.7 MB/s  0:03 left"
    assert printed == f"\r{line}\x1b[K\r\x1b[Kthe result\r\n"
    assert (piped.stdout, piped.stderr) == ("the result\n", "")
