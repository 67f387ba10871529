"""Random faults between the operator and its API servers: it converges, and writes what it should and nothing else.

``make fuzz-faults SEEDS=0:500`` runs other seeds; a failure names its seed and schedule.
"""

from __future__ import annotations

import itertools
import os
from typing import TYPE_CHECKING

import pytest

from tests.support.builders.fault_schedules import Server, listed, random_phases, random_schedule, range_of, shrunk
from tests.support.running.faulty_world import FaultyWorld

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from tests.support.builders.fault_schedules import PlannedFault
    from tests.support.running.faulty_world import AuditedServer

SEEDS = "FAULT_SEEDS"
"""Environment variable: a seed, or the first one and the end as ``0:500``."""
SHRINK = "FAULT_SHRINK"
"""Environment variable: if set, a schedule that fails is reduced to the faults that are needed, which takes minutes."""


@pytest.mark.parametrize("seed", range_of(os.environ.get(SEEDS, "0:16")))
async def test_install_upgrade_rollback_and_drift_with_random_faults_end_as_without(
    servers: Mapping[Server, AuditedServer], tmp_path: Path, seed: int
) -> None:
    runs = itertools.count()

    async def fails(schedule: Sequence[PlannedFault]) -> bool:
        try:
            await run(schedule)
        except AssertionError:
            return True
        return False

    async def run(schedule: Sequence[PlannedFault]) -> None:
        async with FaultyWorld.opened(servers, tmp_path / str(next(runs)), schedule, phases) as faulty:
            await faulty.offer()
            async with faulty.world.operator() as operator:
                await faulty.play()
                faulty.check_writes()
                await faulty.rests(operator)

    phases = random_phases(seed)
    schedule = random_schedule(seed, phases)
    try:
        await run(schedule)
    except AssertionError as error:
        if os.environ.get(SHRINK):
            schedule = await shrunk(schedule, fails)
        message = f"{error}\nseed {seed}; rerun: make fuzz-faults SEEDS={seed}; faults:\n{listed(schedule)}"
        raise AssertionError(message) from error
