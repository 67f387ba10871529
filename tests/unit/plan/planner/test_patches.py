"""Patches of a Cluster whose annotations say something already: applied in order they lead where the plan says."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clusterstacks.model.files.compatibility import leading
from clusterstacks.model.kinds.addon_annotations import (
    ADDON_ANNOTATION,
    RELEASE_ANNOTATION,
    AddonReleaseRefused,
    read_requested_releases,
)
from clusterstacks.model.names import ReleaseName, parse_class, parse_release, parse_target
from clusterstacks.model.versions import KubernetesVersion
from clusterstacks.plan.compat.world import Candidate, ClusterState, World
from clusterstacks.plan.planner.plan_document import plan_document
from clusterstacks.plan.planner.planner import Plan, find_plan
from tests.support.planner_oracle import candidate

if TYPE_CHECKING:
    from collections.abc import Mapping

CNI, CSI = f"{ADDON_ANNOTATION}cni", f"{ADDON_ANNOTATION}csi"
V1, V2, V3 = (f"p-s-1-35-v{number}" for number in (1, 2, 3))


def release(name: str, **addons: str) -> Candidate:
    components = [
        {"name": addon, "addon": addon, "version": version, "upgrade": {"downgrade": True}}
        for addon, version in addons.items()
    ]
    return candidate(name, "v1.35.1", {"kubernetes": ">=1.34 <1.37", "components": components})


def versions(
    annotations: Mapping[str, str], own: ReleaseName, known: Mapping[ReleaseName, Candidate]
) -> dict[str, str]:
    """The version of each addon that a Cluster asks for."""
    stated = {name: one.compatibility for name, one in known.items() if one.compatibility is not None}
    offered = {name: one.addons() for name, one in stated.items()}
    sources = read_requested_releases(annotations, own).sources(offered)
    return {addon: leading(addon, stated[name].of_addon(addon)).text for addon, name in sources.items()}


def planned(annotations: dict[str, str], to: str, *releases: Candidate, own: str = V1) -> list[dict[str, Any]]:
    """The steps of a plan, whose patches were applied one by one and looked at."""
    known = {one.name: one for one in releases}
    now = KubernetesVersion.parse("v1.35.1")
    here = parse_release(own)
    state = ClusterState(now, now, here, versions(annotations, here, known), annotations=annotations)
    world, target = World(tuple(releases)), parse_target(to)
    answer = find_plan(world, state, target)
    assert isinstance(answer, Plan)
    document = plan_document(world, state, target, answer)
    has = dict(annotations)
    for told, step in zip(document["steps"], answer.steps, strict=True):
        patch = told["patch"] or {}
        for key, value in patch.get("metadata", {}).get("annotations", {}).items():
            if value is None:
                assert has.pop(key, None), f"{key} is taken away and was not there"
            else:
                has[key] = value
        here = parse_class(patch.get("spec", {}).get("topology", {}).get("classRef", {}).get("name", here.class_name))
        assert here == step.after.candidate.name
        assert versions(has, here, known) == {addon: one.version for addon, one in step.after.addons.items()}
    steps: list[dict[str, Any]] = document["steps"]
    return steps


def annotations_of(steps: list[dict[str, Any]]) -> list[dict[str, str | None]]:
    return [((step["patch"] or {}).get("metadata") or {}).get("annotations", {}) for step in steps]


def test_addons_of_another_release_stay_where_they_are_while_the_class_moves() -> None:
    first, second, third = release(V1, cni="1.0.0"), release(V2, cni="2.0.0"), release(V3, cni="2.0.0", csi="1.0.0")
    steps = planned({RELEASE_ANNOTATION: V2}, V3, first, second, third)
    assert [(step["kind"], step["name"]) for step in steps] == [("class", None), ("addon", "csi")]
    assert annotations_of(steps) == [{}, {RELEASE_ANNOTATION: None}]


def test_a_single_addon_beats_the_release_of_all() -> None:
    first, second = release(V1, cni="1.0.0", csi="1.0.0"), release(V2, cni="2.0.0", csi="2.0.0")
    steps = planned({RELEASE_ANNOTATION: V2, CNI: V1}, V1, first, second)
    assert [step["name"] for step in steps] == ["csi"]
    assert annotations_of(steps) == [{CNI: None, RELEASE_ANNOTATION: None}]


def test_what_says_the_right_thing_in_other_words_is_left_alone() -> None:
    first, second = release(V1, cni="1.0.0"), release(V2, cni="2.0.0")
    class_form = parse_release(V2).class_name
    assert annotations_of(planned({CNI: class_form}, "v1.35.2", first, second)) == [{}]
    assert annotations_of(planned({CNI: V1}, "v1.35.2", first, second)) == [{}]


def test_an_addon_that_is_kept_out_stays_out_until_the_target_has_it() -> None:
    first, second = release(V1, cni="1.0.0", csi="1.0.0"), release(V2, cni="1.0.0", csi="1.0.0")
    assert annotations_of(planned({CSI: "none"}, "v1.35.2", first, second)) == [{}]
    steps = planned({CSI: "none"}, V2, first, second)
    assert {step["kind"] for step in steps} == {"addon", "class"}


def test_an_annotation_that_names_no_release_is_told_instead_of_a_plan() -> None:
    now, world = KubernetesVersion.parse("v1.35.1"), World((release(V1, cni="1.0.0"),))
    state = ClusterState(now, now, parse_release(V1), annotations={CNI: "latest"})
    target = parse_target("v1.35.2")
    answer = find_plan(world, state, target)
    assert isinstance(answer, Plan)
    with pytest.raises(AddonReleaseRefused, match="'latest' is not a valid release"):
        plan_document(world, state, target, answer)


addons = st.dictionaries(st.sampled_from(["cni", "csi", "dns"]), st.sampled_from(["1.0.0", "2.0.0"]))


@given(st.lists(addons, min_size=3, max_size=3), st.data())
def test_the_patches_of_any_plan_lead_from_any_annotations_to_its_end(
    offered: list[dict[str, str]], draw: st.DataObject
) -> None:
    releases = [release(name, **one) for name, one in zip((V1, V2, V3), offered, strict=True)]
    pairs = list(zip((V1, V2, V3), offered, strict=True))
    having = {addon: [name for name, one in pairs if addon in one] for addon in ("cni", "csi", "dns")}
    annotations = {
        f"{ADDON_ANNOTATION}{addon}": draw.draw(st.sampled_from([*names, "none"]))
        for addon, names in having.items()
        if draw.draw(st.booleans())
    }
    if draw.draw(st.booleans()):
        annotations[RELEASE_ANNOTATION] = draw.draw(st.sampled_from([V1, V2, V3]))
    planned(annotations, draw.draw(st.sampled_from([V1, V2, V3, "v1.36.0"])), *releases)
