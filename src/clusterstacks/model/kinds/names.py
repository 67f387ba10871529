"""Names in the Kubernetes API: groups, labels, annotations, finalizers, conditions and reasons.

Names that are not marked "ours" are those of the Go operator or Cluster API. Users and scripts rely on all of them, so
they never change. :mod:`.explanations` says what conditions and reasons mean. The labels of delivered objects are in
:mod:`clusterstacks.deliver.apply.ownership`.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Final

from clusterstacks.model.conditions import READY

GROUP: Final = "clusterstack.x-k8s.io"
SYNC_GROUP: Final = "addons.clusterstack.x-k8s.io"
VERSION: Final = "v1alpha1"
API_VERSION: Final = f"{GROUP}/{VERSION}"

PROVIDER_GROUP: Final = "infrastructure.clusterstack.x-k8s.io"

CLUSTER_API_GROUP: Final = "cluster.x-k8s.io"
CLUSTER_KIND: Final = "Cluster"
CLUSTER_CLASS_KIND: Final = "ClusterClass"

RESOURCE_SET_GROUP: Final = "addons.cluster.x-k8s.io"
RESOURCE_SET_KIND: Final = "ClusterResourceSet"
RESOURCE_SET_BINDING_KIND: Final = "ClusterResourceSetBinding"
"""Cluster API's kinds, of which an annotation makes the operator keep the objects in place."""

KUBECONFIG_SUFFIX: Final = "-kubeconfig"
"""The Secret ``<cluster>-kubeconfig`` beside a Cluster contains the kubeconfig of the workload cluster."""
KUBECONFIG_KEY: Final = "value"

DIGEST_ANNOTATION: Final = "clusterstack.x-k8s.io/digest"
"""On a ClusterStackRelease: the digest its release had at the first download (ours)."""

CHARTS_ANNOTATION: Final = "clusterstack.x-k8s.io/chart-dependencies"
"""On a ClusterStackRelease: the charts that were resolved at the first download, as JSON (ours)."""

ADOPT_ANNOTATION: Final = "clusterstack.x-k8s.io/adopt-addons-of"
"""On a Cluster: ``namespace/name`` of another Cluster whose delivered addons it takes over (ours)."""

DELETION_POLICY_ANNOTATION: Final = "clusterstack.x-k8s.io/deletion-policy"
"""On a Cluster: ``Orphan`` or ``Delete``, which wins over ``spec.deletionPolicy`` of its ClusterStack (ours)."""

DRIFT_INTERVAL_ANNOTATION: Final = "clusterstack.x-k8s.io/drift-interval"
"""On a Cluster: the interval at which its delivered objects are compared with what was delivered, or ``off`` (ours)."""

UPGRADE_HOLD_ANNOTATION: Final = "before-upgrade.hook.cluster.cluster.x-k8s.io/cluster-stacks"
"""On a Cluster: while it is set, Cluster API 1.10 and newer does not begin an upgrade of the Kubernetes version. The
prefix is Cluster API's, the name is ours."""

HOLD_UPGRADES_ANNOTATION: Final = "clusterstack.x-k8s.io/hold-upgrades"
"""On a Cluster: ``"false"`` lets Cluster API upgrade it at once; it wins over ``spec.holdUpgrades`` of its ClusterStack
(ours)."""

PENDING_HOOKS_ANNOTATION: Final = "runtime.cluster.x-k8s.io/pending-hooks"
"""On a Cluster: the hooks that Cluster API calls later; AfterClusterUpgrade is one of them from the beginning of an
upgrade to its end."""

RECONCILE_ANNOTATION: Final = "clusterstack.x-k8s.io/reconcile-requested-at"
"""On a Cluster: a new value, for example the time, makes the operator compare all delivered objects at once (ours)."""

UPGRADE_STEP_ANNOTATION: Final = "clusterstack.x-k8s.io/upgrade-step"
"""On a Cluster: the last step that a ClusterUpgrade took, as JSON; written with the step itself (ours)."""

SOURCE_CREDENTIALS_LABEL: Final = "clusterstack.x-k8s.io/source-credentials"
"""On a Secret of type Opaque: ``"true"`` says that it may be sent to the source of a ClusterStack (ours)."""

PAUSED_ANNOTATION: Final = "cluster.x-k8s.io/paused"
"""Its presence pauses an object, whatever its value."""

DELETE_FOR_MOVE_ANNOTATION: Final = "clusterctl.cluster.x-k8s.io/delete-for-move"
"""``clusterctl move`` sets it on the objects it deletes after copying them elsewhere."""

