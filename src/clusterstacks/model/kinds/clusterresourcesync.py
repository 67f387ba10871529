"""ClusterResourceSync: objects of ConfigMaps and Secrets that are kept in place on many clusters."""

from __future__ import annotations

from dataclasses import replace
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, ClassVar, Final, Literal

from pydantic import Field, StrictBool

from clusterstacks.model.drift_settings import DEFAULT_INTERVAL, DriftMode, DriftSettings, SyncStrategy, first_interval
from clusterstacks.model.files.addon_config import WaitFor
from clusterstacks.model.kinds.clusterstack import DeletionPolicy, DriftHandling
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
from clusterstacks.model.kinds.names import SYNC_GROUP, VERSION
from clusterstacks.model.kinds.selectors import LabelSelector

if TYPE_CHECKING:
    from datetime import timedelta

SYNC_API_VERSION: Final = f"{SYNC_GROUP}/{VERSION}"

MAX_RESOURCES: Final = 100
"""Sources of one sync, as of a ClusterResourceSet."""

_Count = Annotated[int, Field(ge=0, json_schema_extra={"format": "int32"})]

NAME_RULE: Final = (
    "self.metadata.name.matches('^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$')",
    "metadata.name must have at most 63 lower-case letters, digits and dashes",
)


class SyncSourceKind(StrEnum):
    """Kind of a source."""

    CONFIG_MAP = "ConfigMap"
    SECRET = "Secret"  # noqa: S105 - not a password


class SyncSource(Model):
    """A ConfigMap or Secret with objects, in the namespace of the sync."""

    kind: SyncSourceKind = Field(
        description="ConfigMap, or Secret for a Secret of type addons.cluster.x-k8s.io/resource-set."
    )
    name: Name = Field(min_length=1, description="Name of the ConfigMap or Secret.")
    wait_for: WaitFor | None = Field(
        default=None,
        description="State of the objects of this source that the objects of the sources after it wait for. Delivered: "
        "all are applied. Healthy: they also do what their kinds are for. By default, a failure delays only objects "
        "that cannot exist without the failed one.",
    )
    template: StrictBool = Field(
        default=False,
        description="Whether the values of this source are Go templates, which are rendered for each Cluster; .Cluster "
        "is the Cluster, as in the values templates of addons.",
    )


class ClusterResourceSyncSpec(Model):
    """The sources, and the Clusters that get their objects."""

    cluster_selector: LabelSelector = Field(
        default=LabelSelector(),
        description="Labels of the Clusters in the namespace of the sync; by default all of them.",
    )
    resources: tuple[SyncSource, ...] = Field(
        min_length=1,
        max_length=MAX_RESOURCES,
        description="The sources, whose objects are applied in this order. A value of a source has one or several "
        "documents, or a List, and may be compressed with gzip (in binaryData).",
    )
    strategy: SyncStrategy = Field(
        default=SyncStrategy.CONTINUOUS,
        description="When an object is written. ApplyOnce: once, if it does not exist, and it is never changed or "
        "deleted because of a source. Reconcile: also when its definition changes. Continuous: also when it differs in "
        "the cluster, or is missing there.",
    )
    interval: Name = Field(
        default="",
        pattern=r"^(([0-9]{1,9}h)?([0-9]{1,9}m)?([0-9]{1,9}s)?)$",
        description="Interval at which sources are read, and delivered objects are compared with them, for example 5m, "
        "from 10s to 24h; by default 60s.",
    )
    prune: StrictBool = Field(
        default=True, description="Whether objects that left the sources are deleted in the clusters."
    )
    deletion_policy: DeletionPolicy = Field(
        default=DeletionPolicy.DELETE,
        description="Policy for the objects when the sync is deleted, or a Cluster is no longer selected. Delete: they "
        "are deleted. Orphan: they stay.",
    )
    drift: DriftHandling = Field(
        default=DriftHandling(),
        description="Handling of objects that other writers change or delete; by default they are corrected.",
    )
    suspend: StrictBool = Field(
        default=False, description="Whether nothing is delivered, compared, corrected or deleted for now."
    )

    @property
    def prunes(self) -> bool:
        """Whether objects that left the sources are deleted."""
        return self.prune and self.strategy is not SyncStrategy.APPLY_ONCE

    @property
    def reading_interval(self) -> timedelta | None:
        """The interval at which sources are read; one that is not valid is replaced by the default."""
        return first_interval([("spec.interval", self.interval)], DEFAULT_INTERVAL)[0]

    def drift_settings(self) -> DriftSettings:
        """Return the settings of the sweep; an interval that is not valid is replaced by the default.

        Without the strategy Continuous, objects are compared only on a user's request, and not corrected.
        """
        interval, complaints = first_interval([("spec.interval", self.interval)], DEFAULT_INTERVAL)
        settings = DriftSettings(
            interval, self.drift.mode, self.drift.ignored(), "; ".join(complaints), owner="the ClusterResourceSync"
        )
        if self.strategy is SyncStrategy.CONTINUOUS:
            return settings
        why = f"spec.strategy of the ClusterResourceSync is {self.strategy}"
        return replace(settings, interval=None, mode=DriftMode.WARN, warns_because=why)


class ClusterResourceSyncStatus(Model):
    """The state of the sync in its clusters."""

    clusters: _Count = Field(default=0, description="Number of selected Clusters.")
    synced: _Count = Field(default=0, description="Number of Clusters that have all objects.")
    drifted: _Count = Field(default=0, description="Number of Clusters in which objects differ and are not corrected.")
    observed_generation: Generation | None = Field(
        default=None, description="metadata.generation for which the status was computed."
    )
    conditions: tuple[ConditionEntry, ...] = Field(
        default=(), max_length=LIST_LENGTH, description="Conditions of the object; Ready summarizes them."
    )


class ClusterResourceSync(KubernetesObject):
    """Keeps the objects of ConfigMaps and Secrets in place on the selected Clusters of its namespace."""

    crd: ClassVar = CRDOptions(
        short_name="crsync",
        group=SYNC_GROUP,
        rules=(NAME_RULE,),
        root=True,
        columns=(
            READY_COLUMN,
            replace(REASON_COLUMN, wide=True),
            Column("Clusters", ".status.clusters", "integer", description="Number of selected Clusters."),
            Column("Synced", ".status.synced", "integer", description="Clusters that have all objects."),
            Column("Drifted", ".status.drifted", "integer", description="Clusters with differences."),
            AGE_COLUMN,
            MESSAGE_COLUMN,
        ),
    )

    api_version: str = SYNC_API_VERSION
    kind: Literal["ClusterResourceSync"] = "ClusterResourceSync"
    spec: ClusterResourceSyncSpec = Field(description="The sources, and the Clusters that get their objects.")
    status: ClusterResourceSyncStatus = Field(
        default=ClusterResourceSyncStatus(), description="The state of the sync in its clusters."
    )


def binding_name(sync: str, cluster: str) -> str:
    """Return the name of the binding of a sync and a Cluster; the name of a sync has no dot."""
    return f"{sync}.{cluster}"
