"""The upgrade planner on a world of 15 addons, 12 releases and 8 Kubernetes minors, from the first release to the last.

*Apart*: no fact is about two addons. *No bridge*: no version of one addon works with two neighbouring minors, so there
is no plan, and the planner looks for the facts that stand in the way. *Coupled*: every addon requires a range of
versions of the one before it, so all fifteen must be searched together; what that costs depends on the world, so
several are measured.
"""

from __future__ import annotations

import time
from random import Random
from typing import TYPE_CHECKING, Any

from benchmarks.report import Figure, show
from clusterstacks.domain.planning.planner import NoWay, Plan, find_plan
from clusterstacks.domain.planning.world import State, World
from tests.support.planning import candidate

if TYPE_CHECKING:
    from clusterstacks.domain.names import ReleaseName
    from clusterstacks.domain.planning.world import Candidate
    from clusterstacks.domain.versions import KubernetesVersion

ADDONS = 15
RELEASES = 12
MINORS = 8
OLDEST_MINOR = 28
ALONE_IN_THE_GAP = 7
GAP_MINOR = 32
SEEDS = range(1, 5)


def world(seed: int, *, gap: bool = False, coupled: bool = False) -> World:
    """Make up the releases of a stack: a newer one has newer addons for newer Kubernetes versions."""
    r = Random(seed)
    candidates: list[Candidate] = []
    for number in range(RELEASES):
        minor = OLDEST_MINOR + number * MINORS // RELEASES
        components = [_component(r, addon, number, minor, coupled=coupled) for addon in range(ADDONS)]
        if gap:
            low, high = (GAP_MINOR, minor + 2) if minor >= GAP_MINOR else (minor - 1, GAP_MINOR)
            components[ALONE_IN_THE_GAP]["kubernetes"] = f">=1.{low} <1.{high}"
        stated = {"kubernetes": f">=1.{minor - 1} <1.{minor + 3}", "components": components}
        name = f"p-s-1-{minor}-v{number + 1}"
        candidates.append(candidate(name, f"v1.{minor}.{number % 3 + 1}", stated))
    return World(tuple(candidates))


def _component(r: Random, addon: int, number: int, minor: int, *, coupled: bool) -> dict[str, Any]:
    version = 10 + number
    component: dict[str, Any] = {
        "name": f"a{addon}",
        "addon": f"a{addon}",
        "version": f"1.{version}.{r.randint(0, 3)}",
        "kubernetes": f">=1.{minor - r.randint(0, 2)} <1.{minor + 2 + r.randint(0, 1)}",
        "upgrade": {"maxMinorStep": r.randint(1, 3)},
    }
    if coupled and addon:
        component["requires"] = {f"a{addon - 1}": f">=1.{version - 3} <1.{version + 4}"}
    return component


def asked(releases: World, to: ReleaseName | KubernetesVersion) -> tuple[float, object]:
    first = releases.candidates[0]
    began = time.perf_counter()
    answer = find_plan(releases, State(first.kubernetes, first.kubernetes, first.name), to)
    return time.perf_counter() - began, answer


def measure(what: str, expected: type[Plan | NoWay], **kind: bool) -> list[Figure]:
    """Ask about every world once for its last release and once for the last version."""
    times: list[float] = []
    other = 0
    for seed in SEEDS:
        releases = world(seed, **kind)
        last = releases.candidates[-1]
        for to in (last.name, last.kubernetes):
            seconds, answer = asked(releases, to)
            times.append(seconds)
            other += not isinstance(answer, expected)
    return [
        Figure(f"{what}: time", times, "s"),
        Figure(f"{what}: answers that are no {expected.__name__}", [other], ""),
    ]


def main() -> None:
    figures = [
        *measure("apart", Plan),
        *measure("no bridge", NoWay, gap=True),
        *measure("coupled", Plan, coupled=True),
    ]
    show(f"Planner: {ADDONS} addons, {RELEASES} releases, {MINORS} minors", figures)


if __name__ == "__main__":
    main()
