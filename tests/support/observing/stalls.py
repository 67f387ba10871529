"""Measures the longest stall of the event loop and the memory growth of a block."""

from __future__ import annotations

import asyncio
import gc
import re
import time
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

BEAT_SECONDS = 0.005
PEAK, NOW = "VmHWM", "VmRSS"


@dataclass(slots=True)
class Cost:
    """The cost of a block.

    Args:
        stall: Longest CPU time of the whole process between two beats of the loop, in seconds.
        memory: By how much the resident memory was larger at its peak than before, in bytes.
    """

    stall: float = 0.0
    memory: int = 0


@asynccontextmanager
async def measured() -> AsyncIterator[Cost]:
    """Measure the block; the yielded cost is filled in at its end."""
    cost = Cost()
    # The garbage of other tests is no part of the cost: it goes before the peak begins anew.
    gc.collect()
    gc.freeze()
    Path("/proc/self/clear_refs").write_text("5")  # noqa: ASYNC240
    before = _resident(NOW)
    beating = asyncio.create_task(_beat(cost))
    await asyncio.sleep(0)
    try:
        yield cost
    finally:
        await asyncio.sleep(BEAT_SECONDS)
        beating.cancel()
        gc.unfreeze()
        cost.memory = _resident(PEAK) - before


async def _beat(cost: Cost) -> None:
    last = time.process_time()
    while True:
        await asyncio.sleep(BEAT_SECONDS)
        now = time.process_time()
        cost.stall, last = max(cost.stall, now - last), now


def _resident(field: str) -> int:
    found = re.search(rf"{field}:\s+(\d+) kB", Path("/proc/self/status").read_text())
    assert found is not None
    return int(found[1]) * 1024
