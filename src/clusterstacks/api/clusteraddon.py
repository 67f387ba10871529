"""ClusterAddon: the addons of one cluster."""

from __future__ import annotations

from typing import Final, Literal

from pydantic import ConfigDict, Field, JsonValue, StrictBool, StrictInt

from clusterstacks.api.meta import (
    LIST_LENGTH,
    ConditionEntry,
    KubernetesObject,
    Model,
    Name,
    ObjectReference,
    ResourceEntry,
)

# As in the Go operator's webhook, the kind is checked at creation, and kind and name are immutable.
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
    """The release that an addon comes from."""

    name: Name = Field(description="Name of the addon.")
    release: Name = Field(description="Release that the addon comes from.")


class ClusterAddonSpec(Model):
    """The cluster and its last delivered addons; maintained by the operator."""

    cluster_ref: ClusterReference = Field(description="The Cluster the addons are for, in the same namespace.")
    cluster_stack: Name = Field(
        default="", description="Class whose addons were completely delivered last. Set by the operator."
    )
    version: Name = Field(default="", description="Version of the delivered addons. Set by the operator.")
    hook: Name = Field(default="", description="Hook of the running stages. Set by the operator.")
    addons: tuple[AddonOrigin, ...] = Field(
        default=(),
        max_length=LIST_LENGTH,
        description="Releases of the delivered addons. Set by the operator. To take an addon from another release, "
        "annotate the Cluster.",
    )
    paused: StrictBool = Field(
        default=False, description="Whether reconciliation of the addons of this cluster is paused."
    )


class StageStatus(Model):
    """State of one stage of clusteraddon.yaml."""

    name: Name = Field(default="", description="Addon of the stage.")
    action: Name = Field(default="", description="apply or delete.")
    phase: Name = Field(
        default="",
        description="Pending, waitingForPreCondition, applyingOrDeleting, waitingForPostCondition or done.",
    )
    hook: Name = Field(default="", description="Hook the stage belongs to.")


class DeliveredAddon(Model):
    """A delivered addon."""

    name: Name = Field(description="Name of the addon.")
    release: Name = Field(default="", description="Release that the addon comes from.")
    version: Name = Field(default="", description="Version of its software, if the release states it.")
    objects: int = Field(ge=0, description="Number of objects delivered.", json_schema_extra={"format": "int32"})


class Admitted(Model):
    """The result of the last check whether the Cluster may use its class and releases."""

    class_: Name = Field(default="", alias="class", description="Name of the class.")
    class_namespace: Name = Field(default="", description="Namespace of the class.")
    digest: Name = Field(
        default="",
        description="Digest of the Cluster's uid and of the releases of its addons. If any of them changes, the check "
        "is repeated.",
    )


class ClusterAddonStatus(Model):
    """The observed state of the addons."""

    ready: StrictBool = Field(default=False, description="Whether the cluster has all addons of its class.")
    target: Name = Field(default="", description="Class whose addons are being rolled out.")
    admitted: Admitted | None = Field(
        default=None,
        description="The last check whether the Cluster may use its class and releases: the class is available to its "
        "namespace, and the releases are signed if signatures are required. A successful check stays valid; remove "
        "this field to repeat it.",
    )
    observed_cluster_generation: StrictInt | None = Field(
        default=None,
        ge=0,
        description="metadata.generation of the Cluster for which the conditions were computed. Annotations do not "
        "affect it.",
        json_schema_extra={"format": "int64"},
    )
    observed_addon_annotations: Name = Field(
        default="",
        description="Digest of the Cluster's annotations about addons for which the conditions were computed; csctl "
        "plan prints it in advance.",
    )
    observed_kubernetes_version: Name = Field(
        default="",
        description="Oldest Kubernetes version that the control plane reported when the conditions were computed; the "
        "version of the Cluster if it reported none.",
    )
    observed_inputs: Name = Field(default="", description="Digest of all inputs of the last complete delivery.")
    addons: tuple[DeliveredAddon, ...] = Field(default=(), max_length=LIST_LENGTH, description="The delivered addons.")
    stages: tuple[StageStatus, ...] = Field(
        default=(), max_length=LIST_LENGTH, description="State of the running stages."
    )
    resources: tuple[ResourceEntry, ...] = Field(
        default=(), max_length=LIST_LENGTH, description="State of the addons' objects."
    )
    conditions: tuple[ConditionEntry, ...] = Field(
        default=(), max_length=LIST_LENGTH, description="Conditions of the object; Ready summarizes them."
    )


class ClusterAddon(KubernetesObject):
    """Delivers the addons of a Cluster's class to the cluster and reports their state. Created by the operator."""

    kind: Literal["ClusterAddon"] = "ClusterAddon"
    spec: ClusterAddonSpec = Field(description="The cluster and its last delivered addons.")
    status: ClusterAddonStatus = Field(default=ClusterAddonStatus(), description="The observed state of the addons.")


def addon_name(cluster: str) -> str:
    """Return the name of a Cluster's ClusterAddon, the same as in the Go operator."""
    return f"cluster-addon-{cluster}"
