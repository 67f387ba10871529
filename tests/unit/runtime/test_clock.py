from __future__ import annotations

from datetime import timedelta

from clusterstacks.runtime.clock import SYSTEM_CLOCK
from tests.support.virtual_time import in_virtual_time


@in_virtual_time
async def test_system_clock_is_timezone_aware_and_measures_its_sleep() -> None:
    before = SYSTEM_CLOCK.monotonic()
    await SYSTEM_CLOCK.sleep(5)

    assert round(SYSTEM_CLOCK.monotonic() - before, 3) == 5
    assert SYSTEM_CLOCK.now().utcoffset() == timedelta(0)