CLUSTER_NAME_LABEL: Final = "cluster.x-k8s.io/cluster-name"
WATCH_FILTER_LABEL: Final = "cluster.x-k8s.io/watch-filter"
SHARD_LABEL: Final = "clusterstack.x-k8s.io/shard"
"""On a Cluster: the shard that is to deliver to it; without it, the main instance. On a ClusterAddon or a binding: the
shard that holds it, and that alone delivers it (ours)."""
SHARDS_ANNOTATION: Final = "clusterstack.x-k8s.io/shards"
"""On a Namespace: the only shards that its Clusters may name, with commas between them (ours)."""
CLUSTERCTL_LABEL: Final = "clusterctl.cluster.x-k8s.io"
MOVE_HIERARCHY_LABEL: Final = "clusterctl.cluster.x-k8s.io/move-hierarchy"
VISUALIZER_LABEL: Final = "visualizer.cluster.x-k8s.io"
"""On a CustomResourceDefinition: the Cluster API Visualizer shows its objects that have the label of a Cluster."""

RELEASE_FINALIZER: Final = "clusterstackrelease.clusterstack.x-k8s.io"
ADDON_FINALIZER: Final = "clusteraddon.clusterstack.x-k8s.io"
SYNC_FINALIZER: Final = "addons.clusterstack.x-k8s.io/sync"

STRATEGY_ANNOTATION: Final = "addons.clusterstack.x-k8s.io/strategy"
"""On a ClusterResourceSet: the operator keeps its objects in place as those of a ClusterResourceSync."""
INTERVAL_ANNOTATION: Final = "addons.clusterstack.x-k8s.io/interval"
PRUNE_ANNOTATION: Final = "addons.clusterstack.x-k8s.io/prune"
"""On such a ClusterResourceSet: the field of the same name of a ClusterResourceSync."""

CONFIRM_PRUNE_ANNOTATION: Final = "addons.clusterstack.x-k8s.io/confirm-prune"
"""On a ClusterResourceSync: the value that a condition with the reason PruneHeld names lets the objects be deleted."""

SYNC_DELETION_POLICY_ANNOTATION: Final = "addons.clusterstack.x-k8s.io/deletion-policy"
"""On a ClusterResourceSyncBinding: ``Orphan`` or ``Delete``, which wins over ``spec.deletionPolicy`` of its sync. On a
ClusterResourceSet: that of its bindings, which have it from there."""

READY_CONDITION: Final = READY
"""The summary of all other conditions of one of our objects."""

ADDONS_READY_CONDITION: Final = "ClusterStackAddonsReady"
"""Condition on the Cluster that mirrors its ClusterAddon; usable in ``availabilityGates`` (ours)."""
ADDONS_HEALTHY_CONDITION: Final = "ClusterStackAddonsHealthy"
"""Condition on the Cluster while the one of its ClusterAddon is False; absent otherwise (ours)."""
ADDONS_IN_SYNC_CONDITION: Final = "ClusterStackAddonsInSync"
"""Condition on the Cluster while the one of its ClusterAddon is False: objects differ and are not corrected (ours)."""
WITHIN_RANGES_CONDITION: Final = "ClusterStackWithinRanges"
"""Condition on the Cluster while the one of its ClusterAddon is False; otherwise absent (ours)."""


class Kind(StrEnum):
    """Our kinds."""

    CLUSTER_STACK = "ClusterStack"
    CLUSTER_STACK_RELEASE = "ClusterStackRelease"
    CLUSTER_ADDON = "ClusterAddon"
    COMPATIBILITY_RULE = "CompatibilityRule"
    CLUSTER_RESOURCE_SYNC = "ClusterResourceSync"
    CLUSTER_RESOURCE_SYNC_BINDING = "ClusterResourceSyncBinding"
    CLUSTER_UPGRADE = "ClusterUpgrade"

    @property
    def group(self) -> str:
        """The API group of the kind."""
        return SYNC_GROUP if self in {Kind.CLUSTER_RESOURCE_SYNC, Kind.CLUSTER_RESOURCE_SYNC_BINDING} else GROUP


class OpenStackKind(StrEnum):
    """Kinds of cluster-stack-provider-openstack, with its names and fields."""

    TEMPLATE = "OpenStackClusterStackReleaseTemplate"
    RELEASE = "OpenStackClusterStackRelease"
    NODE_IMAGE = "OpenStackNodeImageRelease"

    @property
    def group(self) -> str:
        """The API group of the kind."""
        return PROVIDER_GROUP


