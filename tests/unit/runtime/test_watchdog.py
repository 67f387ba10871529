"""Stalls of the event loop are measured and logged."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING

from clusterstacks.api import bounded_json
from clusterstacks.runtime.metrics import Metrics
from clusterstacks.runtime.watchdog import LOGGED_STALL_SECONDS, Watchdog
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from collections.abc import Callable

    import pytest


def longest(metrics: Metrics, clock: str) -> float:
    name = "clusterstacks_loop_longest_stall_seconds"
    return metrics.registry.get_sample_value(name, {"clock": clock}) or 0.0


class Slow(int):
    """A bound that takes long to be compared with."""

    def __init__(self, _bound: int) -> None:
        self.seen: Callable[[], object] = bool

    def __ge__(self, other: int) -> bool:
        """Hold the event loop until the thread has seen it, and for longer than what is logged."""
        end = time.monotonic() + LOGGED_STALL_SECONDS * 3
        while time.monotonic() < end or not self.seen():
            time.sleep(0.05)
        return int(self) >= other


async def _says(caplog: pytest.LogCaptureFixture, words: str) -> bool:
    return words in caplog.text


async def test_the_task_that_blocked_the_loop_is_logged(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    metrics = Metrics()
    watchdog, slow = Watchdog(metrics), Slow(bounded_json.MAX_VALUES)
    slow.seen = lambda: watchdog._blocking_task
    watching = asyncio.create_task(watchdog.run())
    monkeypatch.setattr(bounded_json, "MAX_VALUES", slow)

    async def hold() -> None:
        bounded_json.decode(b"{}")

    await asyncio.sleep(0)  # the watchdog starts
    await asyncio.create_task(hold(), name="worker 7")
    await eventually(lambda: _says(caplog, "by worker 7"), about="the line about worker 7")
    watching.cancel()

    assert "was blocked for" in caplog.text
    assert "by worker 7 (clusterstacks.api.bounded_json.count_values)" in caplog.text
    assert longest(metrics, "wall") > LOGGED_STALL_SECONDS
    assert longest(metrics, "cpu") < longest(metrics, "wall")
