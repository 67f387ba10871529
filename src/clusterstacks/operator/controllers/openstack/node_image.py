"""Carries out an OpenStackNodeImageRelease with an Image of the OpenStack Resource Controller (ORC)."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Final

from clusterstacks.deliver.apply.class_object_rules import IMAGE_KIND
from clusterstacks.deliver.apply.orc_images import orc_images
from clusterstacks.deliver.apply.ownership import FIELD_MANAGER
from clusterstacks.model.conditions import Severity
from clusterstacks.model.documents import mapping, mappings
from clusterstacks.model.errors import SpecError
from clusterstacks.model.files.definitions import read
from clusterstacks.model.files.node_images import InvalidNodeImages, NodeImages, OpenStackImage
from clusterstacks.model.kinds.names import OpenStackCondition, Reason
from clusterstacks.model.objects import contains
from clusterstacks.model.outcomes import Outcome, Settled, Waiting
from clusterstacks.net.kube.errors import KindNotServed
from clusterstacks.operator.controllers.clusterstackrelease.class_objects import judge_images
from clusterstacks.operator.controllers.clusterstackrelease.image_wait import RECHECK
from clusterstacks.operator.controllers.openstack.image_rules import is_missing, report, uploads, wanted_image

if TYPE_CHECKING:
    from clusterstacks.model.objects import Manifest
    from clusterstacks.net.kube.client import Client
    from clusterstacks.operator.controllers.object_reader import CachedReader
    from clusterstacks.operator.controllers.status_reconciler import StatusPatch
    from clusterstacks.runtime.clock import Clock

INSTALL_RECHECK: Final = timedelta(minutes=1)
"""Interval at which it is looked whether ORC is installed. Arbitrary."""

ISSUE: Final = (OpenStackCondition.IMAGE_ACTIVE, Reason.IMAGE_ISSUE)


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeImageReconciler:
    """Applies the Image of an OpenStackNodeImageRelease and reports its state. It reads no credentials."""

    client: Client
    reads: CachedReader
    clock: Clock

    async def work(self, patch: StatusPatch) -> Outcome | None:
        """Reconcile one object; the garbage collector deletes its Image with it."""
        if patch.deleting:
            return None
        ready, patch.status["ready"] = patch.status.get("ready") is True, False
        with patch.failing_condition(*ISSUE):
            document = mapping(patch.manifest, "spec", "image")
            image = read(OpenStackImage, document, file="spec.image", error=InvalidNodeImages)
        images = NodeImages(api_version="", open_stack_node_images=(image,))
        judge_images(patch, images, orc_images(images, ()))
        try:
            resource = await self.reads.resource(*IMAGE_KIND)
        except KindNotServed:
            condition, reason = OpenStackCondition.IMAGE_CLIENT_AVAILABLE, Reason.IMAGE_CLIENT_NOT_SET
            message = "the API server does not serve Images: install the OpenStack Resource Controller (ORC)"
            patch.false(condition, reason, message, Severity.ERROR)
            return Waiting(reason, message, INSTALL_RECHECK)
        live = await self.reads.find(resource, patch.key.name, patch.key.namespace)
        with patch.failing_condition(*ISSUE):
            _check_owner(patch, live)
        if live is not None and ("deletionTimestamp" in live["metadata"] or is_missing(live)):
            patch.require_live()
            if "deletionTimestamp" not in live["metadata"]:
                await self.client.delete(resource, patch.key.name, patch.key.namespace, uid=live["metadata"]["uid"])
            message = "no image in the cloud has this name and these tags yet"
            if is_missing(live):  # remembers that the next Image uploads
                patch.false(OpenStackCondition.IMPORT_STARTED, Reason.IMPORT_NOT_STARTED, message, Severity.INFO)
            patch.false(OpenStackCondition.IMAGE_ACTIVE, Reason.IMAGE_NOT_CREATED, message, Severity.INFO)
            return Waiting(Reason.IMAGE_NOT_CREATED, message, RECHECK)
        patch.status["ready"] = ready
        upload = uploads(live or {}) or patch.condition(OpenStackCondition.IMPORT_STARTED) is not None
        wanted = wanted_image(patch.manifest, images, upload=upload)
        if live is None or not contains(live["spec"], wanted["spec"]):
            patch.require_live()
            with patch.failing_condition(*ISSUE):
                live = await self.client.apply(
                    resource, wanted, manager=FIELD_MANAGER, namespace=patch.key.namespace, force=True
                )
            self.reads.written(live, resource.group)
        why = report(patch, live, self.clock.now())
        patch.status["ready"] = not why
        return Waiting(Reason.PROCESS_ONGOING, why, RECHECK) if why else Settled(RECHECK)


def _check_owner(patch: StatusPatch, live: Manifest | None) -> None:
    """Raise a SpecError if the Image belongs to somebody else."""
    owners = [one.get("uid") for one in mappings(live or {}, "metadata", "ownerReferences")]
    if live is not None and patch.manifest["metadata"]["uid"] not in owners:
        raise SpecError(
            Reason.IMAGE_ISSUE, f"Image {patch.key} belongs to another object: delete or rename one of them"
        )
