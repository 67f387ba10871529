"""The upgrade planner by family of worlds, from the first release of each to its last release and its last version.

Reading files is not measured. Times are of the process, so that a busy machine does not show.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from benchmarks.worlds import FAMILIES, Family
from clusterstacks.plan.planner.budget import Budget
from clusterstacks.plan.planner.planner import Answer, NoPlan, Plan, find_plan

if TYPE_CHECKING:
    from collections.abc import Callable

SEEDS = range(1, 9)
TIMEOUT_SECONDS = 10
"""The default of ``csctl plan --timeout``."""


@dataclass(frozen=True, slots=True)
class Asked:
    """One question and how long it took."""

    family: Family
    answer: Answer
    seconds: float
    looks: int

    def __str__(self) -> str:
        family = self.family
        wanted = "" if family.seconds is None else f"<= {family.seconds} s"
        columns = (family.name, family.size, f"{self.seconds:.2f} s", self.looks, described(self.answer), wanted)
        return f"| {' | '.join(map(str, columns))} |"


def ask(family: Family) -> list[Asked]:
    """Ask all questions of a family."""
    asked = []
    for seed in SEEDS:
        for world, state, target in family.questions(seed):
            began = time.process_time()
            budget = Budget(is_over=_over(began + TIMEOUT_SECONDS))
            looks = budget.looks
            answer = find_plan(world, state, target, budget)
            asked.append(Asked(family, answer, time.process_time() - began, looks - budget.looks))
    return asked


def _over(end: float) -> Callable[[], bool]:
    return lambda: time.process_time() > end


def described(answer: Answer) -> str:
    """Say what an answer is."""
    if isinstance(answer, Plan):
        return f"cost {answer.cost}"
    if isinstance(answer, NoPlan):
        return f"no way: {len(answer.facts)} facts" + ("" if answer.minimal else ", perhaps not the fewest")
    return f"undecided at {answer.nearest}, at least {answer.bound}"


def main() -> None:
    """Print the slowest question of each family, worst first."""
    slowest = [max(ask(family), key=lambda one: one.seconds) for family in FAMILIES]
    print(
        "| family | addons x releases x minors | slowest of 16 | looks | answer | wanted |\n|---|---|---|---|---|---|"
    )
    for one in sorted(slowest, key=lambda one: one.seconds, reverse=True):
        print(one)


if __name__ == "__main__":
    main()
