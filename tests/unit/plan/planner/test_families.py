"""The worlds of the benchmark are answered within a number of looks, which is the same on every machine."""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from benchmarks.worlds import FAMILIES, HUGE, Family, Size, apart, equal_releases, narrow, own_patches, split_pairs
from clusterstacks.plan.compat.world import ClusterState
from clusterstacks.plan.planner.budget import Budget
from clusterstacks.plan.planner.planner import NoPlan, Plan, Undecided, find_plan

if TYPE_CHECKING:
    from collections.abc import Callable

    from clusterstacks.plan.compat.world import World

LOOKS = 400_000
"""More than the slowest needs."""

PLANNED = [one for one in FAMILIES if one.seconds in {1, 2}]

UNCOUPLED = [apart, own_patches, narrow, equal_releases]
"""Worlds without facts between addons, whose facts name minors of Kubernetes."""

sizes = st.builds(Size, st.integers(1, 20), st.integers(2, 30), st.integers(1, 12))


@pytest.mark.parametrize("family", PLANNED, ids=lambda one: f"{one.name} {one.size}")
def test_a_family_is_answered(family: Family) -> None:
    world, state, target = family.questions(seed=3)[1]
    assert not isinstance(find_plan(world, state, target, Budget(LOOKS)), Undecided)


def test_two_addons_that_cannot_move_are_explained() -> None:
    (family,) = (one for one in FAMILIES if one.make is split_pairs)
    found = find_plan(*family.questions(seed=2)[0], Budget(3 * LOOKS))
    assert isinstance(found, NoPlan)
    assert found.minimal


@given(st.integers(0, 2**32), sizes)
@example(1, Size(2, 12, 8))
@example(2, Size(15, 12, 8))
@example(3, HUGE)
@settings(max_examples=8)
@pytest.mark.parametrize("make", UNCOUPLED)
def test_a_world_without_facts_between_addons_is_decided_within_polynomially_many_looks(
    make: Callable[[Random, Size], World], seed: int, size: Size
) -> None:
    """All ways to a node visit the same minors, so that each addon has one table of costs for each minor."""
    world = make(Random(seed), size)
    first, last = world.candidates[0], world.candidates[-1]
    state = ClusterState(first.kubernetes, first.kubernetes, first.name)
    nodes = size.releases * (size.minors + 2)
    looks = 4 * size.addons * size.releases**2 * (size.minors + 2) + nodes**2
    for target in (last.name, last.kubernetes):
        found = find_plan(world, state, target, Budget(looks))
        assert isinstance(found, Plan | NoPlan)
