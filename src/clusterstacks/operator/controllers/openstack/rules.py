"""Decides which Image of the OpenStack Resource Controller (ORC) an OpenStackNodeImageRelease has, and judges it.

The provider written in Go uses an image that has the name and the tags, and uploads one where there is none. ORC does
one of the two, and an Image cannot change from one to the other: so the first Image only looks for such an image; if
there is none, it is deleted, and the second Image uploads. No Image ever deletes an image of the cloud.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from clusterstacks.deliver.apply.class_object_rules import IMAGE_KIND
from clusterstacks.deliver.apply.delivery_plan import RecordedObject
from clusterstacks.deliver.apply.orc_images import DEFAULT_CLOUD, orc_images
from clusterstacks.model.conditions import Severity
from clusterstacks.model.documents import mapping, mappings, text
from clusterstacks.model.errors import SpecError
from clusterstacks.model.files.definitions import write
from clusterstacks.model.files.node_images import FILE
from clusterstacks.model.kinds.cluster_conditions import condition_view
from clusterstacks.model.kinds.names import OpenStackCondition, OpenStackKind, Reason
from clusterstacks.model.objects import ObjectId, contains
from clusterstacks.operator.controllers.clusterstackrelease.image_wait import (
    AVAILABLE,
    has_failed,
    is_long,
    unavailable,
)

if TYPE_CHECKING:
    from datetime import datetime

    from clusterstacks.model.files.node_images import NodeImages
    from clusterstacks.model.objects import Manifest
    from clusterstacks.operator.controllers.status_reconciler import StatusPatch
    from clusterstacks.release.release import Release

NOT_FOUND: Final = "Waiting for OpenStack resource to be created externally"
"""What ORC says while no image has name and tags. With other words, nothing is uploaded, and the condition has them.
Source: openstack-resource-controller, internal/controllers/generic/progress."""

_NOT_SET = ("no cloud named", "did not contain key", "failed to unmarshal clouds", "auth option failed")
CAUSES: Final = (
    (OpenStackCondition.CLOUD_AVAILABLE, Reason.SECRET_NOT_FOUND, ("Waiting for Secret/",)),
    (OpenStackCondition.CLOUD_AVAILABLE, Reason.CLOUD_NOT_SET, _NOT_SET),
    (OpenStackCondition.IMAGE_CLIENT_AVAILABLE, Reason.IMAGE_CLIENT_NOT_SET, ("providerClient",)),
)
"""Conditions of the provider written in Go, with words of ORC in that state; other words are OpenStackImageActive.
Source: openstack-resource-controller, internal/scope/provider.go."""


def node_images(release: Release) -> dict[str, Manifest]:
    """Return the images of a release by the names of their OpenStackNodeImageReleases.

    Releases of one Kubernetes minor that have the same version of the node images share them.

    Raises:
        SpecError: The release has none, or the list is not valid.
    """
    images = release.node_images()
    if images is None:
        problem = f"release {release.name} has no node images for OpenStack: publish one with {FILE}, or set "
        raise SpecError(Reason.ISSUE_WITH_RELEASE, f"{problem}spec.noProvider in its ClusterStack")
    if images.artifacts:
        problem = f"{FILE} of {release.name} names files, which are served to ORC only without a provider object"
        raise SpecError(Reason.ISSUE_WITH_RELEASE, f"{problem}: write https URLs, or set spec.noProvider")
    version = release.metadata.node_image
    prefix, suffix = release.name.series, f"-{version.dash}" if version else ""
    names = [f"{prefix}-{text(one, 'metadata', 'name')}{suffix}" for one in orc_images(images, ())]
    return dict(zip(names, map(write, images.open_stack_node_images), strict=True))


def owners(image: Manifest) -> list[str]:
    """Return the names of the OpenStackClusterStackReleases that own an OpenStackNodeImageRelease."""
    listed = mappings(image, "metadata", "ownerReferences")
    return [text(owner, "name") for owner in listed if owner.get("kind") == OpenStackKind.RELEASE]


def differs(live: Manifest, image: Manifest) -> bool:
    """Return whether an OpenStackNodeImageRelease has another image; definitions of Go drop the checksum."""
    return not contains(mapping(live, "spec", "image"), {key: image[key] for key in ("url", "createOpts")})


def owned_by(owner: Manifest, name: str, **reference: bool) -> Manifest:
    """Return the metadata of an object beside its owner."""
    owned = {key: owner[key] for key in ("apiVersion", "kind")} | {k: owner["metadata"][k] for k in ("name", "uid")}
    namespace = owner["metadata"]["namespace"]
    return {"name": name, "namespace": namespace, "ownerReferences": [{**owned, **reference}]}


def wanted_image(release: Manifest, images: NodeImages, *, upload: bool) -> Manifest:
    """Return the Image of an OpenStackNodeImageRelease, whose image is the only one of a list.

    It uses the image with the id if there is one; else it looks for an image, or uploads one.
    """
    (manifest,), options = orc_images(images, ()), images.open_stack_node_images[0].create_opts
    identity, spec = mapping(release, "spec", "identityRef"), manifest["spec"]
    if upload and not options.id:
        spec = {**spec, "managedOptions": {"onDelete": "detach"}}
    elif not options.id:
        tags = {"tags": [*dict.fromkeys(options.tags)]} if options.tags else {}
        spec = {"managementPolicy": "unmanaged", "import": {"filter": {"name": options.name, **tags}}}
    cloud = {"secretName": text(identity, "name"), "cloudName": text(identity, "cloudName") or DEFAULT_CLOUD}
    metadata = owned_by(release, release["metadata"]["name"], controller=True)
    return {**manifest, "metadata": metadata, "spec": {**spec, "cloudCredentialsRef": cloud}}


def uploads(live: Manifest) -> bool:
    """Return whether an Image uploads an image."""
    return text(live, "spec", "managementPolicy") == "managed"


def is_missing(live: Manifest) -> bool:
    """Return whether an Image that looks for an image found none, or one whose upload was never completed."""
    available = condition_view(live, AVAILABLE)
    found_none = available.current and available.message == NOT_FOUND
    return bool(mapping(live, "spec", "import", "filter")) and (found_none or _cloud_state(live) == "queued")


def report(patch: StatusPatch, live: Manifest, now: datetime) -> str:
    """Set the conditions that say what ORC says of an Image; return what it waits for, empty when it can be used."""
    conditions, known = OpenStackCondition, bool(condition_view(live, AVAILABLE).reason)
    identity = ObjectId(*IMAGE_KIND, patch.key.namespace, patch.key.name)
    why = unavailable(RecordedObject(identity, "", "", "", None), live)
    if uploads(live) and text(live, "status", "id"):
        patch.reached(conditions.IMPORT_STARTED, "the upload of the image has begun")
    elif uploads(live):
        patch.false(conditions.IMPORT_STARTED, Reason.IMPORT_NOT_STARTED, "the upload has not begun", Severity.INFO)
    failing, reason, severity = _cause(live, late=is_long(patch, conditions.IMAGE_ACTIVE, now))
    if reason == Reason.IMPORT_TIMED_OUT:
        why = f"for more than an hour: {why}: look at the image in OpenStack and at the log of ORC"
    for condition in (conditions.CLOUD_AVAILABLE, conditions.IMAGE_CLIENT_AVAILABLE, conditions.IMAGE_ACTIVE):
        if why and condition == failing:
            patch.false(condition, reason, why, severity)
            known = False
        elif not known:
            patch.drop(condition)
        elif condition == conditions.IMAGE_ACTIVE:
            patch.reached(condition, "the image is active")
        else:
            patch.true(condition)
    return why


def _cause(live: Manifest, *, late: bool) -> tuple[OpenStackCondition, Reason, Severity]:
    """Return the condition of an Image that is not available, with its reason and severity."""
    available = condition_view(live, AVAILABLE)
    for condition, reason, words in CAUSES:
        if any(word in available.message for word in words):
            return condition, reason, Severity.ERROR
    failed = has_failed(live) or available.reason == "TransientError"
    if failed or _cloud_state(live) in {"deactivated", "killed"}:
        return OpenStackCondition.IMAGE_ACTIVE, Reason.IMAGE_ISSUE, Severity.ERROR
    if late:
        return OpenStackCondition.IMAGE_ACTIVE, Reason.IMPORT_TIMED_OUT, Severity.ERROR
    created = Reason.IMAGE_NOT_IMPORTED if text(live, "status", "id") else Reason.IMAGE_NOT_CREATED
    return OpenStackCondition.IMAGE_ACTIVE, created, Severity.INFO


def _cloud_state(live: Manifest) -> str:
    return text(live, "status", "resource", "status")
