"""Names in the Kubernetes API: groups, labels, annotations, finalizers, conditions and reasons.

Names that are not marked "ours" are those of the Go operator or Cluster API. Users and scripts rely on all of them, so
they never change. The labels of delivered objects are in :mod:`clusterstacks.apply.ownership`.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Final

from clusterstacks.domain.conditions import READY

GROUP: Final = "clusterstack.x-k8s.io"
VERSION: Final = "v1alpha1"
API_VERSION: Final = f"{GROUP}/{VERSION}"

CLUSTER_API_GROUP: Final = "cluster.x-k8s.io"
CLUSTER_KIND: Final = "Cluster"
CLUSTER_CLASS_KIND: Final = "ClusterClass"

KUBECONFIG_SUFFIX: Final = "-kubeconfig"
"""The Secret ``<cluster>-kubeconfig`` beside a Cluster holds the kubeconfig of the workload cluster."""
KUBECONFIG_KEY: Final = "value"

DIGEST_ANNOTATION: Final = "clusterstack.x-k8s.io/digest"
"""On a ClusterStackRelease: the digest its release had at the first download (ours)."""

CHARTS_ANNOTATION: Final = "clusterstack.x-k8s.io/chart-dependencies"
"""On a ClusterStackRelease: the charts that were resolved at the first download, as JSON (ours)."""

ADOPT_ANNOTATION: Final = "clusterstack.x-k8s.io/adopt-addons-of"
"""On a Cluster: ``namespace/name`` of another Cluster whose delivered addons it takes over (ours)."""

SOURCE_CREDENTIALS_LABEL: Final = "clusterstack.x-k8s.io/source-credentials"
"""On a Secret of type Opaque: ``"true"`` says that it may be sent to the source of a ClusterStack (ours)."""

PAUSED_ANNOTATION: Final = "cluster.x-k8s.io/paused"
"""Its presence pauses an object, whatever its value."""

DELETE_FOR_MOVE_ANNOTATION: Final = "clusterctl.cluster.x-k8s.io/delete-for-move"
"""``clusterctl move`` sets it on the objects it deletes after copying them elsewhere."""

CLUSTER_NAME_LABEL: Final = "cluster.x-k8s.io/cluster-name"
WATCH_FILTER_LABEL: Final = "cluster.x-k8s.io/watch-filter"
CLUSTERCTL_LABEL: Final = "clusterctl.cluster.x-k8s.io"
MOVE_HIERARCHY_LABEL: Final = "clusterctl.cluster.x-k8s.io/move-hierarchy"

RELEASE_FINALIZER: Final = "clusterstackrelease.clusterstack.x-k8s.io"
ADDON_FINALIZER: Final = "clusteraddon.clusterstack.x-k8s.io"

READY_CONDITION: Final = READY
"""The summary of all other conditions of one of our objects."""

ADDONS_READY_CONDITION: Final = "ClusterStackAddonsReady"
"""Condition on the Cluster that mirrors its ClusterAddon; usable in ``availabilityGates`` (ours)."""
WITHIN_RANGES_CONDITION: Final = "ClusterStackWithinRanges"
"""Condition on the Cluster while the one of its ClusterAddon is False; absent while there is nothing to tell (ours)."""


class Kind(StrEnum):
    """Our kinds."""

    CLUSTER_STACK = "ClusterStack"
    CLUSTER_STACK_RELEASE = "ClusterStackRelease"
    CLUSTER_ADDON = "ClusterAddon"
    COMPATIBILITY_RULE = "CompatibilityRule"


class StackCondition(StrEnum):
    """Condition types of a ClusterStack."""

    ASSETS_CLIENT_AVAILABLE = "AssetsClientAPIAvailable"
    RELEASES_SYNCED = "ReleasesSynced"
    PROVIDER_RELEASES_SYNCED = "ProviderClusterStackReleasesSynced"
    RELEASE_OBJECTS_SYNCED = "ClusterStackReleasesSynced"
    RELEASE_AVAILABLE = "ClusterStackReleaseAvailable"
    VERSIONS_AVAILABLE = "VersionsAvailable"
    """False while the source lacks versions of the spec; absent else (ours)."""


class ReleaseCondition(StrEnum):
    """Condition types of a ClusterStackRelease."""

    ASSETS_CLIENT_AVAILABLE = "AssetsClientAPIAvailable"
    DOWNLOADED = "ClusterStackReleaseDownloaded"
    PROVIDER_READY = "ProviderClusterStackReleaseReady"
    CHART_APPLIED = "HelmChartApplied"
    CLASS_ACCEPTED = "ClusterClassAccepted"
    """Cluster API has reconciled the class without complaint (ours)."""
    SOURCE_UNCHANGED = "SourceUnchanged"
    """The source has what was downloaded first; where it has not, the release stays as it is (ours)."""
    SIGNATURE_VERIFIED = "SignatureVerified"
    """A key its ClusterStack trusts signed the release; absent where no keys are named (ours)."""
    DEPENDENCIES_RESOLVED = "ChartDependenciesResolved"
    """The charts that its charts depend on are there; absent where the release holds them itself (ours)."""
    FACTS_KEPT = "FactsKept"
    """The status holds what the release states about versions; absent where it does (ours)."""


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
    WITHIN_RANGES = "WithinRanges"
    """Nothing speaks against the versions the cluster has, nor is about to (ours); it does not count for Ready."""
    PAUSED = "Paused"
    """True while the Cluster or the ClusterAddon is paused, else absent (ours); it does not count for Ready."""
    SETTINGS_USED = "AddonSettingsUsed"
    """False while ``addonValues`` or an annotation of the Cluster names something unknown (ours); does not count for
    Ready."""


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
    VERSIONS_MISSING = "VersionsMissing"
    """A source lacks releases that a ClusterStack names (ours)."""
    CLASS_OBJECTS_CHANGED = "ClassObjectsChanged"
    """Another writer deleted or changed objects of a class (ours)."""
    TAG_MOVED = "TagMoved"
    """The source has another content under the name of a release (ours)."""
    RELEASE_GONE = "ReleaseGone"
    """The source has a release no more (ours)."""
    SIGNATURE_REQUIRED = "SignatureRequired"
    """No trusted key signed a release, which is therefore not used (ours)."""
    NOT_SIGNED = "NotSigned"
    """No trusted key signed a release, which is used all the same (ours)."""
    RECORD_OF_ANOTHER_CLUSTER = "RecordOfAnotherCluster"
    """The workload cluster has the addons of another Cluster (ours)."""
    OBJECT_IN_TWO_ADDONS = "ObjectInTwoAddons"
    """Two addons of a release render the same object (ours)."""
    UNKNOWN_SETTINGS = "UnknownAddonSettings"
    """A Cluster has values for an addon, or an annotation about addons, that are not known (ours)."""
    WEBHOOK_FAILED = "WebhookFailed"
    """An admission webhook of the workload cluster could not be called (ours)."""
    SIGNATURES_UNCLEAR = "SignaturesUnclear"
    """Not all signatures of a release could be looked at, and none of a trusted key is known (ours)."""


class EventReason(StrEnum):
    """Reasons of the events users know."""

    FAILED_TO_DELETE_RELEASE = "FailedToDeleteClusterStackRelease"
    FAILED_TO_CREATE = "ErrorCreatingClusterStackRelease"
    RELEASE_CREATED = "ClusterStackReleaseCreated"
    RELEASE_DELETED = "ClusterStackReleaseDeleted"
    """A ClusterStack needs a release no longer (ours)."""
    PROVIDER_RELEASE_CREATED = "CreateProviderStackRelease"
    PROVIDER_RELEASE_UPDATED = "UpdateProviderStackRelease"
    READY = "Ready"
    """Every condition of an object holds (ours)."""
    OBJECTS_KEPT = "ObjectsKept"
    """Objects that were to go stay in the cluster, with the reason (ours)."""
    STATUS_PRUNED = "StatusFieldsPruned"
    """The CustomResourceDefinition does not have fields of the status, so the API server drops them (ours)."""
    ADDONS_DELIVERED = "AddonsDelivered"
    """A cluster has all addons of its class; of the Cluster, as all that fails with them (ours)."""
    CLASS_OBJECTS_RESTORED = "ClassObjectsRestored"
    """Objects of a class that were changed or deleted by another writer were applied again (ours)."""
    INCOMPATIBLE_ALLOWED = "IncompatibleAllowed"
    """An annotation of a Cluster let through what the ranges forbid (ours)."""


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