class StackCondition(StrEnum):
    """Condition types of a ClusterStack."""

    ASSETS_CLIENT_AVAILABLE = "AssetsClientAPIAvailable"
    RELEASES_SYNCED = "ReleasesSynced"
    PROVIDER_RELEASES_SYNCED = "ProviderClusterStackReleasesSynced"
    RELEASE_OBJECTS_SYNCED = "ClusterStackReleasesSynced"
    RELEASE_AVAILABLE = "ClusterStackReleaseAvailable"
    # Ours:
    VERSIONS_AVAILABLE = "VersionsAvailable"


class ReleaseCondition(StrEnum):
    """Condition types of a ClusterStackRelease."""

    ASSETS_CLIENT_AVAILABLE = "AssetsClientAPIAvailable"
    DOWNLOADED = "ClusterStackReleaseDownloaded"
    PROVIDER_READY = "ProviderClusterStackReleaseReady"
    CHART_APPLIED = "HelmChartApplied"
    # Ours:
    CLASS_ACCEPTED = "ClusterClassAccepted"
    SOURCE_UNCHANGED = "SourceUnchanged"
    SIGNATURE_VERIFIED = "SignatureVerified"
    STAGES_PASSED = "StagesPassed"
    DEPENDENCIES_RESOLVED = "ChartDependenciesResolved"
    FACTS_KEPT = "FactsKept"
    NODE_IMAGES_AVAILABLE = "NodeImagesAvailable"
    NODE_IMAGES_AS_STATED = "NodeImagesAsStated"


class OpenStackCondition(StrEnum):
    """Condition types of the kinds of cluster-stack-provider-openstack, beside AssetsClientAPIAvailable."""

    ASSETS_READY = "ClusterStackReleaseAssetsReady"
    IMAGES_READY = "OpenStackNodeImageReleasesReady"
    CLOUD_AVAILABLE = "CloudAvailable"
    IMAGE_CLIENT_AVAILABLE = "OpenStackImageServiceClientAvailable"
    IMPORT_STARTED = "OpenStackImageImportStarted"
    IMAGE_ACTIVE = "OpenStackImageActive"


class AddonCondition(StrEnum):
    """Condition types of a ClusterAddon."""

    RELEASE_DOWNLOADED = "ClusterStackReleaseDownloaded"
    CLUSTER_READY = "ClusterReady"
    CONFIG_VALIDATED = "ClusterAddonConfigValidated"
    HOOK_SERVER_READY = "HookServerReady"
    CHART_FOUND = "HelmChartFound"
    CHART_TEMPLATED = "HelmChartTemplated"
    CHART_APPLIED = "HelmChartApplied"
    CHART_DELETED = "HelmChartDeleted"
    CEL_EVALUATED = "EvaluatedCEL"
    # Ours. HEALTHY counts for Ready in stages that wait for it; the others do not count.
    WITHIN_RANGES = "WithinRanges"
    DELIVERED = "Delivered"
    HEALTHY = "Healthy"
    IN_SYNC = "InSync"
    PAUSED = "Paused"
    SETTINGS_USED = "AddonSettingsUsed"
    SUPPORTED = "KubernetesSupported"


class SyncCondition(StrEnum):
    """Condition types of a ClusterResourceSync and of its bindings, beside those of a ClusterAddon (ours)."""

    CLUSTERS_SYNCED = "ClustersSynced"
    SOURCES_READ = "SourcesRead"
    OBJECTS_APPLIED = "ObjectsApplied"
    OBJECTS_PRUNED = "ObjectsPruned"


class UpgradeCondition(StrEnum):
    """Condition types of a ClusterUpgrade (ours)."""

    CLUSTERS_UPGRADED = "ClustersUpgraded"


class UpgradePhase(StrEnum):
    """State of an upgrade."""

    WAITING = "Waiting"
    """Nothing runs: the window is closed, or Clusters are not settled."""
    RUNNING = "Running"
    SUSPENDED = "Suspended"
    STOPPED = "Stopped"
    """So many Clusters failed that no further one begins."""
    BLOCKED = "Blocked"
    """The Clusters that are left have failed, or cannot begin."""
    DONE = "Done"


class ClusterPhase(StrEnum):
    """State of one Cluster in an upgrade."""

    WAITING = "Waiting"
    """It has not begun."""
    BLOCKED = "Blocked"
    """It has not begun, and cannot begin before somebody changes something."""
    RUNNING = "Running"
    FAILED = "Failed"
    """It has begun, and does not go on; it goes on when the cause is removed."""
    DONE = "Done"


