"""Rules for clusters whose class belongs to a bundle: class, addons and one exact Kubernetes version.

Between two bundles the rules are exactly those of the Go operator: the minor in the *name* of the class stays or grows
by one, and the version is compared as text. Each rule returns the reason for a refusal, empty when the change is
allowed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from clusterstacks.api.addon_annotations import ADDON_ANNOTATION, RELEASE_ANNOTATION
from clusterstacks.compat.rules.skew import other_stack, upgrade_refusal

if TYPE_CHECKING:
    from collections.abc import Iterable

    from clusterstacks.domain.names import ReleaseName


def bundle_refusal(release: ReleaseName, version: str, made_for: str, annotations: Iterable[str]) -> str:
    """Validate what a Cluster asks for of a bundle.

    Args:
        release: The release of its class.
        version: ``spec.topology.version``.
        made_for: The Kubernetes version of the bundle.
        annotations: Keys of the Cluster's annotations.
    """
    if version != made_for:
        return (
            f"class {release.class_name} is for Kubernetes {made_for} exactly, and spec.topology.version is "
            f"{version or 'empty'}: set it to {made_for}, or choose a class made for the version you want"
        )
    named = sorted(key for key in annotations if key == RELEASE_ANNOTATION or key.startswith(ADDON_ANNOTATION))
    if named:
        return (
            f"annotation {named[0]} cannot be used here: class {release.class_name} belongs to a bundle, whose addons "
            "come with it; remove the annotation, or choose a class that states ranges"
        )
    return ""


def between_bundles_refusal(old: ReleaseName, new: ReleaseName) -> str:
    """Validate a move from the class of one bundle to that of another, by their names; the major is ignored."""
    refusal = other_stack(old, new)
    if refusal or new.kubernetes.minor - old.kubernetes.minor in (0, 1):
        return refusal
    direction = "skips a minor" if new.kubernetes.minor > old.kubernetes.minor else "goes back"
    return (
        f"class {old.class_name} cannot be changed to {new.class_name}: that {direction}, and Kubernetes moves up "
        f"one minor at a time; choose a class of {old.series} or of the next minor"
    )


def into_bundle_refusal(old: ReleaseName, new: ReleaseName, before: str, version: str) -> str:
    """Validate a move from a class with ranges into a bundle, by the rules for every upgrade."""
    return other_stack(old, new) or upgrade_refusal(before, version)
