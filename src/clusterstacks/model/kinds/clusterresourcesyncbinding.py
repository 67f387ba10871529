"""ClusterResourceSyncBinding: the state of one ClusterResourceSync in one cluster."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

from pydantic import Field, StrictBool, WithJsonSchema

from clusterstacks.model.documents import mappings, text
from clusterstacks.model.kinds.clusteraddon import DriftEntry
from clusterstacks.model.kinds.clusterresourcesync import SYNC_API_VERSION
from clusterstacks.model.kinds.meta import (
    AGE_COLUMN,
    LIST_LENGTH,
    MESSAGE_COLUMN,
    READY_COLUMN,
    REASON_COLUMN,
    Column,
    ConditionEntry,
    CRDOptions,
    Generation,
    KubernetesObject,
    Model,
    Name,
)
from clusterstacks.model.kinds.names import SYNC_GROUP

if TYPE_CHECKING:
    from clusterstacks.model.objects import Manifest

_Unchecked = Annotated[Any, WithJsonSchema({"x-kubernetes-preserve-unknown-fields": True})]


class ClusterResourceSyncBindingSpec(Model):
    """The sync and the Cluster; written by the operator."""

    sync_name: Name = Field(description="Name of the ClusterResourceSync, in the same namespace.")
    cluster_name: Name = Field(description="Name of the Cluster, in the same namespace.")


class ClusterResourceSyncBindingStatus(Model):
    """The state of the objects in the cluster."""

    ready: StrictBool = Field(default=False, description="Whether the cluster has all objects of the sync.")
    observed_inputs: Name = Field(default="", description="Digest of all inputs of the last complete delivery.")
    resources: _Unchecked = Field(
        default=None,
        description="State of the objects: a list of group, version, kind, namespace, name, status (synced, or "
        "not-synced if applying the object failed) and error.",
    )
    drift: tuple[DriftEntry, ...] = Field(
        default=(),
        max_length=LIST_LENGTH,
        description="Objects that differ from what was delivered, then the last corrections; at most 20.",
    )
    last_handled_reconcile_at: Name = Field(
        default="",
        description="Value of the Cluster's annotation clusterstack.x-k8s.io/reconcile-requested-at that was handled "
        "last.",
    )
    observed_generation: Generation | None = Field(
        default=None, description="metadata.generation for which the status was computed."
    )
    conditions: tuple[ConditionEntry, ...] = Field(
        default=(), max_length=LIST_LENGTH, description="Conditions of the object; Ready summarizes them."
    )


class ClusterResourceSyncBinding(KubernetesObject):
    """Reports the state of a ClusterResourceSync in one cluster. Created by the operator."""

    crd: ClassVar = CRDOptions(
        short_name="crsyncbinding",
        group=SYNC_GROUP,
        columns=(
            READY_COLUMN,
            REASON_COLUMN,
            Column("Sync", ".spec.syncName"),
            Column("Cluster", ".spec.clusterName"),
            AGE_COLUMN,
            MESSAGE_COLUMN,
        ),
    )

    api_version: str = SYNC_API_VERSION
    kind: Literal["ClusterResourceSyncBinding"] = "ClusterResourceSyncBinding"
    spec: ClusterResourceSyncBindingSpec = Field(description="The sync and the Cluster; written by the operator.")
    status: ClusterResourceSyncBindingStatus = Field(
        default=ClusterResourceSyncBindingStatus(), description="The state of the objects in the cluster."
    )


def last_delivery(sync: str, status: Manifest) -> Manifest:
    """Return what the record of a sync must have by the status of a binding, as an entry of ``status.addons``."""
    objects = mappings(status, "resources")
    return {"name": sync, "objects": len(objects), "inputs": text(status, "observedInputs")}
