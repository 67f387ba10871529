"""Explains the conditions and reasons in the status of our kinds and of Clusters: what they mean and what to do.

``csctl explain`` and the reference page about conditions print these tables. A test checks that every condition and
every reason of :mod:`.names` is in them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from clusterstacks.model.kinds.names import (
    ADDONS_HEALTHY_CONDITION,
    ADDONS_IN_SYNC_CONDITION,
    ADDONS_READY_CONDITION,
    CLUSTER_KIND,
    READY_CONDITION,
    WITHIN_RANGES_CONDITION,
    AddonCondition,
    Kind,
    OpenStackCondition,
    OpenStackKind,
    Reason,
    ReleaseCondition,
    StackCondition,
    SyncCondition,
    UpgradeCondition,
)


@dataclass(frozen=True, slots=True)
class Explanation:
    """Explains a condition or reason."""

    name: str
    meaning: str
    """For a condition, what True means."""
    remedy: str = ""
    """For a condition, what to do while it is False; empty if there is nothing to do."""
    kinds: tuple[str, ...] = ()
    """The kinds that have the condition; empty for a reason."""


_SYNC, _BINDING = (Kind.CLUSTER_RESOURCE_SYNC.value,), (Kind.CLUSTER_RESOURCE_SYNC_BINDING.value,)
_UPGRADE = (Kind.CLUSTER_UPGRADE.value,)
_STACK, _RELEASE, _ADDON = (Kind.CLUSTER_STACK.value,), (Kind.CLUSTER_STACK_RELEASE.value,), (Kind.CLUSTER_ADDON.value,)
_CLUSTER = (CLUSTER_KIND,)
_PROVIDER, _NODE_IMAGE = (OpenStackKind.RELEASE.value,), (OpenStackKind.NODE_IMAGE.value,)
_READ_MESSAGE: Final = "The message names the object, the cause and the remedy."
_CLOUD_REMEDY: Final = "Correct the Secret, or name the cloud in it in spec.identityRef.cloudName."
_ORC_REMEDY: Final = "Install the OpenStack Resource Controller (ORC), or correct the credentials in the Secret."

CONDITIONS: Final = (
    Explanation(
        READY_CONDITION,
        "All other conditions that count are True. For a ClusterAddon: the addons of the class are delivered.",
        "Reason and message are those of the worst other condition.",
        (*_STACK, *_RELEASE, *_ADDON, *_SYNC, *_BINDING, *_UPGRADE),
    ),
    Explanation(
        ADDONS_READY_CONDITION,
        "The cluster has all addons of its class. It is the condition Ready of the ClusterAddon, usable in "
        "availabilityGates.",
        "The message names the stage, the object and the cause. 'csctl status' shows the progress.",
        _CLUSTER,
    ),
    Explanation(
        ADDONS_HEALTHY_CONDITION,
        "Present only while it is not True: objects of the addons are not healthy, or their health is unknown.",
        "The message names the objects with the reason of a Pod or an event: repair them in the workload cluster.",
        _CLUSTER,
    ),
    Explanation(
        ADDONS_IN_SYNC_CONDITION,
        "Present only while it is not True: objects differ and are not corrected, or they are not compared now.",
        "'csctl drift' lists the objects, fields and field managers. Stop the other writer, or ignore the difference.",
        _CLUSTER,
    ),
    Explanation(
        WITHIN_RANGES_CONDITION,
        "Present only while it is not True: versions are outside the ranges of their releases or rules.",
        "The message names the fact and the remedy. 'csctl plan' finds the steps of an upgrade.",
        _CLUSTER,
    ),
    Explanation(
        StackCondition.ASSETS_CLIENT_AVAILABLE,
        "The release source can be used: settings and credentials are valid.",
        "Correct spec.source of the ClusterStack, its Secret, or the settings of the operator.",
        (*_STACK, *_RELEASE),
    ),
    Explanation(
        StackCondition.RELEASES_SYNCED,
        "The list of releases was read from the source.",
        "The message describes the error of the source.",
        _STACK,
    ),
    Explanation(
        StackCondition.PROVIDER_RELEASES_SYNCED,
        "The provider's object of each release exists.",
        "Check spec.providerRef of the ClusterStack, and the rights of the operator for its kind.",
        _STACK,
    ),
    Explanation(
        StackCondition.RELEASE_OBJECTS_SYNCED,
        "A ClusterStackRelease exists for each wanted release.",
        _READ_MESSAGE,
        _STACK,
    ),
    Explanation(
        StackCondition.RELEASE_AVAILABLE,
        "At least one release is ready, so that Clusters can use its class.",
        "'kubectl get clusterstackreleases -o wide' shows why the releases are not ready.",
        _STACK,
    ),
    Explanation(
        StackCondition.VERSIONS_AVAILABLE,
        "Present only while it is False: the source lacks versions of spec.versions.",
        "Publish them, or remove them from spec.versions.",
        _STACK,
    ),
    Explanation(
        ReleaseCondition.DOWNLOADED,
        "The files of the release are downloaded, complete and valid. On a ClusterAddon: those of all its releases.",
        _READ_MESSAGE,
        (*_RELEASE, *_ADDON),
    ),
    Explanation(
        ReleaseCondition.PROVIDER_READY,
        "The provider's object, for example node images, is ready.",
        "Look at the object that spec.providerRef names.",
        _RELEASE,
    ),
    Explanation(
        ReleaseCondition.CHART_APPLIED,
        "The objects of the release's chart are applied: the cluster class, or the addons of a cluster.",
        "status.resources lists each object with its error.",
        (*_RELEASE, *_ADDON),
    ),
    Explanation(
        ReleaseCondition.CLASS_ACCEPTED,
        "Cluster API has reconciled the ClusterClass without an error.",
        "The message contains the error of Cluster API, for example a missing template.",
        _RELEASE,
    ),
    Explanation(
        ReleaseCondition.SOURCE_UNCHANGED,
        "The source still has the files that were downloaded first.",
        "Publish the change as a new version: a release must not change. Until then the first files are used.",
        _RELEASE,
    ),
    Explanation(
        ReleaseCondition.SIGNATURE_VERIFIED,
        "A trusted key signed the release; absent if the ClusterStack names no keys.",
        "Sign the release with 'csctl sign', or trust the key of its publisher.",
        _RELEASE,
    ),
    Explanation(
        ReleaseCondition.STAGES_PASSED,
        "The release has the evidence of all stages; absent if the ClusterStack requires none.",
        "The message says what is missing: 'csctl attest' states it in the stage.",
        _RELEASE,
    ),
    Explanation(
        ReleaseCondition.DEPENDENCIES_RESOLVED,
        "The charts that the charts of the release depend on are downloaded; absent if the release contains them.",
        "Allow the chart repository, or build the release with 'csctl create', which adds them.",
        _RELEASE,
    ),
    Explanation(
        ReleaseCondition.FACTS_KEPT,
        "Present only while it is False: the status cannot hold compatibility.yaml of the release.",
        "Publish a release with a shorter compatibility.yaml.",
        _RELEASE,
    ),
    Explanation(
        ReleaseCondition.NODE_IMAGES_AVAILABLE,
        "The Images of the class chart and of node-images.yaml are available in the cloud; absent if there are none.",
        "The message names each Image with what the OpenStack Resource Controller (ORC) says. Reason NodeImagesFailed: "
        "ORC has given up: remove the cause and delete the Image. NodeImagesStuck: look at the log of ORC.",
        _RELEASE,
    ),
    Explanation(OpenStackCondition.ASSETS_READY, "The operator has the release.", _READ_MESSAGE, _PROVIDER),
    Explanation(OpenStackCondition.IMAGES_READY, "All node images of the release are ready.", _READ_MESSAGE, _PROVIDER),
    Explanation(OpenStackCondition.CLOUD_AVAILABLE, "The Secret has the cloud.", _CLOUD_REMEDY, _NODE_IMAGE),
    Explanation(OpenStackCondition.IMAGE_CLIENT_AVAILABLE, "ORC can log in to the cloud.", _ORC_REMEDY, _NODE_IMAGE),
    Explanation(OpenStackCondition.IMPORT_STARTED, "ORC uploads, or has uploaded, the image.", "", _NODE_IMAGE),
    Explanation(OpenStackCondition.IMAGE_ACTIVE, "The image is active in the cloud.", _READ_MESSAGE, _NODE_IMAGE),
    Explanation(
        ReleaseCondition.NODE_IMAGES_AS_STATED,
        "A hash verifies the download of every Image, and every field of node-images.yaml takes effect; absent without "
        "Images. It does not count for Ready.",
        "The message names what has no hash, or has no effect: publish a release in which that is corrected.",
        _RELEASE,
    ),
    Explanation(
        AddonCondition.CLUSTER_READY,
        "The API server of the workload cluster answers.",
        "Look at the conditions of the Cluster. The message says if the kubeconfig or the API server is the cause.",
        (*_ADDON, *_BINDING),
    ),
    Explanation(
        AddonCondition.CONFIG_VALIDATED,
        "clusteraddon.yaml of the release is valid.",
        "Correct the release and publish a new version; 'csctl lint' finds such errors before.",
        _ADDON,
    ),
    Explanation(AddonCondition.HOOK_SERVER_READY, "Used by the Go operator only.", "", _ADDON),
    Explanation(
        AddonCondition.CHART_FOUND,
        "The charts of the addons are present, and the Cluster may use their releases.",
        _READ_MESSAGE,
        _ADDON,
    ),
    Explanation(
        AddonCondition.CHART_TEMPLATED,
        "The charts of the addons render with the values of the cluster.",
        "The message names the chart, file and line. Correct addonValues of the Cluster, or the chart.",
        _ADDON,
    ),
    Explanation(
        AddonCondition.CHART_DELETED,
        "Present while objects of addons are deleted; False if a deletion fails.",
        "The message names the object that cannot be deleted.",
        _ADDON,
    ),
    Explanation(
        AddonCondition.CEL_EVALUATED,
        "The conditions of the stages (waitForPreCondition, waitForPostCondition) could be evaluated.",
        "The message names the stage, the expression and the missing key.",
        _ADDON,
    ),
    Explanation(
        AddonCondition.WITHIN_RANGES,
        "The versions of the cluster are within the ranges of its releases and the provider's rules. It does not "
        "count for Ready.",
        "The message names the fact and the remedy. 'csctl plan' finds the steps of an upgrade.",
        _ADDON,
    ),
    Explanation(
        AddonCondition.SUPPORTED,
        "Present only while it is False: the Kubernetes minor of the cluster left upstream support, or leaves it "
        "within 60 days. It does not count for Ready.",
        "The message has the date and its source. 'csctl compat calendar' shows how many steps lead to a supported "
        "minor.",
        _ADDON,
    ),
    Explanation(
        AddonCondition.DELIVERED,
        "Every object of the addons is applied. It does not count for Ready, which has the same cause.",
        "'csctl status' shows the running stage and what it waits for.",
        _ADDON,
    ),
    Explanation(
        AddonCondition.HEALTHY,
        "Every delivered object does what its kind is for. It counts for Ready only in stages with waitFor: Healthy.",
        "The message names the objects: repair them in the workload cluster, or change the values of the addon.",
        (*_ADDON, *_BINDING),
    ),
    Explanation(
        AddonCondition.IN_SYNC,
        "The objects are as they were delivered. It does not count for Ready.",
        "'csctl drift' lists the objects, fields and field managers; 'csctl reconcile' restores them at once.",
        (*_ADDON, *_BINDING),
    ),
    Explanation(
        AddonCondition.PAUSED,
        "Present while the Cluster, the ClusterAddon or the sync is paused: nothing is delivered or corrected. After "
        "'csctl suspend', 'csctl resume' continues; resume a paused Cluster by spec.paused or its annotation, and a "
        "suspended sync by spec.suspend.",
        "",
        (*_ADDON, *_BINDING),
    ),
    Explanation(
        AddonCondition.SETTINGS_USED,
        "addonValues and the annotations of the Cluster name only addons that exist. It does not count for Ready.",
        "Correct the name in the Cluster; the message suggests one.",
        _ADDON,
    ),
    Explanation(
        SyncCondition.CLUSTERS_SYNCED,
        "All selected Clusters have the objects of the sync; Unknown while one of them is paused or cannot be read.",
        "The message names clusters and causes; each has a ClusterResourceSyncBinding.",
        _SYNC,
    ),
    Explanation(
        UpgradeCondition.CLUSTERS_UPGRADED,
        "All Clusters of the upgrade have its target.",
        "The message says what runs, waits or failed; status.clusters has the step of each Cluster.",
        _UPGRADE,
    ),
    Explanation(
        SyncCondition.SOURCES_READ,
        "All ConfigMaps and Secrets of the sync exist, and all of their documents are valid. While it is False, the "
        "other documents are delivered, and no object is deleted.",
        "The message names the ConfigMap or Secret, the key and the document.",
        _BINDING,
    ),
    Explanation(
        SyncCondition.OBJECTS_APPLIED,
        "All objects of the sources are applied, in the order of the sources. It is False as well while objects wait "
        "for those of a source with waitFor; the message says for which, and since when.",
        _READ_MESSAGE,
        _BINDING,
    ),
    Explanation(
        SyncCondition.OBJECTS_PRUNED,
        "Present only while it is False: objects that left the sources, or all after the deletion of the sync, are not "
        "deleted yet.",
        "The message names the objects, and the command that confirms their deletion where one is needed.",
        _BINDING,
    ),
)

REASONS: Final = (
    Explanation(Reason.FAILED_TO_SYNC, "The releases of the source cannot be listed or read.", _READ_MESSAGE),
    Explanation(
        Reason.PROVIDER_TEMPLATE_NOT_FOUND,
        "The object in spec.providerRef of the ClusterStack does not exist.",
        "Create it, or correct spec.providerRef.",
    ),
    Explanation(
        Reason.FAILED_TO_CREATE_OR_UPDATE,
        "A ClusterStackRelease or an object of the provider cannot be written.",
        "The message contains the answer of the API server, for example a missing right.",
    ),
    Explanation(
        Reason.RELEASE_NOT_DOWNLOADED_YET, "The release is being downloaded.", "Wait; errors are in the message."
    ),
    Explanation(
        Reason.ASSETS_CLIENT_FAILED,
        "The release source cannot be used.",
        "Correct spec.source of the ClusterStack, its Secret, or the settings of the operator.",
    ),
    Explanation(
        Reason.ISSUE_WITH_RELEASE,
        "The files of the release are missing, incomplete or not valid.",
        "Correct the release, and publish it under a new version.",
    ),
    Explanation(
        Reason.PROCESS_ONGOING, "Another object is not ready yet.", "Wait for the object that the message names."
    ),
    Explanation(
        Reason.OBJECTS_APPLYING_ONGOING,
        "Objects are being applied, or some of them fail.",
        "The message names the first failures; status.resources lists each object.",
    ),
    Explanation(
        Reason.FAILED_TO_APPLY_OBJECTS,
        "Objects cannot be applied.",
        "The message names the object and the cause, for example a conflict with another field manager.",
    ),
    Explanation(
        Reason.FAILED_TO_DELETE_OBJECTS,
        "Objects cannot be deleted, or are still being deleted.",
        "The message names the objects with their finalizers, or the policy that refuses their deletion.",
    ),
    Explanation(
        Reason.CONTROL_PLANE_NOT_READY,
        "The control plane of the workload cluster is not ready, or its API server does not answer.",
        "Look at the conditions of the Cluster.",
    ),
    Explanation(
        Reason.PARSING_CONFIG_FAILED,
        "clusteraddon.yaml of the release is not valid.",
        "Correct it, check it with 'csctl lint', and publish a new version.",
    ),
    Explanation(
        Reason.CHART_MISSING,
        "A release of the addons is missing, not downloaded yet, or may not be used by this Cluster.",
        "Look at the ClusterStackRelease: 'kubectl get clusterstackreleases -o wide'.",
    ),
    Explanation(
        Reason.TEMPLATE_NEW_FAILED,
        "A chart of the release does not render.",
        "The message names the chart, file and line: change the values of the Cluster, or the chart.",
    ),
    Explanation(
        Reason.TEMPLATE_NEW_OVERWRITE_FAILED,
        "The values template of an addon (overwrite.yaml) does not render with this Cluster.",
        "Set the field of the Cluster that the message names, or correct overwrite.yaml.",
    ),
    Explanation(
        Reason.FAILED_PRE_CONDITION,
        "waitForPreCondition of a stage cannot be evaluated, for example because of a misspelt key.",
        "Correct the expression if it is misspelt; otherwise the operator evaluates it again every few seconds.",
    ),
    Explanation(
        Reason.FAILED_POST_CONDITION,
        "waitForPostCondition of a stage cannot be evaluated, for example because of a misspelt key.",
        "Correct the expression if it is misspelt; otherwise the operator evaluates it again every few seconds.",
    ),
    Explanation(
        Reason.VERSIONS_MISSING,
        "The source does not have releases that spec.versions of the ClusterStack names.",
        "Publish them, or remove them from spec.versions; the message lists the versions in the source.",
    ),
    Explanation(
        Reason.CLASS_OBJECTS_CHANGED,
        "Another writer deletes or changes objects of a cluster class repeatedly.",
        "Stop the writer that the message names. Publish a permanent change as a new release.",
    ),
    Explanation(
        Reason.TAG_MOVED,
        "The source has other files under the name of the release than at the first download.",
        "Restore the tag, or publish the change as a new version. Until then the first files are used.",
    ),
    Explanation(
        Reason.RELEASE_GONE,
        "The source does not have the release any more.",
        "Publish it again, or move its Clusters to another release.",
    ),
    Explanation(
        Reason.SIGNATURE_REQUIRED,
        "No trusted key signed the release, so it is not used.",
        "Sign it with 'csctl sign', or trust the key of its publisher if you know the owner.",
    ),
    Explanation(
        Reason.NOT_SIGNED,
        "No trusted key signed the release. It is used, because signatures are not required.",
        "Sign it with 'csctl sign'.",
    ),
    Explanation(
        Reason.SIGNATURE_UNKNOWN,
        "The release must be signed, and is not verified yet: its source, its trusted keys or its pin changed.",
        "Wait until its source answers; errors are in the message. Clusters keep their addons, and changes wait.",
    ),
    Explanation(
        Reason.SIGNATURES_UNCLEAR,
        "Not all signatures of the release could be read, and none by a trusted key is known.",
        "Delete signatures that others have added; the message names the limit or the error.",
    ),
    Explanation(
        Reason.EVIDENCE_REQUIRED,
        "A stage that spec.source.verification.evidence requires has not passed the release, so it is not offered.",
        "Wait until the stage has run it, then state it there with 'csctl attest'; or publish a version that passes.",
    ),
    Explanation(
        Reason.EVIDENCE_MISSING,
        "A stage has not passed the release. It is offered, because the policy is Warn.",
        "State it in the stage with 'csctl attest'.",
    ),
    Explanation(Reason.SECRET_NOT_FOUND, "The Secret that spec.identityRef names does not exist.", "Create it."),
    Explanation(Reason.CLOUD_NOT_SET, "The Secret has no clouds.yaml, or not this cloud in it.", _CLOUD_REMEDY),
    Explanation(Reason.IMAGE_CLIENT_NOT_SET, "ORC is not installed, or cannot log in to the cloud.", _ORC_REMEDY),
    Explanation(Reason.IMPORT_NOT_STARTED, "No image has the name and the tags, and its upload has not begun."),
    Explanation(Reason.IMAGE_NOT_CREATED, "The image is not in the cloud yet, or ORC has not looked for it yet."),
    Explanation(Reason.IMAGE_NOT_IMPORTED, "The image is in the cloud and not active yet."),
    Explanation(
        Reason.IMPORT_TIMED_OUT,
        "The image has not become active for more than an hour; if it does later, it is used.",
        "Look at the image in OpenStack and at the log of ORC.",
    ),
    Explanation(
        Reason.IMAGE_ISSUE,
        "The image cannot be used: wrong hash, error of the cloud, a field that cannot be changed.",
        "Remove the cause that the message names; after a wrong hash, also delete the Image.",
    ),
    Explanation(Reason.IMAGE_DIFFERS, "An earlier release made the same node image from another one.", _READ_MESSAGE),
    Explanation(
        Reason.SHARD_NOT_RUNNING,
        "The shard of the operator that the label clusterstack.x-k8s.io/shard asks for has not run for a minute.",
        "Run it, or change or remove the label: 'csctl status --shards' shows the shards.",
    ),
    Explanation(
        Reason.NODE_IMAGES_PENDING,
        "Node images are not available in the cloud yet.",
        "The message has what the OpenStack Resource Controller (ORC) says of each. 'No state yet': it does not run.",
    ),
    Explanation(
        Reason.NODE_IMAGES_STUCK,
        "Node images have not become available for more than an hour.",
        "Look at the log of ORC, or delete the Image to begin again: the operator applies it.",
    ),
    Explanation(
        Reason.IMAGE_NOT_VERIFIED,
        "An Image has no hash, so any content of its URL is used, also a broken or replaced one.",
        "Add the hash to the Image of the class chart, or as checksum to its entry in node-images.yaml (csctl lint "
        "prints the command that computes it). Change the name of the image as well, because an Image keeps its "
        "content, and publish a new release.",
    ),
    Explanation(
        Reason.PROPERTY_NOT_SUPPORTED,
        "node-images.yaml has a field for which the OpenStack Resource Controller (ORC) has none; it is ignored.",
        "Remove the field and publish a new release, or set the property in the cloud.",
    ),
    Explanation(
        Reason.NODE_IMAGES_FAILED,
        "ORC has given up on a node image: wrong hash, error page, or deleted in the cloud.",
        "Remove the cause that the message names, then delete the Image: the operator applies it.",
    ),
    Explanation(
        Reason.RECORD_OF_ANOTHER_CLUSTER,
        "The workload cluster has the addons of another Cluster.",
        "Check the kubeconfig Secret. If this Cluster replaces the other one, set the annotation "
        "clusterstack.x-k8s.io/adopt-addons-of.",
    ),
    Explanation(
        Reason.OBJECT_IN_TWO_ADDONS,
        "Two addons of the release render the same object.",
        "Remove it from one of the charts, and publish a new release.",
    ),
    Explanation(
        Reason.OBJECT_CLAIMED_TWICE,
        "An addon and a resource sync, or two resource syncs, contain the same object.",
        "Remove it from one of the two, which the message names.",
    ),
    Explanation(
        Reason.SOURCE_INCOMPLETE,
        "A ConfigMap or Secret of a sync is missing, has another type, or has a document that is not valid.",
        "The message names it. Nothing is deleted until it is corrected, or removed from the sync.",
    ),
    Explanation(
        Reason.PRUNE_HELD,
        "A source of a sync became empty, or a CustomResourceDefinition left it of which the cluster has objects.",
        "Restore the source, or confirm the deletion by the command in the message.",
    ),
    Explanation(Reason.UPGRADE_RUNNING, "Clusters are being upgraded.", "Wait."),
    Explanation(
        Reason.UPGRADE_WAITING,
        "No step runs: the window is closed, Clusters are not settled, or another ClusterUpgrade has them.",
        _READ_MESSAGE,
    ),
    Explanation(
        Reason.UPGRADE_SUSPENDED, "spec.suspend is true: no step begins.", "Set spec.suspend to false to continue."
    ),
    Explanation(
        Reason.UPGRADE_STOPPED,
        "So many Clusters failed that no further one begins.",
        "Remove the cause that the message names: a Cluster that can go on has no longer failed. Or raise "
        "spec.stopAfterFailures.",
    ),
    Explanation(Reason.UPGRADE_BLOCKED, "The Clusters that are left have failed, or cannot begin.", _READ_MESSAGE),
    Explanation(Reason.CLUSTERS_NOT_SYNCED, "Some Clusters do not have all objects of the sync.", _READ_MESSAGE),
    Explanation(
        Reason.BINDINGS_REMAIN,
        "The sync is being deleted, and its objects are not deleted in all clusters yet.",
        "If a cluster will not come back, give it up by the command in the message.",
    ),
    Explanation(
        Reason.UNKNOWN_SETTINGS,
        "addonValues or an annotation of the Cluster names an unknown addon.",
        "Correct the name; the message suggests one.",
    ),
    Explanation(
        Reason.WEBHOOK_FAILED,
        "An admission webhook of the workload cluster does not answer.",
        "Repair its Service, or delete the webhook configuration that the message names.",
    ),
    Explanation(
        Reason.OBJECTS_IN_PROGRESS,
        "Delivered objects are not healthy yet.",
        "Wait, or look at the objects that the message names.",
    ),
    Explanation(
        Reason.OBJECTS_FAILED,
        "Delivered objects have failed and do not become healthy without a change.",
        "Repair the objects that the message names, or change the values of the addon.",
    ),
    Explanation(
        Reason.HEALTH_UNKNOWN,
        "The delivered objects cannot be read.",
        "Check that the API server of the workload cluster answers.",
    ),
    Explanation(
        Reason.OBJECTS_CHANGED,
        "Another writer changed or deleted delivered objects.",
        "'csctl drift' lists the objects, fields and field managers.",
    ),
    Explanation(
        Reason.CORRECTIONS_REVERTED,
        "Another writer changes delivered objects again after each correction.",
        "Stop the other writer, remove the fields from the chart, or add them to spec.drift.ignoreDifferences of the "
        "ClusterStack.",
    ),
    Explanation(
        Reason.RECORD_MISSING,
        "The workload cluster lacks the record of a delivery, or has that of another one, as after the restore of a "
        "backup.",
        "The addon is delivered again. If the record cannot be read, delete the Secret that the message names.",
    ),
    Explanation(
        Reason.DRIFT_UNKNOWN,
        "The delivered objects cannot be compared with what was delivered.",
        _READ_MESSAGE,
    ),
    Explanation(
        Reason.INVALID_INTERVAL,
        "The interval of the comparisons is not valid.",
        "Correct the annotation clusterstack.x-k8s.io/drift-interval of the Cluster, or spec.drift of the "
        "ClusterStack.",
    ),
    Explanation(
        Reason.HEALTH_TIMEOUT,
        "The objects of a stage were not healthy within its timeout.",
        "Repair the objects that the message names; the stage continues when they are healthy.",
    ),
    Explanation(
        Reason.ROLLED_BACK,
        "An addon was not healthy within the timeout of its stage, and returned to its last healthy revision.",
        "Correct the addon in a new release, or change its values.",
    ),
    Explanation(
        Reason.ADDONS_DELETED,
        "The Cluster left its cluster stack, and its addons were deleted, as its deletion policy says.",
    ),
    Explanation(
        Reason.ADDONS_ORPHANED,
        "The Cluster left its cluster stack. Its addons stay in the workload cluster, and are not managed any more.",
        "Nothing has to be done. Delete the ClusterAddon if the Cluster does not return to a cluster stack.",
    ),
    Explanation(
        Reason.HOLD_NOT_HONOURED,
        "Cluster API upgraded the Cluster although the upgrade was held.",
        "Enable the feature gate RuntimeSDK of Cluster API (1.10 or newer).",
    ),
    Explanation(
        "NoAddons",
        "The operator has not reported the state of the addons of the Cluster yet.",
        "Wait. If it lasts, check that the operator runs: 'csctl version'.",
    ),
    Explanation(
        "Paused",
        "The Cluster or the ClusterAddon is paused.",
        "After 'csctl suspend', run 'csctl resume'. Resume a paused Cluster by spec.paused or its annotation.",
    ),
    Explanation(
        "UpgradeHeld",
        "Cluster API waits with the upgrade of Kubernetes until the stages of BeforeClusterUpgrade are complete.",
        "'csctl status' shows the stage and what it waits for.",
    ),
    Explanation(
        "RollingOut",
        "The addons of the wanted class or Kubernetes version are being delivered.",
        "Wait: 'csctl status'.",
    ),
    Explanation(
        "WaitingForUpgrade",
        "Stages wait until Cluster API has upgraded the control plane or the workers.",
        "Look at the conditions of the Cluster if the upgrade does not continue.",
    ),
    Explanation(
        "ConditionNotMet",
        "A condition of a stage does not hold yet; the operator evaluates it again every five seconds.",
        "The message contains the expression.",
    ),
    Explanation(
        "ClassNotOffered",
        "No ClusterStack offers the class to the Cluster's namespace, or there is none yet; nothing is created for it.",
        "Use an offered class, which the message names, or ask the provider to add the namespace or the version.",
    ),
    Explanation(
        "NameNotCanonical",
        "The Cluster has another ClusterAddon: only cluster-addon-NAME is used.",
        "Delete this ClusterAddon.",
    ),
    Explanation(
        "NoReleaseReady",
        "No release of the ClusterStack is ready, or the source has none for it.",
        "'kubectl get clusterstackreleases -o wide' shows why; the message lists what the source has.",
    ),
    Explanation(
        "ClusterClassNotAccepted", "Cluster API has not accepted the ClusterClass.", "The message contains its error."
    ),
    Explanation(
        "ClusterClassMissing",
        "The ClusterClass of the release does not exist. The operator applies it again if the chart renders it.",
        _READ_MESSAGE,
    ),
    Explanation(
        "NodeImageServerDisabled",
        "The release has files of node images (artifact: in node-images.yaml), and the operator does not serve them.",
        "Set nodeImages.enabled=true of the chart, or the flags --node-image-bind-address and --node-image-url.",
    ),
    Explanation(
        "NodeImagesNotHeld",
        "The release has files of node images, and its source is of a kind that cannot hold them.",
        "Publish the release in an OCI registry, or name the images by https URLs.",
    ),
    Explanation(
        "ClassInUse", "A Cluster uses the class, so that the release is not deleted.", "Move the Cluster first."
    ),
    Explanation(
        "Unreachable", "An API server does not answer.", "Check the network and the server that the message names."
    ),
    Explanation(
        "RenderTimeout", "A chart took too long to render and was stopped.", "Look for loops in its templates."
    ),
    Explanation(
        "RenderWorkerDied", "A chart exceeded the memory limit of a render.", "Look for loops in its templates."
    ),
    Explanation("RenderWorkersBusy", "Other charts were rendered first.", "Wait; the operator retries."),
)
