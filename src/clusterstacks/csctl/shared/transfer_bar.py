"""Progress bar of transfers: bytes, rate and remaining time, for all transfers of a verb together."""

from __future__ import annotations

import os
import shutil
import sys
import time
from functools import cache
from typing import TYPE_CHECKING, Final

from clusterstacks.csctl.shared import output

if TYPE_CHECKING:
    from collections.abc import Callable

DELAY_SECONDS: Final = 2.0
"""Transfers that take less show no bar."""

INTERVAL_SECONDS: Final = 0.2
"""Interval of updates (arbitrary)."""

IDLE_SECONDS: Final = 10.0
"""Time without a report after which the next transfer is measured anew (arbitrary)."""

_WHOLE_MEGABYTES = 10_000_000
_LONGEST_BAR = 30
_SHORTEST_BAR = 8


class TransferBar:
    """Receives the progress of transfers, and shows their sum on a terminal, if it is enabled.

    The clock is monotonic, in seconds; ``show`` replaces the line with the bar.
    """

    def __init__(
        self,
        *,
        enabled: bool,
        clock: Callable[[], float] = time.monotonic,
        show: Callable[[str], None] = output.show_status,
    ) -> None:
        self._enabled = enabled
        self._clock = clock
        self._show = show
        self._last = self._began = self._shown = float("-inf")
        self._base = self._ended = 0
        self._running: dict[str, tuple[int, int]] = {}

    def __call__(self, what: str, done: int, total: int) -> None:
        """Note that ``done`` of ``total`` bytes of ``what`` are transferred."""
        if not self._enabled:
            return
        now = self._clock()
        if now - self._last > IDLE_SECONDS:
            self._began, self._base, self._ended, self._running = now, done, 0, {}
        self._last = now
        before, size = self._running.get(what, (0, 0))
        if done < before:  # the blob was downloaded, and is uploaded now
            self._ended += size
        self._running[what] = done, total
        if now - self._began >= DELAY_SECONDS and now - self._shown >= INTERVAL_SECONDS:
            self._shown = now
            moved = self._ended + sum(moved for moved, _ in self._running.values())
            known = self._ended + sum(size for _, size in self._running.values())
            rate = (moved - self._base) / (now - self._began)
            self._show(bar_line(moved, known, rate, shutil.get_terminal_size().columns))


@cache
def transfer_bar() -> TransferBar:
    """Return the bar of this process, which all registries share."""
    enabled = sys.stderr.isatty() and not output.SETTINGS.quiet and os.environ.get("TERM") != "dumb"
    return TransferBar(enabled=enabled)


def bar_line(done: int, total: int, rate: float, columns: int) -> str:
    """Return the line: the share as a bar, bytes, rate and remaining time; it is shorter than the terminal.

    ``done`` and ``total`` are bytes of all known transfers, ``rate`` is bytes per second.
    """
    share = min(done / total, 1.0) if total else 1.0
    remaining = f"  {_duration((total - done) / rate)} left" if rate > 0 and total > done else ""
    decimals = 0 if total >= _WHOLE_MEGABYTES else 1
    speed = f"{rate / 1e6:.1f} MB/s" if rate >= 1e6 else f"{rate / 1e3:.0f} kB/s"
    text = f"{share:4.0%}  {done / 1e6:.{decimals}f} of {total / 1e6:.{decimals}f} MB  {speed}{remaining}"
    width = min(_LONGEST_BAR, columns - len(text) - 5)
    if width >= _SHORTEST_BAR:
        filled = int(share * width)
        text = f"[{'#' * filled}{'-' * (width - filled)}] {text}"
    return text[: max(columns - 1, 0)]


def _duration(seconds: float) -> str:
    minutes, rest = divmod(int(min(seconds, 359_999)), 60)
    return f"{minutes // 60}:{minutes % 60:02}:{rest:02}" if minutes >= 60 else f"{minutes}:{rest:02}"
