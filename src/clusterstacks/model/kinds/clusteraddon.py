"""ClusterAddon: the addons of one cluster."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Final, Literal

from pydantic import ConfigDict, Field, JsonValue, StrictBool, WithJsonSchema

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
)
from clusterstacks.model.kinds.names import addon_name

if TYPE_CHECKING:
    from clusterstacks.model.objects import Manifest

__all__ = [
    "AddonChangesEntry",
    "AddonOrigin",
    "Admitted",
    "ClusterAddon",
    "ClusterAddonSpec",
    "ClusterAddonStatus",
    "ClusterReference",
    "DeliveredAddon",
    "DeliveryEntry",
    "DriftEntry",
    "StageStatus",
    "UpgradeHoldStatus",
    "addon_name",
]

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

_Unchecked = Annotated[Any, WithJsonSchema({"x-kubernetes-preserve-unknown-fields": True})]
"""A field that the API server stores as it is."""

_Count = Annotated[int, Field(json_schema_extra={"format": "int32"})]


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
        description="Pending, waitingForPreCondition, applyingOrDeleting, waitingForHealth, rolledBack, "
        "waitingForPostCondition or done.",
    )
    hook: Name = Field(default="", description="Hook the stage belongs to.")
    waiting_since: Name = Field(default="", description="When the stage began to wait for the health of its addon.")


class DeliveredAddon(Model):
    """A delivered addon."""

    def document(self) -> Manifest:
        """Return the JSON document; fields that not every addon has are left out where they are empty."""
        return {key: value for key, value in super().document().items() if value or key not in {"waitFor", "inputs"}}

    name: Name = Field(description="Name of the addon.")
    release: Name = Field(default="", description="Release that the addon comes from.")
    version: Name = Field(default="", description="Version of its software, if the release states it.")
    objects: _Count = Field(ge=0, description="Number of objects delivered.")
    wait_for: Name = Field(
        default="", description="Healthy if Ready depends on the health of its objects; otherwise empty."
    )
    inputs: Name = Field(
        default="",
        description="Digest of the inputs of its delivery, which its delivery record has as well; empty if an earlier "
        "version of the operator delivered it.",
    )


class Admitted(Model):
    """The result of the last check whether the Cluster may use its class and releases."""

    class_: Name = Field(default="", alias="class", description="Name of the class.")
    class_namespace: Name = Field(default="", description="Namespace of the class.")
    cluster_uid: Name = Field(
        default="", description="uid of the Cluster: another Cluster of the same name does not have the class."
    )
    digest: Name = Field(
        default="",
        description="Digest of the Cluster's uid and of the releases of its addons. If any of them changes, the check "
        "is repeated.",
    )


class UpgradeHoldStatus(Model):
    """The hold of the Cluster's current upgrade of Kubernetes."""

    class_: Name = Field(default="", alias="class", description="Class of the Cluster.")
    version: Name = Field(default="", description="Kubernetes version that the Cluster is upgraded to.")
    state: Name = Field(
        default="",
        description="Held: Cluster API waits for the stages of BeforeClusterUpgrade. Released: they were complete. "
        "Absent: another writer removed the hold, or it was not set when the upgrade began. NotHonoured: Cluster API "
        "began the upgrade although it was held.",
    )
    since: Name = Field(default="", description="When the operator found the upgrade.")


class DriftEntry(Model):
    """An object that differs from what was delivered, or that was restored."""

    group: Name = Field(default="", description="API group of the object; empty for the core group.")
    kind: Name = Field(default="", description="Kind of the object.")
    namespace: Name = Field(default="", description="Namespace of the object; empty for a cluster-scoped object.")
    name: Name = Field(default="", description="Name of the object.")
    addon: Name = Field(default="", description="Addon that delivered it.")
    change: Name = Field(default="", description="What happened to it, for example: was deleted.")
    fields: tuple[Name, ...] = Field(
        default=(), max_length=LIST_LENGTH, description="Fields that differed; never their values."
    )
    managers: tuple[Name, ...] = Field(
        default=(), max_length=LIST_LENGTH, description="Field managers that had set these fields."
    )
    since: Name = Field(default="", description="When the difference was found.")
    corrected_at: Name = Field(default="", description="When it was corrected; empty while it exists.")
    error: Name = Field(default="", description="Why it was not corrected.")


class AddonChangesEntry(Model):
    """The objects of an addon that a delivery changed; lists of names are cut, the numbers are not."""

    name: Name = Field(default="", description="Name of the addon.")
    created: _Count | None = Field(default=None, description="Number of created objects.")
    changed: _Count | None = Field(default=None, description="Number of changed objects.")
    removed: _Count | None = Field(default=None, description="Number of removed objects.")
    created_objects: tuple[Name, ...] = Field(
        default=(), max_length=LIST_LENGTH, description="The first of them, as Deployment.apps kube-system/coredns."
    )
    changed_objects: tuple[Name, ...] = Field(
        default=(), max_length=LIST_LENGTH, description="The first of them, in the same form."
    )
    removed_objects: tuple[Name, ...] = Field(
        default=(), max_length=LIST_LENGTH, description="The first of them, in the same form."
    )


