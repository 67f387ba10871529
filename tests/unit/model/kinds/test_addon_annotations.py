"""Annotations that select the release of single addons."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from clusterstacks.model.files.addon_config import AddonConfig, LifecycleHook, Stage, StageAction, StageCondition
from clusterstacks.model.kinds.addon_annotations import (
    ADDON_ANNOTATION,
    MOST_ANNOTATIONS,
    MOST_RELEASES,
    RELEASE_ANNOTATION,
    AddonReleaseRefused,
    combined_config,
    read_requested_releases,
    releases_named,
    without_effect,
)
from clusterstacks.model.names import parse_release
from tests.support.observing.cpu_time import no_stall

if TYPE_CHECKING:
    from collections.abc import Collection

OWN = parse_release("openstack-scs-1-35-v1")
OTHER = parse_release("openstack-scs-1-36-v0-sha-abc")
OFFERED = {OWN: ("cni", "csi"), OTHER: ("cni", "dns")}
INSTALL = LifecycleHook.AFTER_CONTROL_PLANE_INITIALIZED
UPGRADE = LifecycleHook.BEFORE_CLUSTER_UPGRADE


def apply(addon: str, before: str = "") -> Stage:
    return Stage(addon, StageAction.APPLY, StageCondition(before) if before else None)


def config(**stages: list[Stage]) -> AddonConfig:
    return AddonConfig({hook: tuple(stages.get(hook.name.lower(), ())) for hook in LifecycleHook})


@pytest.mark.parametrize(
    ("annotations", "sources"),
    [
        ({}, {"cni": OWN, "csi": OWN}),
        ({"other.example/addon.cni": "nonsense"}, {"cni": OWN, "csi": OWN}),
        ({RELEASE_ANNOTATION: "openstack-scs-1-36-v0-sha-abc"}, {"cni": OTHER, "dns": OTHER}),
        ({f"{ADDON_ANNOTATION}cni": "openstack-scs-1-36-v0-sha.abc"}, {"cni": OTHER, "csi": OWN}),
        ({RELEASE_ANNOTATION: OTHER.release, f"{ADDON_ANNOTATION}cni": OWN.release}, {"cni": OWN, "dns": OTHER}),
        ({f"{ADDON_ANNOTATION}dns": OTHER.release}, {"cni": OWN, "csi": OWN, "dns": OTHER}),
        ({f"{ADDON_ANNOTATION}csi": "none"}, {"cni": OWN}),
        ({f"{ADDON_ANNOTATION}gpu": "none"}, {"cni": OWN, "csi": OWN}),
    ],
)
def test_annotation_of_one_addon_overrides_the_one_of_all_addons_and_the_class(
    annotations: dict[str, str], sources: dict[str, object]
) -> None:
    assert read_requested_releases(annotations, OWN).sources(OFFERED) == sources


def test_each_referenced_release_is_listed_once() -> None:
    annotations = {f"{ADDON_ANNOTATION}cni": OTHER.release, f"{ADDON_ANNOTATION}dns": OTHER.class_name}
    assert read_requested_releases(annotations, OWN).releases() == (OWN, OTHER)


@pytest.mark.parametrize(
    ("annotations", "complaint"),
    [
        (
            {RELEASE_ANNOTATION: "latest"},
            r"addon-release: 'latest' is not a valid release \(expected for example openstack-scs",
        ),
        ({RELEASE_ANNOTATION: "none"}, r"'none' is not a valid release"),
        (
            {f"{ADDON_ANNOTATION}cni": "docker-scs-1-35-v1"},
            r"addon\.cni: release docker-scs-1-35-v1 belongs to another",
        ),
        ({f"{ADDON_ANNOTATION}csi": OTHER.release}, r"has no addon csi, it has cni, dns; correct the annotation"),
    ],
)
def test_annotations_with_unusable_releases_are_rejected(annotations: dict[str, str], complaint: str) -> None:
    with pytest.raises(AddonReleaseRefused, match=complaint):
        read_requested_releases(annotations, OWN).sources(OFFERED)


KEY = ADDON_ANNOTATION.removesuffix(".")
THERE = "; the addons are cni, csi"
GENERAL = f"write {ADDON_ANNOTATION}<addon>, or {RELEASE_ANNOTATION} for all addons"


@pytest.mark.regression("LIVE-M4")
@pytest.mark.parametrize(
    ("annotations", "addons", "said"),
    [
        ({}, ("cni", "csi"), []),
        ({"example.org/addons.cni": "v1", f"{KEY}-release": "v1", f"{KEY}.gpu": "v1"}, ("cni", "csi"), []),
        ({f"{KEY}.csi": "none"}, ("cni", "csi"), []),
        ({f"{KEY}s.cni": "v1"}, ("cni", "csi"), [f"annotation {KEY}s.cni is not read: write {KEY}.cni{THERE}"]),
        ({f"{KEY}.CNI": "none"}, ("cni", "csi"), [f"{KEY}.CNI excludes addon 'CNI', which does not exist: write "]),
        ({f"{KEY}.gpu": "none"}, (), []),
        ({f"{KEY}.snapshots": "none"}, ("cni", "csi"), [f"'snapshots', which does not exist: {GENERAL}{THERE}"]),
        ({f"{KEY}-releases": "v1"}, (), [f"{KEY}-releases is not read: write {RELEASE_ANNOTATION}"]),
        ({f"{KEY.replace('addon', 'Addon')}.csi": "v1"}, ("cni", "csi"), [f"write {KEY}.csi{THERE}"]),
        ({f"{KEY}-of-the-whole-cluster": "v1"}, (), [GENERAL]),
        ({f"{KEY}s.cni": "v1", f"{KEY}s.csi": "v1"}, ("cni", "csi"), [f"write {KEY}.cni", f"write {KEY}.csi{THERE}"]),
        ({f"{KEY}s.{number}": "" for number in range(99)}, (), [*["is not read"] * 3, "and 96 more"]),
        ({f"{KEY}s.a1": ""}, [f"a{number}" for number in range(99)], ["a17 and 89 more"]),
    ],
)
def test_annotations_without_effect_are_reported_with_the_nearest_name(
    annotations: dict[str, str], addons: Collection[str], said: list[str]
) -> None:
    found = without_effect(annotations, addons)

    assert len(found) == len(said)
    assert all(words in text for words, text in zip(said, found, strict=True))


def test_search_for_annotations_without_effect_is_bounded() -> None:
    """A Cluster has at most 256 KiB of annotations."""
    annotations = {f"{KEY}s.{number:04}".ljust(80, "x"): "" for number in range(3000)}
    addons = [f"addon-{number:04}".ljust(63, "x") for number in range(1000)]

    with no_stall():
        without_effect(annotations, addons)


def test_stages_keep_the_order_of_the_class_and_the_conditions_of_each_release() -> None:
    own = config(
        after_control_plane_initialized=[apply("cni", "ours"), apply("csi", "ours")],
        before_cluster_upgrade=[Stage("cni", StageAction.DELETE), apply("cni")],
    )
    theirs = config(
        after_control_plane_initialized=[apply("dns", "theirs"), apply("cni", "theirs")],
        before_cluster_upgrade=[apply("dns")],
    )
    found = combined_config(own, {"cni": OTHER, "csi": OWN, "dns": OTHER}, {OWN: own, OTHER: theirs}, OWN)

    assert found.stages[INSTALL] == (apply("cni", "theirs"), apply("csi", "ours"), apply("dns", "theirs"))
    assert found.stages[UPGRADE] == (apply("cni"), apply("dns"))


def test_excluded_addon_has_no_stage_and_delete_stages_of_the_class_remain() -> None:
    own = config(after_control_plane_initialized=[apply("cni"), apply("csi"), Stage("old", StageAction.DELETE)])
    found = combined_config(own, {"cni": OWN}, {OWN: own}, OWN)
    assert found.stages[INSTALL] == (apply("cni"), Stage("old", StageAction.DELETE))


def test_without_annotations_the_stages_of_the_class_apply() -> None:
    own = config(after_control_plane_initialized=[apply("cni", "ours"), apply("csi")])
    assert combined_config(own, {"cni": OWN, "csi": OWN}, {OWN: own}, OWN) == own


def naming(count: int, value: str = "openstack-scs-1-35-v{}") -> dict[str, str]:
    return {f"{ADDON_ANNOTATION}a{at}": value.format(at) for at in range(1, count + 1)}


@pytest.mark.regression("SEC-22")
@pytest.mark.parametrize(
    ("annotations", "words"),
    [
        (naming(MOST_RELEASES), ""),
        (naming(MOST_RELEASES + 1), "at most 32 releases"),
        (naming(MOST_ANNOTATIONS, OTHER.release), ""),
        (naming(MOST_ANNOTATIONS + 1, OTHER.release), "more than 512 annotations"),
        (naming(MOST_ANNOTATIONS + 1, "none"), "more than 512 annotations"),
    ],
)
def test_annotations_of_one_cluster_are_bounded(annotations: dict[str, str], words: str) -> None:
    named = releases_named(annotations, OWN)

    assert OWN in named
    assert len(named) <= MOST_RELEASES + 1
    if not words:
        assert read_requested_releases(annotations, OWN).releases()
        return
    with pytest.raises(AddonReleaseRefused, match=words):
        read_requested_releases(annotations, OWN)


@pytest.mark.regression("SEC-22")
def test_too_many_annotations_are_rejected_cheaply() -> None:
    """256 KiB of annotations, the most that an object may have; 5 ms are measured."""
    annotations = naming(6000)

    with no_stall():
        assert len(releases_named(annotations, OWN)) == MOST_RELEASES + 1
