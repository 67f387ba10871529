"""Stalls of the event loop are measured, and named."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING

from clusterstacks.api import bounded_json
from clusterstacks.runtime.metrics import Metrics
from clusterstacks.runtime.watchdog import LOGGED_STALL_SECONDS, Watchdog
from tests.support.waiting import eventually

if TYPE_CHECKING:
    import pytest


def longest(metrics: Metrics, clock: str) -> float:
    name = "clusterstacks_loop_longest_stall_seconds"
    return metrics.registry.get_sample_value(name, {"clock": clock}) or 0.0


class Slow(int):
    """A bound that takes long to be compared with."""

    def __ge__(self, other: int) -> bool:
        time.sleep(LOGGED_STALL_SECONDS * 3)  # holds the event loop, as it should
        return int(self) >= other


async def _anything(caplog: pytest.LogCaptureFixture) -> bool:
    return bool(caplog.records)


async def test_the_task_that_held_the_loop_is_named(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    metrics = Metrics()
    watching = asyncio.create_task(Watchdog(metrics).run())
    monkeypatch.setattr(bounded_json, "MAX_VALUES", Slow(bounded_json.MAX_VALUES))

    async def hold() -> None:
        bounded_json.decode(b"{}")

    await asyncio.sleep(0.01)
    await asyncio.create_task(hold(), name="worker 7")
    await eventually(lambda: _anything(caplog), seconds=10, about="a line")
    watching.cancel()

    assert "was blocked for" in caplog.text
    assert "by worker 7 (clusterstacks.api.bounded_json.count_values)" in caplog.text
    assert longest(metrics, "wall") > LOGGED_STALL_SECONDS
    assert longest(metrics, "cpu") < longest(metrics, "wall")
