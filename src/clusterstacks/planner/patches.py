"""What a step writes: a merge patch of the Cluster, the user's one object.

Where an addon's release is not the class's, an annotation of the Cluster names it. So a move of the class that keeps an
addon writes the annotation, and one that brings the addon's own release takes it away. What the Cluster says of all its
addons at once (``addon-release``) stays as long as it saves annotations of single ones.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from clusterstacks.api.addon_annotations import ADDON_ANNOTATION, NO_RELEASE, RELEASE_ANNOTATION, read_wishes
from clusterstacks.planner.steps import StepKind

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping

    from clusterstacks.compat.world import ClusterState, World
    from clusterstacks.domain.names import ReleaseName
    from clusterstacks.domain.objects import Manifest
    from clusterstacks.planner.steps import ClusterVersions, Step


@dataclass(frozen=True, slots=True)
class AnnotatedAddons:
    """What the annotations of a Cluster say about addons.

    Args:
        home: The release of all that are not named; None for the class's own.
        offered: The addons that release has.
        addons: By addon, the release it comes from, or that it is kept out.
    """

    home: ReleaseName | None = None
    offered: Collection[str] = ()
    addons: Mapping[str, str] = field(default_factory=dict)


def annotated(world: World, state: ClusterState) -> AnnotatedAddons | None:
    """Read the annotations of a cluster; None where nothing is known of them.

    Raises:
        AddonReleaseRefused: One of them names no release of the class's provider and stack.
    """
    if state.annotations is None:
        return None
    wishes = read_wishes(state.annotations, state.release)
    home = wishes.release if RELEASE_ANNOTATION in state.annotations else None
    offered = [addon for one in world.candidates if one.name == home for addon in one.addons]
    named = {addon: NO_RELEASE if one is None else one.release for addon, one in wishes.addons.items()}
    return AnnotatedAddons(home, offered, named)


def assumed(start: ClusterVersions) -> AnnotatedAddons:
    """Return what the annotations of a cluster say when they say just what its addons need."""
    own = start.candidate
    return AnnotatedAddons(addons=_needed(start, own.name, own.addons, {}))


def patches(
    start: ClusterVersions, steps: Iterable[Step], written: AnnotatedAddons | None = None
) -> Iterator[Manifest | None]:
    """Yield for each step its patch; None for a step that only waits.

    Args:
        start: The cluster as it is.
        steps: In order.
        written: What its annotations say; None when they are what its addons need.
    """
    here = written if written is not None else assumed(start)
    for step in steps:
        there = _annotated_after(step, here)
        yield _patch(step, _difference(here, there))
        here = there


def annotations_of(written: AnnotatedAddons) -> dict[str, str]:
    """Return annotations as a Cluster has them."""
    home = {RELEASE_ANNOTATION: written.home.release} if written.home is not None else {}
    return {**home, **{f"{ADDON_ANNOTATION}{addon}": value for addon, value in written.addons.items()}}


def taken_from(step: Step) -> ReleaseName | None:
    """Return the release whose addon an addon step takes; None when it removes it."""
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
    situation: ClusterVersions, home: ReleaseName, offered: Collection[str], written: Mapping[str, str]
) -> dict[str, str]:
    """Return, by addon, the annotation a situation needs; one that says the right thing already stays.

    Args:
        situation: What the annotations must say.
        home: Where addons come from that have none.
        offered: The addons that release has.
        written: What the annotations said before.
    """
    needed = {addon: NO_RELEASE for addon in offered if addon not in situation.addons}
    for addon, option in situation.addons.items():
        names = [name.release for name in option.releases]
        if home.release in names:
            continue
        # A version no release here has comes from wherever the cluster says; only its annotation keeps it.
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
