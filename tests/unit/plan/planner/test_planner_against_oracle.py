"""The planner and a second, simple-minded one give the same answers about small worlds."""

from __future__ import annotations

from random import Random

from hypothesis import given
from hypothesis import strategies as st

from clusterstacks.plan.compat.world import World
from clusterstacks.plan.planner.budget import Budget
from clusterstacks.plan.planner.model import ADDON_COST, NODE_COST
from clusterstacks.plan.planner.model_builder import build_model, planning_problem
from clusterstacks.plan.planner.planner import NoPlan, Plan, find_plan
from clusterstacks.plan.planner.search import Search
from clusterstacks.plan.planner.steps import StepKind, steps_of
from tests.support.planner_oracle import Oracle, random_question

seeds = st.integers(0, 2**32)


@given(seeds)
def test_a_plan_is_the_cheapest_and_every_step_of_it_is_allowed(seed: int) -> None:
    question = random_question(Random(seed))
    if question is None:
        return
    oracle, found = Oracle(*question), find_plan(*question)
    if isinstance(found, Plan):
        assert oracle.complaints(found.steps) == []
        assert found.cost == oracle.cheapest()
    else:
        assert oracle.cheapest() is None


@given(seeds, st.integers(0, 20))
def test_however_the_addons_are_split_the_plan_is_as_cheap(seed: int, most_choices: int) -> None:
    question = random_question(Random(seed))
    if question is None:
        return
    oracle, model = Oracle(*question), build_model(planning_problem(*question), Budget())
    search = Search(model, Budget(), most_choices=most_choices)
    way = search.cheapest()
    if way is None:
        assert oracle.cheapest() is None
        return
    steps = steps_of(search, way)
    assert oracle.complaints(steps) == []
    assert sum(ADDON_COST if step.kind is StepKind.ADDON else NODE_COST for step in steps) == oracle.cheapest()


@given(seeds)
def test_an_explanation_is_enough_and_nothing_of_it_can_be_spared(seed: int) -> None:
    question = random_question(Random(seed))
    found = None if question is None else find_plan(*question)
    if question is None or not isinstance(found, NoPlan):
        return
    ids = {fact.id for fact in found.facts}
    assert Oracle(*question, ids).cheapest() is None
    for fact in ids:
        assert Oracle(*question, ids - {fact}).cheapest() is not None


@given(seeds, seeds)
def test_the_order_in_which_releases_are_listed_does_not_matter(seed: int, shuffle: int) -> None:
    question = random_question(Random(seed))
    if question is None:
        return
    world, state, target = question
    shuffled = list(world.candidates)
    Random(shuffle).shuffle(shuffled)
    assert find_plan(World(tuple(shuffled)), state, target) == find_plan(world, state, target)
