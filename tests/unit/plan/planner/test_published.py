"""The worked example of the documentation: a plan over what upstream projects published."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from clusterstacks.plan.compat.world import ClusterState
from clusterstacks.plan.planner.planner import Plan, find_plan
from clusterstacks.plan.planner.steps import StepKind
from tests.support.builders.published_stack import COMPONENTS, published_world
from tests.support.observing.cpu_time import no_stall

if TYPE_CHECKING:
    from clusterstacks.plan.planner.steps import Step

PAGE = Path(__file__).parents[4] / "docs" / "explanation" / "ranges-and-plans.md"


def line(number: int, step: Step) -> str:
    """Write a step as the page does."""
    if step.kind is StepKind.ADDON:
        old, new = step.before.addons[step.addon].version, step.after.addons[step.addon].version
        return f"{number:2}. {step.addon} {old} to {new}"
    beside = f", class of {step.after.candidate.name.release}" if step.kind is StepKind.CLASS else ""
    return f"{number:2}. Kubernetes {step.after.kubernetes}{beside}"


def test_the_plan_over_every_published_series_is_that_of_the_documentation() -> None:
    world = published_world()
    first, last = world.candidates[0], world.candidates[-1]
    state = ClusterState(first.kubernetes, first.kubernetes, first.name)
    with no_stall():
        found = find_plan(world, state, last.name)
    assert isinstance(found, Plan)
    assert len(found.start.addons) == len(COMPONENTS)
    written = "\n".join(line(number, step) for number, step in enumerate(found.steps, start=1))
    assert f"```text\n{written}\n```" in PAGE.read_text()
    assert f"costs {found.cost}" in PAGE.read_text()
