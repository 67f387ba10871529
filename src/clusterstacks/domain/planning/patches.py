"""What a step writes: a merge patch of the Cluster, the user's one object.

Where an addon's release is not the class's, an annotation of the Cluster names it. So a move of the class that keeps an
addon writes the annotation, and one that brings the addon's own release takes it away.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from clusterstacks.domain.decoupling import ADDON_ANNOTATION, NO_RELEASE
from clusterstacks.domain.planning.steps import Kind

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from clusterstacks.domain.names import ReleaseName
    from clusterstacks.domain.objects import Manifest
    from clusterstacks.domain.planning.steps import Situation, Step


def patches(start: Situation, steps: Iterable[Step]) -> Iterator[Manifest | None]:
    """Yield for each step its patch; None for a step that only waits.

    Args:
        start: The cluster as it is. Its annotations are taken to be what its addons need.
        steps: In order.
    """
    written = _wanted(start, {})
    for step in steps:
        wanted = _wanted(step.after, written if step.kind is not Kind.RELEASE else {})
        yield _patch(step, _difference(written, wanted))
        written = wanted


def taken_from(step: Step) -> ReleaseName | None:
    """Return the release whose addon an addon step takes; None when it removes it."""
    option = step.after.addons.get(step.addon)
    if option is None:
        return None
    own = step.after.candidate.name
    return own if own in option.releases else option.releases[-1]


def _wanted(situation: Situation, written: Mapping[str, str]) -> dict[str, str]:
    """Return, by addon, the annotation a situation needs; one that says the right thing already stays."""
    own = situation.candidate
    if own.compatibility is None:
        return {}
    wanted = {addon: NO_RELEASE for addon in own.compatibility.addons() if addon not in situation.addons}
    for addon, option in situation.addons.items():
        names = [name.release for name in option.releases]
        if own.name.release in names:
            continue
        if written.get(addon) in names:
            wanted[addon] = written[addon]
        elif names:
            wanted[addon] = names[-1]
    return wanted


def _difference(old: Mapping[str, str], new: Mapping[str, str]) -> dict[str, str | None]:
    return {addon: new.get(addon) for addon in sorted({*old, *new}) if old.get(addon) != new.get(addon)}


def _patch(step: Step, annotations: Mapping[str, str | None]) -> Manifest | None:
    patch: Manifest = {}
    if annotations:
        named = {f"{ADDON_ANNOTATION}{addon}": release for addon, release in annotations.items()}
        patch["metadata"] = {"annotations": named}
    topology: Manifest = {}
    if step.before.candidate != step.after.candidate:
        topology["classRef"] = {"name": step.after.candidate.name.class_name}
    if step.before.kubernetes != step.after.kubernetes:
        topology["version"] = step.after.kubernetes.text
    if topology:
        patch["spec"] = {"topology": topology}
    return patch or None
