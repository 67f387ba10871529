"""The one write of a Cluster that goes all the way to a target, to ask whether it is allowed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from clusterstacks.api.addon_annotations import ADDON_ANNOTATION, RELEASE_ANNOTATION
from clusterstacks.api.untyped import mapping
from clusterstacks.domain.names import ReleaseName

if TYPE_CHECKING:
    from clusterstacks.clusters.context import Outlook
    from clusterstacks.domain.objects import Manifest
    from clusterstacks.planner.model_builder import Target


def moved_to(outlook: Outlook, target: Target) -> Manifest:
    """Return a Cluster as somebody would write it to have a target at once; what the server has is not changed.

    A version is written alone. A release brings its class, its own addons, and its Kubernetes version where that is
    the higher one.

    Raises:
        TargetUnknown: Nothing is known of the release.
    """
    cluster = outlook.cluster.view.raw
    topology = dict(mapping(cluster, "spec", "topology"))
    metadata = dict(mapping(cluster, "metadata"))
    if isinstance(target, ReleaseName):
        _take_release(outlook, target, topology)
        if annotations := mapping(metadata, "annotations"):
            metadata["annotations"] = {key: value for key, value in annotations.items() if not _about_addons(key)}
    else:
        topology["version"] = target.text
    return {**cluster, "metadata": metadata, "spec": {**mapping(cluster, "spec"), "topology": topology}}


def _take_release(outlook: Outlook, release: ReleaseName, topology: Manifest) -> None:
    candidate = outlook.candidate(release)
    if "class" in topology:  # v1beta1
        topology["class"] = release.class_name
    else:
        topology["classRef"] = {**mapping(topology, "classRef"), "name": release.class_name}
    wanted = candidate.kubernetes
    if candidate.is_bundle or wanted > outlook.state.kubernetes:
        topology["version"] = wanted.text


def _about_addons(annotation: str) -> bool:
    return annotation == RELEASE_ANNOTATION or annotation.startswith(ADDON_ANNOTATION)