class Reason(StrEnum):
    """Reasons of conditions that are not True."""

    FAILED_TO_SYNC = "FailedToSync"
    PROVIDER_TEMPLATE_NOT_FOUND = "ProviderTemplateNotFound"
    FAILED_TO_CREATE_OR_UPDATE = "FailedToCreateOrUpdate"
    RELEASE_NOT_DOWNLOADED_YET = "ReleaseAssetsNotDownloadedYet"
    ASSETS_CLIENT_FAILED = "FailedCreateAssetsClient"
    ISSUE_WITH_RELEASE = "IssueWithReleaseAssets"
    PROCESS_ONGOING = "ProcessOngoing"
    OBJECTS_APPLYING_ONGOING = "ObjectsApplyingOngoing"
    FAILED_TO_APPLY_OBJECTS = "FailedToApplyObjects"
    FAILED_TO_DELETE_OBJECTS = "FailedToDeleteObjects"
    CONTROL_PLANE_NOT_READY = "ControlPlaneNotReady"
    PARSING_CONFIG_FAILED = "ParsingClusterAddonConfigFailed"
    CHART_MISSING = "HelmChartMissing"
    TEMPLATE_NEW_FAILED = "TemplateNewClusterStackFailed"
    TEMPLATE_NEW_OVERWRITE_FAILED = "TemplateNewClusterStackOverwriteFailed"
    FAILED_PRE_CONDITION = "FailedToEvaluatePreCondition"
    FAILED_POST_CONDITION = "FailedToEvaluatePostCondition"
    # Of cluster-stack-provider-openstack:
    SECRET_NOT_FOUND = "SecretNotFound"  # noqa: S105 - a reason
    CLOUD_NOT_SET = "CloudNotSet"
    IMAGE_CLIENT_NOT_SET = "OpenStackImageServiceClientNotSet"
    IMPORT_NOT_STARTED = "OpenStackImageImportNotStartReason"
    IMPORT_TIMED_OUT = "OpenStackImageImportTimeOutReason"
    IMAGE_NOT_CREATED = "OpenStackImageNotCreateYet"
    IMAGE_NOT_IMPORTED = "OpenStackImageNotImportedYet"
    IMAGE_ISSUE = "IssueWithOpenStackImage"
    # Ours:
    VERSIONS_MISSING = "VersionsMissing"
    CLASS_OBJECTS_CHANGED = "ClassObjectsChanged"
    TAG_MOVED = "TagMoved"
    RELEASE_GONE = "ReleaseGone"
    SIGNATURE_REQUIRED = "SignatureRequired"
    NOT_SIGNED = "NotSigned"
    RECORD_OF_ANOTHER_CLUSTER = "RecordOfAnotherCluster"
    OBJECT_IN_TWO_ADDONS = "ObjectInTwoAddons"
    OBJECT_CLAIMED_TWICE = "ObjectClaimedTwice"
    SOURCE_INCOMPLETE = "SourceIncomplete"
    PRUNE_HELD = "PruneHeld"
    CLUSTERS_NOT_SYNCED = "ClustersNotSynced"
    BINDINGS_REMAIN = "BindingsRemain"
    UNKNOWN_SETTINGS = "UnknownAddonSettings"
    WEBHOOK_FAILED = "WebhookFailed"
    OBJECTS_IN_PROGRESS = "ObjectsInProgress"
    OBJECTS_FAILED = "ObjectsFailed"
    HEALTH_UNKNOWN = "HealthUnknown"
    OBJECTS_CHANGED = "ObjectsChanged"
    CORRECTIONS_REVERTED = "CorrectionsReverted"
    RECORD_MISSING = "RecordMissing"
    DRIFT_UNKNOWN = "DriftUnknown"
    INVALID_INTERVAL = "InvalidInterval"
    HEALTH_TIMEOUT = "HealthTimeout"
    ROLLED_BACK = "RolledBack"
    ADDONS_DELETED = "AddonsDeleted"
    ADDONS_ORPHANED = "AddonsOrphaned"
    HOLD_NOT_HONOURED = "HoldNotHonoured"
    SIGNATURE_UNKNOWN = "SignatureUnknown"
    SIGNATURES_UNCLEAR = "SignaturesUnclear"
    EVIDENCE_REQUIRED = "EvidenceRequired"
    EVIDENCE_MISSING = "EvidenceMissing"
    UPGRADE_RUNNING = "UpgradeRunning"
    UPGRADE_WAITING = "UpgradeWaiting"
    UPGRADE_SUSPENDED = "UpgradeSuspended"
    UPGRADE_STOPPED = "UpgradeStopped"
    UPGRADE_BLOCKED = "UpgradeBlocked"
    NODE_IMAGES_PENDING = "NodeImagesPending"
    NODE_IMAGES_STUCK = "NodeImagesStuck"
    NODE_IMAGES_FAILED = "NodeImagesFailed"
    IMAGE_NOT_VERIFIED = "ImageNotVerified"
    PROPERTY_NOT_SUPPORTED = "PropertyNotSupported"
    IMAGE_DIFFERS = "ImageDiffers"
    SHARD_NOT_RUNNING = "ShardNotRunning"


