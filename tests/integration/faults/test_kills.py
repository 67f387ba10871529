"""SIGKILL after a write, with faults before and afterwards: the next operator ends where an undisturbed one does.

``make fuzz-kills KILLS=30:40`` kills after each of these writes.
"""

from __future__ import annotations

import asyncio
import os
import signal
from typing import TYPE_CHECKING

import pytest

from tests.support.builders.fault_schedules import ALWAYS, Phase, Server, listed, random_schedule, range_of
from tests.support.running.faulty_world import FaultyWorld
from tests.support.running.operator_process import MORTAL, process
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from tests.support.running.faulty_world import AuditedServer

KILLS = "FAULT_KILLS"
"""Environment variable: numbers of writes, as for seeds."""
WRITES = range_of(os.environ[KILLS]) if KILLS in os.environ else (10, 35, 70)
LAST_OF_UPGRADE = 60
"""Number from which the scenario has all phases, which takes twice as long. Without them an installation and an upgrade
have some 55 writes, with them 66, because there is another release."""
SECONDS = 600
"""Time that a scenario may take on a busy machine; without load it takes 20 s."""


@pytest.mark.timeout(2 * SECONDS)
@pytest.mark.parametrize("number", WRITES)
async def test_operator_killed_after_a_write_between_faults_has_a_successor_that_converges(
    servers: Mapping[Server, AuditedServer], tmp_path: Path, number: int
) -> None:
    phases = ALWAYS if number < LAST_OF_UPGRADE else tuple(Phase)
    schedule = random_schedule(number, phases)
    world = tmp_path / "world"
    killed = False
    try:
        async with FaultyWorld.opened(servers, world, schedule, phases) as faulty:
            await faulty.offer()
            async with asyncio.timeout(SECONDS), asyncio.TaskGroup() as group:
                playing = group.create_task(faulty.play())
                async with process(faulty.world, (*MORTAL, str(number), "quick")) as victim:

                    async def dead_or_done() -> bool:
                        return victim.returncode is not None or playing.done()

                    await eventually(dead_or_done, seconds=SECONDS, about="death or the end of all phases")
                    killed = victim.returncode == -signal.SIGKILL
                async with faulty.world.operator() as successor:
                    await playing
                    await faulty.rests(successor)
            faulty.check_writes()
    except* AssertionError as errors:
        writes = (world / "operator.log").read_text().splitlines()
        last = next((line for line in reversed(writes) if line.startswith("write ")), "no write")
        pytest.fail(f"{errors.exceptions}\nkilled after {last}; faults:\n{listed(schedule)}")
    if not killed:
        # An operator that cannot renew its Lease in time, on a busy machine, also ends before this write.
        pytest.skip(f"the operator sent fewer than {number} writes in {len(phases)} phases")