class DeliveryEntry(Model):
    """A delivery of the addons to the cluster."""

    began: Name = Field(default="", description="When the operator began it.")
    ended: Name = Field(default="", description="When it ended; empty while it waits or is tried again.")
    occasion: Name = Field(
        default="",
        description="Install, Upgrade (another class or Kubernetes version), Refresh (other values or releases of "
        "addons) or Delete (the Cluster left its cluster stack).",
    )
    from_release: Name = Field(default="", description="Release of the class that was delivered before.")
    release: Name = Field(default="", description="Release of the class.")
    from_kubernetes_version: Name = Field(
        default="", description="Kubernetes version of the Cluster at the delivery before."
    )
    kubernetes_version: Name = Field(default="", description="Kubernetes version of the Cluster.")
    hooks: tuple[Name, ...] = Field(default=(), max_length=LIST_LENGTH, description="Hooks whose stages ran.")
    stages: Name = Field(default="", description="Complete stages and all stages, for example 2/3.")
    created: _Count | None = Field(default=None, description="Number of created objects.")
    changed: _Count | None = Field(default=None, description="Number of changed objects.")
    removed: _Count | None = Field(default=None, description="Number of removed objects.")
    unchanged: _Count | None = Field(default=None, description="Number of other delivered objects.")
    addons: tuple[AddonChangesEntry, ...] = Field(
        default=(), max_length=LIST_LENGTH, description="The addons with changed objects."
    )
    addons_not_listed: _Count | None = Field(default=None, description="Number of further addons with changed objects.")
    result: Name = Field(
        default="",
        description="Running, Delivered, Deleted, RolledBack, Failed (it is tried again until it ends) or Superseded "
        "(another delivery began first).",
    )
    reason: Name = Field(default="", description="Reason of a failure or a rollback.")
    message: Name = Field(default="", description="What failed, cut to 256 characters.")


class ClusterAddonStatus(Model):
    """The observed state of the addons."""

    ready: StrictBool = Field(default=False, description="Whether the cluster has all addons of its class.")
    progress: Name = Field(
        default="", description="Complete stages and all stages of the rollout, for example 2/3; empty without one."
    )
    target: Name = Field(default="", description="Class whose addons are being rolled out.")
    target_kubernetes_version: Name = Field(
        default="", description="Kubernetes version of the Cluster for which the stages run."
    )
    delivered_kubernetes_version: Name = Field(
        default="", description="Kubernetes version of the Cluster for which all stages ran last."
    )
    upgrade_hold: UpgradeHoldStatus | None = Field(
        default=None, description="The hold of the Cluster's current upgrade of Kubernetes; absent without one."
    )
    admitted: Admitted | None = Field(
        default=None,
        description="The last check whether the Cluster may use its class and releases: the class is available to its "
        "namespace, and the releases are signed if signatures are required. A successful check stays valid; remove "
        "this field to repeat it.",
    )
    observed_cluster_generation: Generation | None = Field(
        default=None,
        description="metadata.generation of the Cluster for which the conditions were computed. Annotations do not "
        "affect it.",
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
    resources: _Unchecked = Field(
        default=None,
        description="State of the addons' objects: a list of group, version, kind, namespace, name, status (synced, or "
        "not-synced if applying the object failed) and error. The API server does not check it, because that would "
        "triple its work for each write; only the operator writes it.",
    )
    drift: tuple[DriftEntry, ...] = Field(
        default=(),
        max_length=LIST_LENGTH,
        description="Objects that differ from what was delivered, then the last corrections; at most 20.",
    )
    history: tuple[DeliveryEntry, ...] = Field(
        default=(),
        max_length=LIST_LENGTH,
        description="The last deliveries, newest first: at most 10, and at most 16 KiB as JSON. Corrections of drift "
        "are not deliveries.",
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


class ClusterAddon(KubernetesObject):
    """Delivers the addons of a Cluster's class to the cluster and reports their state. Created by the operator."""

    crd: ClassVar = CRDOptions(
        short_name="caddon",
        columns=(
            READY_COLUMN,
            REASON_COLUMN,
            Column("Cluster", '.metadata.ownerReferences[?(@.kind=="Cluster")].name'),
            Column("Class", ".spec.clusterStack", description="Class whose addons were delivered last."),
            Column("K8s", ".status.observedKubernetesVersion", description="Version of the control plane."),
            Column("Progress", ".status.progress", description="Complete stages and all stages of the rollout."),
            AGE_COLUMN,
            Column("Target", ".status.target", description="Class whose addons are being rolled out.", wide=True),
            Column("Hook", ".spec.hook", description="Hook of the running stages.", wide=True),
            MESSAGE_COLUMN,
        ),
    )

    kind: Literal["ClusterAddon"] = "ClusterAddon"
    spec: ClusterAddonSpec = Field(description="The cluster and its last delivered addons.")
    status: ClusterAddonStatus = Field(default=ClusterAddonStatus(), description="The observed state of the addons.")
