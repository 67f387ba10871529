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
from clusterstacks.model.documents import mapping, text
from clusterstacks.model.kinds.cluster_conditions import condition_view
from clusterstacks.model.kinds.names import OpenStackCondition, Reason
from clusterstacks.model.objects import ObjectId
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

NOT_FOUND: Final = "Waiting for OpenStack resource to be created externally"
"""What ORC says while no image has name and tags. With other words, nothing is uploaded, and the condition has them.
Source: openstack-resource-controller, internal/controllers/generic/progress."""

CAUSES: Final = (
    ("Waiting for Secret/", OpenStackCondition.CLOUD_AVAILABLE, Reason.SECRET_NOT_FOUND),
    ("no cloud named", OpenStackCondition.CLOUD_AVAILABLE, Reason.CLOUD_NOT_SET),
    ("did not contain key", OpenStackCondition.CLOUD_AVAILABLE, Reason.CLOUD_NOT_SET),
    ("failed to unmarshal clouds", OpenStackCondition.CLOUD_AVAILABLE, Reason.CLOUD_NOT_SET),
    ("auth option failed", OpenStackCondition.CLOUD_AVAILABLE, Reason.CLOUD_NOT_SET),
    ("providerClient", OpenStackCondition.IMAGE_CLIENT_AVAILABLE, Reason.IMAGE_CLIENT_NOT_SET),
)
"""Words of ORC, with the condition of the provider written in Go for that state; other words are OpenStackImageActive.
Source: openstack-resource-controller, internal/scope/provider.go."""

UNUSABLE: Final = ("deactivated", "killed")
"""States of an image in which the provider written in Go reports an issue."""


def wanted_image(release: Manifest, images: NodeImages, *, upload: bool) -> Manifest:
    """Return the Image of an OpenStackNodeImageRelease, whose only image is in a list.

    It uses the image with the id if there is one; else it looks for an image, or uploads one.
    """
    (manifest,), options = orc_images(images, ()), images.open_stack_node_images[0].create_opts
    metadata, identity, spec = release["metadata"], mapping(release, "spec", "identityRef"), manifest["spec"]
    if upload and not options.id:
        spec = {**spec, "managedOptions": {"onDelete": "detach"}}
    elif not options.id:
        tags = {"tags": [*dict.fromkeys(options.tags)]} if options.tags else {}
        spec = {"managementPolicy": "unmanaged", "import": {"filter": {"name": options.name, **tags}}}
    cloud = {"secretName": text(identity, "name"), "cloudName": text(identity, "cloudName") or DEFAULT_CLOUD}
    owner = {key: release[key] for key in ("apiVersion", "kind")} | {key: metadata[key] for key in ("name", "uid")}
    place = {key: metadata[key] for key in ("name", "namespace")}
    return {
        **manifest,
        "metadata": {**place, "ownerReferences": [{**owner, "controller": True}]},
        "spec": {**spec, "cloudCredentialsRef": cloud},
    }


def uploads(live: Manifest) -> bool:
    """Return whether an Image uploads an image."""
    return text(live, "spec", "managementPolicy") == "managed"


def is_missing(live: Manifest) -> bool:
    """Return whether an Image that looks for an image found none, or one whose upload was never completed."""
    available, state = condition_view(live, AVAILABLE), text(live, "status", "resource", "status")
    found_none = available.current and available.message == NOT_FOUND
    return bool(mapping(live, "spec", "import", "filter")) and (found_none or state == "queued")


def report(patch: StatusPatch, live: Manifest, now: datetime) -> str:
    """Set the conditions that say what ORC says of an Image; return what it waits for, empty when it can be used."""
    conditions, known = OpenStackCondition, bool(condition_view(live, AVAILABLE).reason)
    why = unavailable(
        RecordedObject(ObjectId(*IMAGE_KIND, patch.key.namespace, patch.key.name), "", "", "", None), live
    )
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
    for words, condition, reason in CAUSES:
        if words in available.message:
            return condition, reason, Severity.ERROR
    state = text(live, "status", "resource", "status")
    if has_failed(live) or available.reason == "TransientError" or state in UNUSABLE:
        return OpenStackCondition.IMAGE_ACTIVE, Reason.IMAGE_ISSUE, Severity.ERROR
    if late:
        return OpenStackCondition.IMAGE_ACTIVE, Reason.IMPORT_TIMED_OUT, Severity.ERROR
    created = Reason.IMAGE_NOT_IMPORTED if text(live, "status", "id") else Reason.IMAGE_NOT_CREATED
    return OpenStackCondition.IMAGE_ACTIVE, created, Severity.INFO
