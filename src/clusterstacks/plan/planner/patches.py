"""Merge patches of the Cluster, one for each step of a plan.

If an addon does not come from the release of the class, an annotation of the Cluster names its release. So a move of
the class that keeps an addon sets the annotation, and a move that brings the release of the addon removes it. The
annotation for all addons (``addon-release``) stays as long as it saves annotations of single addons.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from clusterstacks.model.kinds.addon_annotations import (
    ADDON_ANNOTATION,
    NO_RELEASE,
    RELEASE_ANNOTATION,
    read_requested_releases,
)
from clusterstacks.plan.planner.steps import StepKind

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping

    from clusterstacks.model.names import ReleaseName
    from clusterstacks.model.objects import Manifest
    from clusterstacks.plan.compat.world import ClusterState, World
    from clusterstacks.plan.planner.steps import PlannedVersions, Step


@dataclass(frozen=True, slots=True)
class AnnotatedAddons:
    """The annotations of a Cluster about addons.

    Args:
        home: The release of all addons that are not named; None for the release of the class.
        offered: The addons of that release.
        addons: By addon, the release it comes from, or the value that keeps it out.
    """

    home: ReleaseName | None = None
    offered: Collection[str] = ()
    addons: Mapping[str, str] = field(default_factory=dict)


def annotated(world: World, state: ClusterState) -> AnnotatedAddons | None:
    """Read the annotations of a cluster; None if they are unknown.

    Raises:
        AddonReleaseRefused: An annotation does not name a release of the provider and stack of the class.
    """
    if state.annotations is None:
        return None
    requested = read_requested_releases(state.annotations, state.release)
    home = requested.release if RELEASE_ANNOTATION in state.annotations else None
    offered = [addon for one in world.candidates if one.name == home for addon in one.addons]
    named = {addon: NO_RELEASE if one is None else one.release for addon, one in requested.addons.items()}
    return AnnotatedAddons(home, offered, named)


def assumed(start: PlannedVersions) -> AnnotatedAddons:
    """Return the fewest annotations that describe the addons of a cluster."""
    own = start.candidate
    return AnnotatedAddons(addons=_needed(start, own.name, own.addons, {}))


def patches(
    start: PlannedVersions, steps: Iterable[Step], written: AnnotatedAddons | None = None
) -> Iterator[Manifest | None]:
    """Yield for each step its patch; None for a step that only waits.

    Args:
        start: The versions before the first step.
        steps: The steps in order.
        written: The annotations of the Cluster; None for the fewest that describe its addons.
    """
    here = written if written is not None else assumed(start)
    for step in steps:
        there = _annotated_after(step, here)
        yield _patch(step, _difference(here, there))
        here = there


def annotations_of(written: AnnotatedAddons) -> dict[str, str]:
    """Return the annotations as the metadata of a Cluster has them."""
    home = {RELEASE_ANNOTATION: written.home.release} if written.home is not None else {}
    return {**home, **{f"{ADDON_ANNOTATION}{addon}": value for addon, value in written.addons.items()}}


def taken_from(step: Step) -> ReleaseName | None:
    """Return the release that an addon step takes the addon from; None if it removes the addon."""
    option = step.after.addons.get(step.addon)
    if option is None:
        return None
    own = step.after.candidate.name
    return own if own in option.releases else option.releases[-1]


def _annotated_after(step: Step, here: AnnotatedAddons) -> AnnotatedAddons:
    own = step.after.candidate
    if own.compatibility is None:
        return AnnotatedAddons()
    base = AnnotatedAddons() if step.kind is StepKind.RELEASE else here
    home, offered = (own.name, own.addons) if base.home is None else (base.home, base.offered)
    if step.before.candidate != own:
        addons = _needed(step.after, home, offered, base.addons)
    elif step.addon:
        addons = _with_moved(step, home, offered, base.addons)
    else:
        return here
    if base.home is not None and addons and not _needed(step.after, own.name, own.addons, {}):
        return AnnotatedAddons()
    return AnnotatedAddons(base.home, base.offered, addons)


def _with_moved(step: Step, home: ReleaseName, offered: Collection[str], written: Mapping[str, str]) -> dict[str, str]:
    addons = {addon: value for addon, value in written.items() if addon != step.addon}
    taken = taken_from(step)
    if taken is None and step.addon in offered:
        addons[step.addon] = NO_RELEASE
    elif taken is not None and taken != home:
        addons[step.addon] = taken.release
    return addons


def _needed(
    situation: PlannedVersions, home: ReleaseName, offered: Collection[str], written: Mapping[str, str]
) -> dict[str, str]:
    """Return, by addon, the annotation that versions need; one that is right already stays.

    Args:
        situation: The versions.
        home: The release of addons without annotation.
        offered: The addons of that release.
        written: The annotations before.
    """
    needed = {addon: NO_RELEASE for addon in offered if addon not in situation.addons}
    for addon, option in situation.addons.items():
        names = [name.release for name in option.releases]
        if home.release in names:
            continue
            # Only its annotation keeps a version that no release here has.
        if addon in written and (not names or written[addon] in names):
            needed[addon] = written[addon]
        elif names:
            needed[addon] = names[-1]
    return needed


def _difference(old: AnnotatedAddons, new: AnnotatedAddons) -> dict[str, str | None]:
    changed: dict[str, str | None] = {
        f"{ADDON_ANNOTATION}{addon}": new.addons.get(addon)
        for addon in sorted({*old.addons, *new.addons})
        if old.addons.get(addon) != new.addons.get(addon)
    }
    if old.home is not None and new.home is None:
        changed[RELEASE_ANNOTATION] = None
    return changed


def _patch(step: Step, annotations: Mapping[str, str | None]) -> Manifest | None:
    patch: Manifest = {}
    if annotations:
        patch["metadata"] = {"annotations": dict(annotations)}
    topology: Manifest = {}
    if step.before.candidate != step.after.candidate:
        topology["classRef"] = {"name": step.after.candidate.name.class_name}
    if step.before.kubernetes != step.after.kubernetes:
        topology["version"] = step.after.kubernetes.text
    if topology:
        patch["spec"] = {"topology": topology}
    return patch or None
