"""Reads an annotated ClusterResourceSet of Cluster API as the ClusterResourceSync that its annotations describe.

The ClusterResourceSet belongs to its user and to Cluster API, and is never written. Its sync has a name that no
ClusterResourceSync can have, so that bindings and delivery records of both are different.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from clusterstacks.model.documents import and_more, at, mapping, mappings, shown, text
from clusterstacks.model.drift_settings import OFF, InvalidInterval, SyncStrategy, parse_interval
from clusterstacks.model.errors import SpecError
from clusterstacks.model.kinds.clusterresourcesync import SYNC_API_VERSION, ClusterResourceSync
from clusterstacks.model.kinds.clusterstack import DeletionPolicy
from clusterstacks.model.kinds.names import (
    INTERVAL_ANNOTATION,
    PAUSED_ANNOTATION,
    PRUNE_ANNOTATION,
    RESOURCE_SET_KIND,
    STRATEGY_ANNOTATION,
    SYNC_DELETION_POLICY_ANNOTATION,
    Kind,
    sync_name,
)
from clusterstacks.model.objects import ObjectKey

if TYPE_CHECKING:
    from clusterstacks.model.objects import Manifest

_CHOICES: Final = {
    STRATEGY_ANNOTATION: (SyncStrategy.CONTINUOUS, SyncStrategy.RECONCILE),
    PRUNE_ANNOTATION: ("true", "false"),
    SYNC_DELETION_POLICY_ANNOTATION: tuple(sorted(DeletionPolicy)),
}
"""Values of annotations; ``ApplyOnce`` is what Cluster API does by itself."""

MAX_NAME: Final = 63
"""Longest name, as of a ClusterResourceSync."""


def is_annotated(manifest: Manifest) -> bool:
    """Return whether the operator is to keep the objects of a ClusterResourceSet in place."""
    return STRATEGY_ANNOTATION in mapping(manifest, "metadata", "annotations")


def sync_of_set(manifest: Manifest) -> ClusterResourceSync | None:
    """Return the sync of a ClusterResourceSet; None if it is not annotated, or selects nothing.

    As without the operator, nothing is deleted in the clusters unless further annotations say so. An empty selector
    selects nothing, as in Cluster API.

    Raises:
        SpecError: An annotation has another value than those that are allowed, or the name cannot be part of the names
            of bindings.
    """
    metadata, spec = mapping(manifest, "metadata"), mapping(manifest, "spec")
    if not is_annotated(manifest) or not any(mapping(spec, "clusterSelector").values()):
        return None
    annotations = mapping(metadata, "annotations")
    if faults := _faults(text(metadata, "name"), annotations):
        key = ObjectKey(text(metadata, "namespace"), text(metadata, "name"))
        raise SpecError(
            "InvalidClusterResourceSet",
            f"the objects of {RESOURCE_SET_KIND} {key} are not kept in place: {and_more(faults, 3, separator='; ')}",
        )
    document = {
        "apiVersion": SYNC_API_VERSION,
        "kind": Kind.CLUSTER_RESOURCE_SYNC.value,
        "metadata": {**metadata, "name": sync_name(text(metadata, "name"))},
        "spec": {
            "clusterSelector": at(spec, "clusterSelector"),
            "resources": at(spec, "resources"),
            "strategy": annotations[STRATEGY_ANNOTATION],
            "interval": annotations.get(INTERVAL_ANNOTATION, ""),
            "prune": annotations.get(PRUNE_ANNOTATION) == "true",
            "deletionPolicy": annotations.get(SYNC_DELETION_POLICY_ANNOTATION, DeletionPolicy.ORPHAN.value),
            "suspend": PAUSED_ANNOTATION in annotations,
        },
    }
    return ClusterResourceSync.parse(document)


def _faults(name: str, annotations: Manifest) -> list[str]:
    faults = [
        f"its annotation {annotation} is {shown(annotations[annotation])}, allowed: {', '.join(allowed)}"
        for annotation, allowed in _CHOICES.items()
        if annotation in annotations and annotations[annotation] not in allowed
    ]
    if interval := annotations.get(INTERVAL_ANNOTATION):
        try:
            valid = interval != OFF and parse_interval(interval) is not None
        except InvalidInterval:
            valid = False
        if not valid:
            faults.append(
                f"its annotation {INTERVAL_ANNOTATION} is {shown(interval)}, allowed: 10s to 24h, for example 5m"
            )
    if "." in name or len(name) > MAX_NAME:
        faults.append(
            f"its name has a dot, or more than {MAX_NAME} characters, and cannot be part of the name of a binding: "
            f"copy its spec into a {Kind.CLUSTER_RESOURCE_SYNC} with another name"
        )
    return faults


def applied_sources(binding: Manifest | None, resource_set: str) -> frozenset[tuple[str, str]]:
    """Return kind and name of the sources that Cluster API applied to a cluster for a ClusterResourceSet.

    Args:
        binding: The ClusterResourceSetBinding of the Cluster; None if there is none.
        resource_set: Name of the ClusterResourceSet.
    """
    return frozenset(
        (text(source, "kind"), text(source, "name"))
        for entry in mappings(binding or {}, "spec", "bindings")
        if text(entry, "clusterResourceSetName") == resource_set
        for source in mappings(entry, "resources")
        if source.get("applied") is True
    )
