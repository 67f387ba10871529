"""Waits for the node images of a release: without them, a Cluster of its class cannot start a machine.

The images are objects of kind Image of the OpenStack Resource Controller (ORC), from the class chart or made from
node-images.yaml.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Final

from clusterstacks.deliver.apply.class_object_rules import IMAGE_KIND
from clusterstacks.model.conditions import Severity
from clusterstacks.model.documents import and_more
from clusterstacks.model.kinds.cluster_conditions import condition_view
from clusterstacks.model.kinds.names import Reason, ReleaseCondition
from clusterstacks.model.outcomes import Waiting
from clusterstacks.operator.controllers.clusterstackrelease.class_objects import recorded_objects
from clusterstacks.operator.image_requests import without_tokens

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from clusterstacks.deliver.apply.delivery_plan import RecordedObject
    from clusterstacks.model.objects import Manifest, ObjectId
    from clusterstacks.operator.controllers.status_reconciler import StatusPatch

AVAILABLE: Final = "Available"
"""Condition of an Image that can be used. Source as for ``TERMINAL``."""

DOWNLOADING: Final = "Downloading"
"""Condition with the progress of the download, or with the cause of its failure."""

PROGRESSING: Final = "Progressing"
"""Reason of an Image whose download has not failed yet: then ``DOWNLOADING`` says more than ``AVAILABLE``."""

TERMINAL: Final = ("InvalidConfiguration", "UnrecoverableError")
"""Reasons after which ORC does not try again. Source: openstack-resource-controller, api/v1alpha1/conditions.go."""

LONG: Final = timedelta(hours=1)
"""Time after which images that are not available count as stuck. Arbitrary: ORC downloads a gigabyte in minutes."""

RECHECK: Final = timedelta(minutes=5)
"""Interval that bounds the effect of a lost event: a change of an Image enqueues the release. Arbitrary."""

SHOWN: Final = 3
"""Images that a message names; arbitrary."""

MESSAGE_LENGTH: Final = 300
"""Characters of ORC's message that are shown, of its start and of its end, which has the cause; arbitrary."""


async def wait_for_images(
    patch: StatusPatch, find: Callable[[ObjectId], Awaitable[Manifest | None]], now: datetime
) -> Waiting | None:
    """Set the condition NodeImagesAvailable and ``status.nodeImages``; return None when all images are available.

    Raises:
        DependencyError: The API server is not available.
    """
    images = [
        one
        for one in recorded_objects(patch.status, patch.key.namespace)
        if (one.id.group, one.id.kind) == IMAGE_KIND and one.id.namespace == patch.key.namespace
    ]
    if not images:
        patch.drop(ReleaseCondition.NODE_IMAGES_AVAILABLE)
        patch.status.pop("nodeImages", None)
        return None
    found = [(image, await find(image.id)) for image in images]
    missing = [why for image, live in found if (why := unavailable(image, live))]
    patch.status["nodeImages"] = f"{len(images) - len(missing)}/{len(images)}"
    if not missing:
        patch.true(ReleaseCondition.NODE_IMAGES_AVAILABLE)
        return None
    message = and_more(missing, SHOWN, separator="; ")
    reason, severity = Reason.NODE_IMAGES_PENDING, Severity.INFO
    if any(live is not None and has_failed(live) for _, live in found):
        reason, severity = Reason.NODE_IMAGES_FAILED, Severity.WARNING
    elif is_long(patch, ReleaseCondition.NODE_IMAGES_AVAILABLE, now):
        message = f"for more than an hour: {message}: check the log of ORC, or delete the Image to begin again"
        reason, severity = Reason.NODE_IMAGES_STUCK, Severity.WARNING
    patch.false(ReleaseCondition.NODE_IMAGES_AVAILABLE, reason, message, severity)
    return Waiting(reason, message, RECHECK)


def unavailable(image: RecordedObject, live: Manifest | None) -> str:
    """Return why an image cannot be used, and what to do; empty when it can be used."""
    title = f"Image {image.id.name}"
    if live is None or (image.uid and live["metadata"]["uid"] != image.uid):
        return f"{title} does not exist; it is applied again"
    available = condition_view(live, AVAILABLE)
    if available.true and available.current:
        return ""
    if not available.reason or not available.current:
        remedy = "check that the OpenStack Resource Controller (ORC) runs; it downloads one image after the other"
        return f"{title} has no state yet: {remedy}"
    download, failed = condition_view(live, DOWNLOADING).message, has_failed(live)
    told = f"{available.message}: {download}" if failed and download else available.message
    if available.reason == PROGRESSING and download:
        told = download
    cause = without_tokens(" ".join(told.split()))
    if len(cause) > MESSAGE_LENGTH:
        cause = f"{cause[: MESSAGE_LENGTH // 2]} ... {cause[-MESSAGE_LENGTH // 2 :]}"
    if failed:
        return f"{title}: {cause}: ORC does not try again: remove the cause, then delete the Image to begin again"
    return f"{title} is not available yet: {cause}"


def has_failed(live: Manifest) -> bool:
    """Return whether ORC has given up on an image."""
    available = condition_view(live, AVAILABLE)
    return not available.true and available.current and available.reason in TERMINAL


def is_long(patch: StatusPatch, condition: str, now: datetime) -> bool:
    """Return whether a condition, as it was read, has been False for ``LONG``."""
    known = patch.condition(condition)
    if known is None or known.status != "False" or not known.last_transition_time:
        return False
    return now - datetime.fromisoformat(known.last_transition_time) > LONG
