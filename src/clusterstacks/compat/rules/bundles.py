"""Rules for clusters whose class belongs to a bundle: class, addons and one exact Kubernetes version.

Each rule returns the reason for a refusal, empty when the Cluster is allowed. ``upgrades`` has moves between bundles.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from clusterstacks.api.addon_annotations import ADDON_ANNOTATION, RELEASE_ANNOTATION

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
