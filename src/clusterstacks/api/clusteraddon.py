"""ClusterAddon: the addons of one cluster."""

from __future__ import annotations

from typing import Final, Literal

from pydantic import ConfigDict, Field, JsonValue, StrictBool, StrictInt

from clusterstacks.api.meta import LIST_LENGTH, Condition, KubernetesObject, Model, Name, ObjectReference, ResourceEntry

# As the Go operator's webhook: the kind is checked at creation, kind and name never change.
_SAME: Final = "has(self.{0}) == has(oldSelf.{0}) && (!has(self.{0}) || self.{0} == oldSelf.{0})"
_CLUSTER_REF_RULES: Final[list[JsonValue]] = [
    {
        "rule": "oldSelf.hasValue() || has(self.kind) && self.kind == 'Cluster'",
        "message": "kind must be Cluster",
        "optionalOldSelf": True,
    },
    {"rule": _SAME.format("name"), "message": "name cannot be changed; create another ClusterAddon"},
    {"rule": _SAME.format("kind"), "message": "kind cannot be changed"},
]


class ClusterReference(ObjectReference):
    """The Cluster the addons are for."""

    model_config = ConfigDict(
        json_schema_extra={"x-kubernetes-map-type": "atomic", "x-kubernetes-validations": _CLUSTER_REF_RULES}
    )


class AddonOrigin(Model):
    """Where an addon comes from."""

    name: Name = Field(description="Name of the addon.")
    release: Name = Field(description="Release it comes from.")


class ClusterAddonSpec(Model):
    """Which cluster, and what it last got; the operator maintains it."""

    cluster_ref: ClusterReference = Field(description="The Cluster the addons are for, in the same namespace.")
    cluster_stack: Name = Field(
        default="", description="Class whose addons the cluster has completely; the operator sets it."
    )
    version: Name = Field(default="", description="Version of the addons the cluster has; the operator sets it.")
    hook: Name = Field(default="", description="Hook of the stages under way; the operator sets it.")
    addons: tuple[AddonOrigin, ...] = Field(
        default=(),
        max_length=LIST_LENGTH,
        description="Where each addon the cluster has comes from; the operator sets it. To move an addon, annotate the "
        "Cluster.",
    )
    paused: StrictBool = Field(default=False, description="Whether to leave the addons of this cluster alone.")


class StageStatus(Model):
    """State of one stage of clusteraddon.yaml."""

    name: Name = Field(default="", description="Addon the stage is about.")
    action: Name = Field(default="", description="apply or delete.")
    phase: Name = Field(
        default="",
        description="Pending, waitingForPreCondition, applyingOrDeleting, waitingForPostCondition or done.",
    )
    hook: Name = Field(default="", description="Hook the stage belongs to.")


class DeliveredAddon(Model):
    """What the cluster has of one addon."""

    name: Name = Field(description="Name of the addon.")
    release: Name = Field(default="", description="Release it comes from.")
    version: Name = Field(default="", description="Version of its software, where its release states it.")
    objects: int = Field(ge=0, description="Number of objects delivered.", json_schema_extra={"format": "int32"})


class Admitted(Model):
    """What the Cluster was found to be allowed to use, when that was last decided."""

    class_: Name = Field(default="", alias="class", description="Name of the class.")
    class_namespace: Name = Field(default="", description="Namespace of the class.")
    digest: Name = Field(
        default="",
        description="Digest of the Cluster's uid and of the releases its addons come from; where any of them is "
        "another, it is decided anew.",
    )


class ClusterAddonStatus(Model):
    """How far the addons are."""

    ready: StrictBool = Field(default=False, description="Whether the cluster has all addons of its class.")
    target: Name = Field(default="", description="Class whose addons are being rolled out.")
    admitted: Admitted | None = Field(
        default=None,
        description="What the Cluster was found to be allowed to use: its class is offered to its namespace, and the "
        "releases are signed where signatures are required. What was admitted stays so; where this is absent, it is "
        "decided anew.",
    )
    observed_cluster_generation: StrictInt | None = Field(
        default=None,
        ge=0,
        description="metadata.generation of the Cluster that the conditions are about. Changes of annotations do not "
        "change it.",
        json_schema_extra={"format": "int64"},
    )
    observed_addon_annotations: Name = Field(
        default="",
        description="Digest of the Cluster's annotations about addons that the conditions are about; csctl plan knows "
        "it in advance.",
    )
    observed_kubernetes_version: Name = Field(
        default="",
        description="Oldest Kubernetes version that the control plane reported when the conditions were written; the "
        "version of the Cluster while it reports none.",
    )
    observed_inputs: Name = Field(
        default="", description="Digest of everything the last complete delivery was made from."
    )
    addons: tuple[DeliveredAddon, ...] = Field(default=(), max_length=LIST_LENGTH, description="What the cluster has.")
    stages: tuple[StageStatus, ...] = Field(
        default=(), max_length=LIST_LENGTH, description="State of the stages under way."
    )
    resources: tuple[ResourceEntry, ...] = Field(
        default=(), max_length=LIST_LENGTH, description="State of the addons' objects."
    )
    conditions: tuple[Condition, ...] = Field(
        default=(), max_length=LIST_LENGTH, description="Aspects of the state; Ready sums them up."
    )


class ClusterAddon(KubernetesObject):
    """Brings the addons of a Cluster's class into the cluster and reports on them. The operator creates it."""

    kind: Literal["ClusterAddon"] = "ClusterAddon"
    spec: ClusterAddonSpec = Field(description="Which cluster, and what it last got.")
    status: ClusterAddonStatus = Field(default=ClusterAddonStatus(), description="How far the addons are.")


def addon_name(cluster: str) -> str:
    """The name of a Cluster's ClusterAddon, as the Go operator builds it."""
    return f"cluster-addon-{cluster}"
