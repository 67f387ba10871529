"""Clusters whose class belongs to a bundle: class, addons and one exact Kubernetes version (INCUMBENT 1.5).

Between two bundles the rules are the Go operator's, to the letter: the minor in the class's *name* stays or grows by
one, and the version is compared as a text.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from clusterstacks.api.addon_annotations import ADDON_ANNOTATION, RELEASE_ANNOTATION
from clusterstacks.compat.rules.upgrades import broken_law, other_stack
from clusterstacks.webhooks.answers import ALLOWED, AdmissionResponse

if TYPE_CHECKING:
    from collections.abc import Iterable

    from clusterstacks.domain.names import ReleaseName


def judge_bundle(release: ReleaseName, version: str, made_for: str, annotations: Iterable[str]) -> AdmissionResponse:
    """Judge what a Cluster asks for of a bundle.

    Args:
        release: Of its class.
        version: Of Kubernetes, as the Cluster says it.
        made_for: The version of the bundle.
        annotations: Keys of the Cluster's annotations.
    """
    if version != made_for:
        return AdmissionResponse(
            f"class {release.class_name} is for Kubernetes {made_for} exactly, and spec.topology.version is "
            f"{version or 'empty'}: set it to {made_for}, or choose a class made for the version you want"
        )
    named = sorted(key for key in annotations if key == RELEASE_ANNOTATION or key.startswith(ADDON_ANNOTATION))
    if named:
        return AdmissionResponse(
            f"annotation {named[0]} has no place here: class {release.class_name} belongs to a bundle, whose addons "
            "come with it; remove the annotation, or choose a class that states ranges"
        )
    return ALLOWED


def judge_move_between(old: ReleaseName, new: ReleaseName) -> AdmissionResponse:
    """Judge a move from the class of one bundle to that of another, by their names; the major is ignored."""
    if (refusal := other_stack(old, new)) or new.kubernetes.minor - old.kubernetes.minor in (0, 1):
        return AdmissionResponse(refusal)
    direction = "skips a minor" if new.kubernetes.minor > old.kubernetes.minor else "goes back"
    return AdmissionResponse(
        f"class {old.class_name} cannot be changed to {new.class_name}: that {direction}, and Kubernetes moves up "
        f"one minor at a time; choose a class of {old.series} or of the next minor"
    )


def judge_entry(old: ReleaseName, new: ReleaseName, before: str, version: str) -> AdmissionResponse:
    """Judge a move from a class with ranges into a bundle, whose version must be reached under the laws."""
    return AdmissionResponse(other_stack(old, new) or broken_law(before, version))
