"""ClusterStack: the releases of a stack that a management cluster offers."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Any, ClassVar, Final, Literal

from pydantic import ConfigDict, Field, StrictBool

from clusterstacks.model.drift_settings import DriftMode, IgnoredDifference, parse_pointer
from clusterstacks.model.kinds.cluster_namespaces import ClusterNamespaces
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
    ObjectReference,
    Text,
)
from clusterstacks.model.kinds.names import CompatibilityPolicy
from clusterstacks.model.kinds.source import SourceSpec, VerificationPolicy

# The rules below refuse exactly what the Go operator's webhook refuses. Rules that apply only to new objects use
# oldSelf.hasValue(), so that older objects can still be updated.
_IMMUTABLE: Final[dict[str, Any]] = {
    "x-kubernetes-validations": [
        {"rule": "self == oldSelf", "message": "cannot be changed; create another ClusterStack"}
    ]
}
_RULES: Final[dict[str, Any]] = {
    "x-kubernetes-validations": [
        {
            "rule": "oldSelf.hasValue() || self.noProvider || has(self.providerRef)",
            "message": "providerRef is missing; set it, or set noProvider: true if the stack needs no provider",
            "optionalOldSelf": True,
        },
        {
            "rule": "oldSelf.hasValue() || !has(self.versions) "
            "|| self.versions.all(v, v.matches('^v[0-9]+(-[0-9A-Za-z_]+[.][0-9A-Za-z_]+)?$'))",
            "message": "each version must have the form v1 or v0-beta.1",
            "optionalOldSelf": True,
        },
    ]
}

# Smaller than elsewhere: the server estimates the cost of the rule on versions from them.
_VERSIONS = 1024
_VERSION_LENGTH = 1024


class Channel(StrEnum):
    """Channel of the releases that a ClusterStack follows."""

    STABLE = "stable"
    CUSTOM = "custom"


class DeletionPolicy(StrEnum):
    """The policy for the addons of a Cluster that takes a class of no cluster stack."""

    ORPHAN = "Orphan"
    DELETE = "Delete"


class IgnoreDifference(Model):
    """Fields that other writers may change."""

    kind: Name = Field(
        pattern=r"^[A-Za-z][A-Za-z0-9]*([.][a-z0-9.-]+)?$",
        description="Kind of the objects, for example Deployment, or Deployment.apps with the group.",
    )
    name: Name = Field(default="", description="Name of the object; by default all objects of the kind.")
    json_pointers: tuple[Annotated[str, Field(max_length=1024, pattern="^/.+")], ...] = Field(
        min_length=1,
        max_length=64,
        description="Fields as JSON pointers, for example /spec/replicas. In a key, write ~1 for a slash.",
    )


class DriftHandling(Model):
    """The handling of delivered objects that other writers change or delete."""

    mode: DriftMode = Field(
        default=DriftMode.CORRECT, description="Correct: differences are corrected. Warn: they are only reported."
    )
    ignore_differences: tuple[IgnoreDifference, ...] = Field(
        default=(), max_length=256, description="Fields that other writers may change."
    )

    def ignored(self) -> tuple[IgnoredDifference, ...]:
        """Return the fields that other writers may change, as the sweep reads them."""
        return tuple(
            IgnoredDifference(entry.kind, entry.name, tuple(parse_pointer(pointer) for pointer in entry.json_pointers))
            for entry in self.ignore_differences
        )


class DriftSpec(DriftHandling):
    """The handling of delivered objects that other writers change or delete."""

    interval: Name = Field(
        default="",
        pattern=r"^(off|([0-9]{1,9}h)?([0-9]{1,9}m)?([0-9]{1,9}s)?)$",
        description="Interval at which the objects of addons are compared with what was delivered, for example 5m, "
        "from 10s to 24h, or off; by default the --drift-interval of the operator. The annotation "
        "clusterstack.x-k8s.io/drift-interval of a Cluster precedes it.",
    )
    mode: DriftMode = Field(
        default=DriftMode.CORRECT,
        description="Correct: differences are corrected. Warn: they are only reported in the ClusterAddon.",
    )


class ClusterStackSpec(Model):
    """The desired releases."""

    model_config = ConfigDict(json_schema_extra=_RULES)

    provider: Name = Field(
        min_length=1,
        description="Provider the stack is made for, the first word of its release names, for example openstack.",
        json_schema_extra=_IMMUTABLE,
    )
    name: Name = Field(
        min_length=1,
        description="Name of the stack, the second word of its release names, for example scs.",
        json_schema_extra=_IMMUTABLE,
    )
    kubernetes_version: Name = Field(
        pattern=r"^[0-9]\.[0-9]+$",
        description="Kubernetes minor version of the releases, for example 1.35; quote it in YAML.",
        json_schema_extra=_IMMUTABLE,
    )
    channel: Channel = Field(
        default=Channel.STABLE,
        description="Channel that autoSubscribe follows: stable (v1, v2, ...) or custom (v1-custom.1, ...).",
        json_schema_extra=_IMMUTABLE,
    )
    versions: tuple[Annotated[str, Field(max_length=_VERSION_LENGTH)], ...] = Field(
        default=(),
        max_length=_VERSIONS,
        description="Versions to offer, of any channel, for example v3 or v0-sha.abc1234.",
    )
    auto_subscribe: StrictBool = Field(
        default=True,
        description="Whether to create also the newest release of the channel, and to offer all that the source lists.",
    )
    no_provider: StrictBool = Field(
        default=False, description="Whether the stack works without an object of a provider."
    )
    provider_ref: ObjectReference | None = Field(
        default=None,
        description="Template from which the provider's object of each release is created. It must be in the same "
        "namespace and of a kind that the operator's --provider-kinds allow. Required unless noProvider is true.",
    )
    source: SourceSpec | None = Field(
        default=None,
        description="Where the releases are published; by default the source in the operator's settings.",
    )
    cluster_namespaces: ClusterNamespaces | None = Field(
        default=None, description="Namespaces whose Clusters may use the classes of the stack; by default all."
    )
    compatibility: CompatibilityPolicy = Field(
        default=CompatibilityPolicy.RANGE,
        description="How strictly Clusters are checked whose class states version ranges. Range: incompatible versions "
        "are refused. Strict: untested and unknown versions are refused too, and the Kubernetes version must be that "
        "of the class. Permissive: warnings only.",
    )
    deletion_policy: DeletionPolicy = Field(
        default=DeletionPolicy.ORPHAN,
        description="Policy for the addons of a Cluster of this stack whose class is changed to one of no cluster "
        "stack. Orphan: they stay in the workload cluster. Delete: they are deleted. The annotation "
        "clusterstack.x-k8s.io/deletion-policy of the Cluster takes precedence.",
    )
    hold_upgrades: StrictBool = Field(
        default=True,
        description="Whether Cluster API waits for the stages of BeforeClusterUpgrade before it upgrades Kubernetes in "
        "a Cluster of this stack. The annotation clusterstack.x-k8s.io/hold-upgrades of the Cluster takes precedence.",
    )
    drift: DriftSpec | None = Field(
        default=None,
        description="Handling of addon objects that other writers change or delete; by default they are corrected.",
    )

    @property
    def is_staged(self) -> bool:
        """True if a release is offered only after stages have passed it."""
        spec = self.source.verification if self.source else None
        return spec is not None and bool(spec.evidence) and spec.policy is VerificationPolicy.REQUIRE


class ReleaseSummary(Model):
    """State of one release of the stack."""

    name: Name = Field(description="Version of the release, as in the name of its object.")
    ready: StrictBool = Field(description="Whether the release can be used.")
    phase: Name = Field(description="Current phase of the release; done at the end.")
    message: Text = Field(default="", description="Why the release is not ready.")


class ClusterStackStatus(Model):
    """The observed releases."""

    latest_release: Name = Field(
        default="", description="Class and Kubernetes version of the newest release that is ready."
    )
    summary: tuple[ReleaseSummary, ...] = Field(
        default=(), max_length=LIST_LENGTH, description="State of every release."
    )
    usable_versions: Text = Field(default="", description="Versions that are ready, separated by commas.")
    observed_generation: Generation | None = Field(
        default=None, description="metadata.generation for which the status was computed."
    )
    conditions: tuple[ConditionEntry, ...] = Field(
        default=(), max_length=LIST_LENGTH, description="Conditions of the object; Ready summarizes them."
    )


class ClusterStack(KubernetesObject):
    """Offers releases of one cluster stack for one Kubernetes minor version as cluster classes of its namespace."""

    crd: ClassVar = CRDOptions(
        short_name="csk",
        root=True,
        columns=(
            READY_COLUMN,
            REASON_COLUMN,
            Column("Provider", ".spec.provider"),
            Column("ClusterStack", ".spec.name"),
            Column("K8s", ".spec.kubernetesVersion"),
            Column("Usable", ".status.usableVersions"),
            AGE_COLUMN,
            Column("Channel", ".spec.channel", wide=True),
            Column("Autosubscribe", ".spec.autoSubscribe", wide=True),
            Column("Latest", ".status.latestRelease", wide=True),
            MESSAGE_COLUMN,
        ),
    )

    kind: Literal["ClusterStack"] = "ClusterStack"
    spec: ClusterStackSpec = Field(description="The desired releases.")
    status: ClusterStackStatus = Field(default=ClusterStackStatus(), description="The observed releases.")
