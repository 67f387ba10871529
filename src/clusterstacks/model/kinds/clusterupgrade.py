"""ClusterUpgrade: an upgrade of one or many Clusters, which the operator carries out step by step."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Annotated, ClassVar, Final, Literal

from pydantic import Field, StrictBool, StrictInt

from clusterstacks.model.documents import at, mapping, parse_duration
from clusterstacks.model.errors import SpecError, error_context
from clusterstacks.model.kinds.meta import (
    AGE_COLUMN,
    LIST_LENGTH,
    MESSAGE_COLUMN,
    Column,
    ConditionEntry,
    CRDOptions,
    Generation,
    KubernetesObject,
    Model,
    Name,
)
from clusterstacks.model.kinds.selectors import LabelSelector
from clusterstacks.model.maintenance_window import MaintenanceWindow, Weekday, parse_window
from clusterstacks.model.names import parse_target

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping
    from datetime import timedelta

    from clusterstacks.model.objects import Manifest

MOST_CLUSTERS: Final = 500
"""Clusters of one upgrade. Arbitrary: with the longest messages, its status has a third of what etcd stores."""

MESSAGE_LENGTH: Final = 512
"""Characters of a message about a Cluster (arbitrary)."""

LATEST: Final = "latest"
LATEST_PATCH: Final = "latestPatch"

_DURATION: Final = r"^([0-9]{1,9}h)?([0-9]{1,9}m)?([0-9]{1,9}s)?$"
_Count = Annotated[StrictInt, Field(ge=0, json_schema_extra={"format": "int32"})]
_Positive = Annotated[StrictInt, Field(ge=1, json_schema_extra={"format": "int32"})]
_Message = Annotated[str, Field(max_length=MESSAGE_LENGTH)]


class UpgradeClusters(Model):
    """Clusters in the namespace of the upgrade: by name, or by label."""

    names: tuple[Name, ...] = Field(
        default=(), max_length=MOST_CLUSTERS, description="Names of the Clusters, which begin in this order."
    )
    selector: LabelSelector | None = Field(
        default=None, description="Labels of the Clusters, which begin in the order of their names."
    )

    def include(self, name: str, labels: Mapping[str, str]) -> bool:
        """Return whether a Cluster of the namespace is one of them."""
        return name in self.names if self.selector is None else self.selector.matches(labels)


class UpgradeWindow(Model):
    """The time in which steps begin."""

    days: tuple[Weekday, ...] = Field(
        default=(), max_length=7, description="Days on which the window opens; by default every day."
    )
    start: Name = Field(
        pattern=r"^([01][0-9]|2[0-3]):[0-5][0-9]$", description="Time of the day at which it opens, for example 02:00."
    )
    duration: Name = Field(
        min_length=1, pattern=_DURATION, description="How long it is open, for example 4h; at most a week."
    )
    time_zone: Name = Field(default="", description="Time zone, for example Europe/Berlin; by default UTC.")

    def parsed(self) -> MaintenanceWindow:
        """Return the window; an InvalidWindow says what is not valid."""
        return parse_window(self.days, self.start, self.duration, self.time_zone)


class ClusterUpgradeSpec(Model):
    """The Clusters, their target, and how many are upgraded at a time."""

    clusters: UpgradeClusters = Field(
        description="The Clusters, by names or by a selector; those of other namespaces are not reached."
    )
    to: Name = Field(
        min_length=1,
        description="The target: a release, for example openstack-scs-1-36-v2; a Kubernetes version, for example "
        "v1.36.3; latestPatch for the newest release that the stack of a Cluster offers for its Kubernetes minor "
        "version; or latest for the newest of all. The last two follow what is published.",
    )
    max_concurrent: _Positive = Field(default=3, description="Most Clusters that are upgraded at a time.")
    stop_after_failures: _Positive = Field(
        default=1, description="Number of failed Clusters after which no further one begins."
    )
    progress_deadline: Name = Field(
        default="",
        pattern=_DURATION,
        description="Time after which a Cluster in which nothing moved has failed, for example 1h; nothing is undone. "
        "By default, it is waited for.",
    )
    window: UpgradeWindow | None = Field(
        default=None,
        description="Time in which steps begin; by default always. A step that has begun goes on when it closes.",
    )
    suspend: StrictBool = Field(
        default=False, description="Whether no step begins for now. A step that has begun goes on."
    )
    step_limit: _Positive | None = Field(
        default=None, description="Number of steps after which each Cluster stops; by default no limit."
    )

    @property
    def follows(self) -> bool:
        """Whether the target moves with what the stack publishes."""
        return self.to in (LATEST, LATEST_PATCH)

    def deadline(self) -> timedelta | None:
        """Return the time after which a Cluster without progress has failed; a SpecError says that it is not valid."""
        return parse_duration(self.progress_deadline) if self.progress_deadline else None


class UpgradedCluster(Model):
    """The state of one Cluster."""

    name: Name = Field(description="Name of the Cluster.")
    uid: Name = Field(default="", description="UID of the Cluster; another one of the same name begins anew.")
    phase: Name = Field(description="Waiting, Blocked, Running, Failed or Done.")
    target: Name = Field(default="", description="The release or Kubernetes version that it is upgraded to.")
    step: Name = Field(default="", description="The present step and the number of all steps, for example 2/5.")
    doing: _Message = Field(default="", description="The step that was begun last.")
    since: str = Field(
        default="",
        description="Time of the last change of phase, step or message.",
        json_schema_extra={"format": "date-time"},
    )
    message: _Message = Field(default="", description="What it waits for, or why it does not go on and what to do.")


class ClusterUpgradeStatus(Model):
    """The state of the upgrade."""

    phase: Name = Field(default="", description="Waiting, Running, Suspended, Stopped, Blocked or Done.")
    target: Name = Field(default="", description="spec.to, for which the states of the Clusters were computed.")
    done: Name = Field(default="", description="Numbers of upgraded and of all Clusters, for example 12/20.")
    total: _Count = Field(default=0, description="Number of Clusters.")
    running: _Count = Field(default=0, description="Number of Clusters that are being upgraded.")
    failed: _Count = Field(default=0, description="Number of Clusters whose upgrade has begun and does not go on.")
    clusters: tuple[UpgradedCluster, ...] = Field(
        default=(), max_length=MOST_CLUSTERS, description="State of each Cluster."
    )
    observed_generation: Generation | None = Field(
        default=None, description="metadata.generation for which the status was computed."
    )
    conditions: tuple[ConditionEntry, ...] = Field(
        default=(), max_length=LIST_LENGTH, description="Conditions of the object; Ready summarizes them."
    )


class ClusterUpgrade(KubernetesObject):
    """Upgrades Clusters of its namespace step by step, some at a time."""

    crd: ClassVar = CRDOptions(
        short_name="cupg",
        root=True,
        columns=(
            Column("To", ".spec.to", description="The target."),
            Column("Phase", ".status.phase", description="State of the upgrade."),
            Column("Done", ".status.done", description="Numbers of upgraded and of all Clusters."),
            Column("Running", ".status.running", "integer", description="Clusters that are being upgraded."),
            Column("Failed", ".status.failed", "integer", description="Clusters that do not go on."),
            AGE_COLUMN,
            MESSAGE_COLUMN,
        ),
    )

    kind: Literal["ClusterUpgrade"] = "ClusterUpgrade"
    spec: ClusterUpgradeSpec = Field(description="The Clusters, their target, and how many are upgraded at a time.")
    status: ClusterUpgradeStatus = Field(default=ClusterUpgradeStatus(), description="The state of the upgrade.")

    def check(self) -> None:
        """Check what the API server does not.

        Raises:
            SpecError: A field is not valid; the message names the object.
        """
        with error_context(f"ClusterUpgrade {self.key}"):
            clusters = self.spec.clusters
            if bool(clusters.names) == (clusters.selector is not None):
                which = "both names and selector" if clusters.names else "neither names nor selector"
                raise SpecError("InvalidClusters", f"spec.clusters has {which}: write one of them")
            if not self.spec.follows:
                parse_target(self.spec.to)
            if self.spec.window is not None:
                self.spec.window.parsed()
            if self.spec.deadline() is not None and not self.spec.deadline():
                raise SpecError("InvalidDeadline", "spec.progressDeadline is zero: write for example 1h, or remove it")


def upgrades_of(manifests: Iterable[Manifest], namespace: str, names: Collection[str]) -> Iterator[ClusterUpgrade]:
    """Yield the valid upgrades that may select a Cluster of these names, without those that are being deleted."""
    for manifest in manifests:
        metadata, named = mapping(manifest, "metadata"), at(manifest, "spec", "clusters", "names")
        if metadata.get("namespace") != namespace or "deletionTimestamp" in metadata:
            continue
        if named and not any(name in names for name in named):
            continue  # without parsing it: there may be many
        with suppress(SpecError):  # its own reconcile reports that
            upgrade = ClusterUpgrade.parse(manifest)
            upgrade.check()
            yield upgrade
