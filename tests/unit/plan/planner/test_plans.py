"""Plans a person can follow: the cases the planner exists for."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from clusterstacks.model.names import parse_release
from clusterstacks.model.versions import KubernetesVersion
from clusterstacks.plan.compat.world import Candidate, ClusterState, World
from clusterstacks.plan.planner.budget import Budget
from clusterstacks.plan.planner.model_builder import PlanImpossible, Target
from clusterstacks.plan.planner.plan_document import plan_document
from clusterstacks.plan.planner.planner import NoPlan, Plan, Undecided, find_plan
from tests.support.planner_oracle import Oracle, candidate


def release(name: str, kubernetes: str, stated: str, **addons: tuple[str, str]) -> Candidate:
    """Build a release with ranges; addons by name: version and range."""
    components = [
        {"name": addon, "addon": addon, "version": version, "kubernetes": works_with}
        for addon, (version, works_with) in addons.items()
    ]
    return candidate(name, kubernetes, {"kubernetes": stated, "components": components})


OLD = release("p-s-1-35-v1", "v1.35.3", ">=1.34 <1.37", cni=("1.17.0", ">=1.30 <1.36"), csi=("2.0.0", ">=1.30 <1.38"))
NEW = release("p-s-1-36-v1", "v1.36.1", ">=1.35 <1.38", cni=("1.18.0", ">=1.33 <1.37"), csi=("2.1.0", ">=1.33 <1.38"))
WORLD = World((OLD, NEW))


def state(release: Candidate = OLD, kubernetes: str = "v1.35.3", workers: str = "", **more: Any) -> ClusterState:
    version = KubernetesVersion.parse(kubernetes)
    return ClusterState(version, KubernetesVersion.parse(workers) if workers else version, release.name, **more)


def told(found: object) -> list[str]:
    """Write the steps of a plan in one line each."""
    assert isinstance(found, Plan), found
    lines = []
    for step in found.steps:
        option = step.after.addons.get(step.addon)
        to = option.version if option is not None else "nothing"
        there = {"addon": f"{step.addon} {to}", "class": str(step.after.candidate.name)}
        lines.append(f"{step.kind} {there.get(step.kind, step.after.kubernetes.text)}")
    return lines


def version(text: str) -> Target:
    return KubernetesVersion.parse(text)


def test_an_addon_moves_before_the_kubernetes_version_it_would_not_work_with() -> None:
    assert told(find_plan(WORLD, state(), version("v1.36.1"))) == ["addon cni 1.18.0", "kubernetes v1.36.1"]


def test_a_release_means_its_class_and_exactly_its_addons() -> None:
    found = find_plan(WORLD, state(), NEW.name)
    assert told(found) == ["addon cni 1.18.0", "class p-s-1-36-v1", "addon csi 2.1.0"]
    assert isinstance(found, Plan)
    assert (found.cost, found.end.kubernetes.text) == (12, "v1.36.1")


def test_nothing_moves_that_need_not() -> None:
    assert told(find_plan(WORLD, state(), version("v1.35.3"))) == []
    assert told(find_plan(WORLD, state(kubernetes="v1.35.0"), version("v1.35.3"))) == ["kubernetes v1.35.3"]


def test_lagging_workers_are_waited_for_first() -> None:
    found = find_plan(WORLD, state(workers="v1.34.7"), version("v1.36.1"))
    assert told(found) == ["workers v1.35.3", "addon cni 1.18.0", "kubernetes v1.36.1"]
    assert isinstance(found, Plan)
    assert found.cost == 21


def test_kubernetes_goes_one_minor_at_a_time() -> None:
    middle = release("p-s-1-36-v1", "v1.36.1", ">=1.35 <1.38")
    last = release("p-s-1-37-v1", "v1.37.0", ">=1.36 <1.39")
    first = release("p-s-1-35-v1", "v1.35.3", ">=1.35 <1.37")
    found = find_plan(World((last, first, middle)), state(first), last.name)
    assert told(found) == ["kubernetes v1.36.1", "class p-s-1-37-v1"]


def test_kubernetes_never_goes_down_and_no_fact_is_to_blame() -> None:
    found = find_plan(WORLD, state(), version("v1.34.9"))
    assert isinstance(found, NoPlan)
    assert found.facts == ()


def test_the_facts_that_stand_in_the_way_are_named() -> None:
    stuck = release("p-s-1-36-v1", "v1.36.1", ">=1.35 <1.38", cni=("1.18.0", ">=1.36 <1.37"), csi=("2.0.0", ">=1.30"))
    found = find_plan(World((OLD, stuck)), state(), version("v1.36.1"))
    assert isinstance(found, NoPlan)
    assert [fact.id for fact in found.facts] == [
        "component:cni@1.17.0:kubernetes",
        "component:cni@1.18.0:kubernetes",
    ]
    assert found.facts[0].text == "cni 1.17.0 works with Kubernetes >=1.30 <1.36"


def test_an_explanation_is_thin_where_the_cluster_is_outside_its_ranges() -> None:
    def a(version: str, kubernetes: str, x: str) -> dict[str, Any]:
        upgrade = {"maxMinorStep": 1, "downgrade": version == "1.9.0"}
        return {
            "name": "a",
            "addon": "a",
            "version": version,
            "kubernetes": kubernetes,
            "requires": {"x": x},
            "upgrade": upgrade,
        }

    x = {"name": "x", "version": "1.11.0", "kubernetes": ">=1.7 <1.8", "requires": {"a": ">=1.9"}}
    here = candidate(
        "p-s-1-11-v5", "v1.11.0", {"kubernetes": ">=1.11 <1.13", "components": [a("1.10.0", "<1.8", ">=1.8")]}
    )
    other = candidate(
        "p-s-1-10-v12", "v1.10.2", {"kubernetes": ">=1.10 <1.13", "components": [a("1.9.0", ">=1.1", ">=1.9"), x]}
    )
    question = World((here, other)), state(here, "v1.11.0"), version("v1.12.1")

    found = find_plan(*question)
    assert isinstance(found, NoPlan)
    ids = {fact.id for fact in found.facts}
    assert Oracle(*question, ids).cheapest() is None
    assert all(Oracle(*question, ids - {fact}).cheapest() is not None for fact in ids)


def test_bundles_move_as_a_whole_and_only_up() -> None:
    one = candidate("p-s-1-34-v1", "v1.34.2", None)
    two = candidate("p-s-1-35-v1", "v1.35.1", None)
    three = candidate("p-s-1-36-v1", "v1.36.0", None)
    world = World((three, one, two))
    assert told(find_plan(world, state(one, "v1.34.2"), three.name)) == ["release v1.35.1", "release v1.36.0"]
    assert isinstance(find_plan(world, state(three, "v1.36.0"), one.name), NoPlan)


def test_out_of_a_bundle_the_addons_of_the_release_must_work_with_both_versions() -> None:
    bundle = candidate("p-s-1-35-v0", "v1.35.3", None)
    assert told(find_plan(World((bundle, NEW)), state(bundle), NEW.name)) == ["release v1.36.1"]
    strict = release("p-s-1-36-v1", "v1.36.1", ">=1.35", cni=("1.18.0", ">=1.36"))
    found = find_plan(World((bundle, strict)), state(bundle), strict.name)
    assert isinstance(found, NoPlan)
    assert [fact.id for fact in found.facts] == ["component:cni@1.18.0:kubernetes"]


def test_a_cluster_outside_its_ranges_finds_its_way_back() -> None:
    found = find_plan(WORLD, state(kubernetes="v1.36.1"), NEW.name)
    assert told(found) == ["addon cni 1.18.0", "class p-s-1-36-v1", "addon csi 2.1.0"]


def test_an_installed_version_that_no_release_has_can_be_left() -> None:
    found = find_plan(WORLD, state(addons={"cni": "1.16.9", "csi": "2.1.0"}), NEW.name)
    assert told(found) == ["class p-s-1-36-v1", "addon cni 1.18.0"]


def test_addons_are_installed_and_removed_as_the_release_has_them() -> None:
    other = release("p-s-1-36-v2", "v1.36.1", ">=1.35", dns=("1.0.0", ">=1.30"), cni=("1.18.0", ">=1.33 <1.37"))
    found = find_plan(World((OLD, other)), state(), other.name)
    assert sorted(told(found)) == ["addon cni 1.18.0", "addon csi nothing", "addon dns 1.0.0", "class p-s-1-36-v2"]


def test_the_rule_of_the_version_moved_to_counts_its_minors() -> None:
    def having(minor: int, cni: int) -> Candidate:
        component = {
            "name": "cni",
            "addon": "cni",
            "version": f"1.{cni}.0",
            "kubernetes": ">=1.30",
            "upgrade": {"maxMinorStep": 1},
        }
        return candidate(f"p-s-1-{minor}-v1", f"v1.{minor}.0", {"kubernetes": ">=1.30", "components": [component]})

    releases = (having(34, 9), having(35, 10), having(36, 11))
    found = find_plan(World(releases), state(releases[0], "v1.36.0"), releases[2].name)
    assert told(found) == ["class p-s-1-36-v1", "addon cni 1.10.0", "addon cni 1.11.0"]


def test_of_interchangeable_kubernetes_versions_and_classes_the_plan_names_the_newest() -> None:
    first = release("p-s-1-35-v1", "v1.35.3", ">=1.35 <1.37")
    between = [release(f"p-s-1-36-v{patch}", f"v1.36.{patch}", ">=1.35 <1.38") for patch in range(1, 9)]
    later = release("p-s-1-37-v1", "v1.37.0", ">=1.37")
    found = find_plan(World((first, *between, later)), state(first), version("v1.37.0"))
    assert told(found) == ["kubernetes v1.36.8", "class p-s-1-37-v1"]


def test_of_interchangeable_addon_versions_the_plan_names_the_newest_and_leaves_the_one_that_is_there() -> None:
    def having(minor: int, cni: str, csi: str) -> Candidate:
        works_with = ">=1.30 <1.36" if cni.startswith("1.17") else ">=1.33 <1.37"
        return release(
            f"p-s-1-{minor}-v{cni[-1]}", f"v1.{minor}.0", ">=1.34", cni=(cni, works_with), csi=(csi, ">=1.30")
        )

    world = World((having(35, "1.17.0", "2.0.0"), having(36, "1.18.1", "2.0.1"), having(36, "1.18.2", "2.0.2")))
    found = find_plan(world, state(world.candidates[0], "v1.35.0"), version("v1.36.0"))
    assert told(found) == ["addon cni 1.18.2", "kubernetes v1.36.0"]


def test_a_search_that_stops_says_how_far_it_got() -> None:
    answers = [find_plan(WORLD, state(), NEW.name, Budget(looks)) for looks in range(200)]
    stopped = [one for one in answers if isinstance(one, Undecided) and one.nearest is not None]
    assert stopped
    # The estimate is exact here: no plan costs less than the one there is.
    assert {one.bound for one in stopped} == {12}


@pytest.mark.parametrize("budget", [Budget(looks=0), Budget(is_over=lambda: True)])
def test_a_bound_that_is_reached_is_no_verdict(budget: Budget) -> None:
    assert isinstance(find_plan(WORLD, state(), NEW.name, budget), Undecided)


@pytest.mark.parametrize(
    ("asked", "target", "complaint"),
    [
        (state(), parse_release("p-s-1-37-v1"), "p-s-1-37-v1 is not among the releases"),
        (state(), parse_release("p-other-1-36-v1"), "is of another stack"),
        (
            state(candidate("p-s-1-30-v1", "v1.30.0", None)),
            NEW.name,
            "whose class the cluster has, is not",
        ),
        (state(workers="v1.36.0"), NEW.name, r"workers of v1\.36\.0 are ahead"),
    ],
)
def test_a_question_that_makes_no_sense_is_refused(asked: ClusterState, target: Target, complaint: str) -> None:
    with pytest.raises(PlanImpossible, match=complaint):
        find_plan(WORLD, asked, target)


def test_from_a_bundle_through_ranges_into_a_bundle_the_addons_move_where_they_are() -> None:
    start = candidate("p-s-1-9-v2", "v1.9.2", None)
    target = candidate("p-s-1-11-v12", "v1.11.1", None)
    through = release("p-s-1-8-v9", "v1.8.1", ">=1.7 <1.11", c=("1.8.0", ">=1.8 <1.10"))
    entered_by_nobody = ("1.0.0", ">=1.7 <1.10")
    other = release("p-s-1-10-v8", "v1.10.2", ">=1.10 <1.12", a=entered_by_nobody, c=("1.11.0", ">=1.7 <1.12"))

    found = find_plan(World((start, target, through, other)), state(start, "v1.9.2"), target.name)
    assert told(found) == [
        "release v1.9.2",
        "addon c 1.11.0",
        "kubernetes v1.10.2",
        "release v1.11.1",
    ]


def listing(of: Candidate, *versions: str) -> Candidate:
    return replace(of, class_versions=tuple(map(KubernetesVersion.parse, versions)))


WIDE = listing(
    release("p-s-1-34-v1", "v1.34.2", ">=1.34 <1.38", cni=("1.17.0", ">=1.30 <1.38")),
    *("v1.34.2", "v1.35.1", "v1.35.4", "v1.36.3", "v1.37.0"),
)
NARROW = listing(
    release("p-s-1-34-v1", "v1.34.2", ">=1.34 <1.38", cni=("1.17.0", ">=1.30 <1.36")),
    *("v1.34.2", "v1.35.4", "v1.36.3"),
)


@pytest.mark.parametrize(
    ("releases", "goal", "steps"),
    [
        pytest.param([WIDE], "v1.36.3", ["kubernetes v1.36.3"], id="listed versions are walked in one step"),
        pytest.param([WIDE], "v1.37.0", ["kubernetes v1.37.0"], id="three minors"),
        pytest.param([WIDE], "v1.35.4", ["kubernetes v1.35.4"], id="one minor"),
        pytest.param(
            [NARROW, release("p-s-1-34-v2", "v1.34.2", ">=1.34 <1.35", cni=("1.18.0", ">=1.34 <1.37"))],
            "v1.36.3",
            ["addon cni 1.18.0", "kubernetes v1.36.3"],
            id="an addon that works with all of them moves before",
        ),
        pytest.param(
            [NARROW, release("p-s-1-34-v2", "v1.34.2", ">=1.34 <1.35", cni=("1.18.0", ">=1.35 <1.37"))],
            "v1.36.3",
            ["kubernetes v1.35.4", "addon cni 1.18.0", "kubernetes v1.36.3"],
            id="an addon that must move on the way separates the steps",
        ),
        pytest.param(
            [NARROW, release("p-s-1-34-v2", "v1.34.2", ">=1.34 <1.35", cni=("1.18.0", ">=1.36 <1.37"))],
            "v1.36.3",
            None,
            id="no version of an addon works with one on the way",
        ),
    ],
)
def test_versions_that_the_class_lists_are_walked_in_one_step(
    releases: list[Candidate], goal: str, steps: list[str] | None
) -> None:
    found = find_plan(World(tuple(releases)), state(releases[0], "v1.34.2"), version(goal))
    if steps is None:
        assert isinstance(found, NoPlan)
    else:
        assert told(found) == steps


def test_a_class_that_lists_versions_is_entered_several_minors_away() -> None:
    narrow = release("p-s-1-34-v1", "v1.34.2", ">=1.34 <1.35")
    wide = listing(release("p-s-1-36-v1", "v1.36.3", ">=1.34 <1.37"), "v1.34.2", "v1.35.4", "v1.36.3")
    assert told(find_plan(World((narrow, wide)), state(narrow, "v1.34.2"), wide.name)) == ["class p-s-1-36-v1"]


def test_a_class_accepts_only_the_versions_that_it_lists() -> None:
    asked = World((WIDE,)), state(WIDE, "v1.34.2"), version("v1.36.1")
    found = find_plan(*asked)
    assert isinstance(found, NoPlan)
    assert "class p-s-1-34-v1 accepts only v1.34.2, v1.35.1," in plan_document(*asked, found)["refused"]["message"]


def test_a_step_of_several_minors_names_the_versions_on_the_way() -> None:
    asked = World((WIDE,)), state(WIDE, "v1.34.2"), version("v1.36.3")
    found = find_plan(*asked)
    assert isinstance(found, Plan)
    (step,) = plan_document(*asked, found)["steps"]
    assert step["patch"] == {"spec": {"topology": {"version": "v1.36.3"}}}
    assert step["reason"].startswith(
        "the version asked for; Cluster API takes the control plane there by way of v1.35.4, "
    )
    assert step["reason"].endswith("and replaces the workers once")
    assert found.cost == 10
