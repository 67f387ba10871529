"""The worlds of the benchmark are answered within a number of looks, which is the same on every machine."""

from __future__ import annotations

import pytest

from benchmarks.worlds import FAMILIES, Family
from clusterstacks.planner.effort import Effort
from clusterstacks.planner.planner import Undecided, find_plan

LOOKS = 500_000
"""About twice what the slowest takes."""

PLANNED = [one for one in FAMILIES if one.seconds in {1, 2} and one.name != "tight chain"]


@pytest.mark.parametrize("family", PLANNED, ids=lambda one: f"{one.name} {one.size}")
def test_a_family_is_answered(family: Family) -> None:
    world, state, target = family.questions(seed=1)[0]
    assert not isinstance(find_plan(world, state, target, Effort(LOOKS)), Undecided)