class EventReason(StrEnum):
    """Reasons of events, on which users rely."""

    FAILED_TO_DELETE_RELEASE = "FailedToDeleteClusterStackRelease"
    FAILED_TO_CREATE = "ErrorCreatingClusterStackRelease"
    RELEASE_CREATED = "ClusterStackReleaseCreated"
    RELEASE_DELETED = "ClusterStackReleaseDeleted"
    """A ClusterStack no longer needs a release (ours)."""
    PROVIDER_RELEASE_CREATED = "CreateProviderStackRelease"
    PROVIDER_RELEASE_UPDATED = "UpdateProviderStackRelease"
    NODE_IMAGE_CREATED = "OpenStackNodeImageReleaseCreated"
    READY = "Ready"
    """Every condition of an object is True (ours)."""
    OBJECTS_KEPT = "ObjectsKept"
    """Objects that should be deleted stay in the cluster; the message says why (ours)."""
    STATUS_PRUNED = "StatusFieldsPruned"
    """The CustomResourceDefinition does not have fields of the status, so the API server drops them (ours)."""
    DRIFT_CORRECTED = "DriftCorrected"
    """Delivered objects that another writer changed or deleted were restored (ours)."""
    ADDONS_DELIVERED = "AddonsDelivered"
    """A cluster has all addons of its class; an event of the Cluster, like those about their failures (ours)."""
    CLASS_OBJECTS_RESTORED = "ClassObjectsRestored"
    """Objects of a class that were changed or deleted by another writer were applied again (ours)."""
    UPGRADE_HELD = "UpgradeHeld"
    """Cluster API waits with the upgrade of a Cluster for its addons (ours)."""
    UPGRADE_RELEASED = "UpgradeReleased"
    """Cluster API may begin the upgrade of a Cluster (ours)."""
    INCOMPATIBLE_ALLOWED = "IncompatibleAllowed"
    """An annotation of a Cluster allowed what the ranges forbid (ours)."""


class ReleasePhase(StrEnum):
    """``phase`` of a release in the summary of its ClusterStack, in the order a release passes them."""

    DOWNLOADING = "downloading release assets"
    PROVIDER_WORK = "provider-specific work"
    APPLYING = "applying objects"
    DONE = "done"


class ResourceStatus(StrEnum):
    """``status`` of an object in ``status.resources``."""

    SYNCED = "synced"
    NOT_SYNCED = "not-synced"


ESCAPE_ANNOTATION = "clusterstack.x-k8s.io/allow-incompatible"
"""On a Cluster: allows what the version ranges forbid; the value is the reason. It does not override the upgrade rules
of Kubernetes (no downgrade, one minor version at a time)."""


class CompatibilityPolicy(StrEnum):
    """``spec.compatibility`` of a ClusterStack. Bundles are not touched by it."""

    RANGE = "Range"
    """Incompatible is refused; untested and unknown are warned about."""
    STRICT = "Strict"
    """All three are refused, and the Kubernetes version must be that of the class's metadata.yaml."""
    PERMISSIVE = "Permissive"
    """All three are warned about."""


def addon_name(cluster: str) -> str:
    """Return the name of a Cluster's ClusterAddon, the same as in the Go operator."""
    return f"cluster-addon-{cluster}"


SET_PREFIX: Final = "crs."
"""Begins the name of the sync of a ClusterResourceSet; that of a ClusterResourceSync has no dot."""


def sync_name(resource_set: str) -> str:
    """Return the name of the sync of a ClusterResourceSet."""
    return f"{SET_PREFIX}{resource_set}"


def set_name(sync: str) -> str:
    """Return the name of the ClusterResourceSet of a sync; empty for that of a ClusterResourceSync."""
    return sync.removeprefix(SET_PREFIX) if sync.startswith(SET_PREFIX) else ""
