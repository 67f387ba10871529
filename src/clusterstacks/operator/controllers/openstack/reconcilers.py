"""Carries out the kinds of cluster-stack-provider-openstack with Images of ORC. No credentials are read."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Final

from clusterstacks.deliver.apply.class_object_rules import IMAGE_KIND
from clusterstacks.deliver.apply.orc_images import orc_images
from clusterstacks.deliver.apply.ownership import FIELD_MANAGER
from clusterstacks.model.conditions import Severity
from clusterstacks.model.documents import and_more, mapping, mappings
from clusterstacks.model.errors import SpecError
from clusterstacks.model.files.definitions import read
from clusterstacks.model.files.node_images import InvalidNodeImages, NodeImages, OpenStackImage
from clusterstacks.model.kinds.cluster_conditions import condition_view
from clusterstacks.model.kinds.names import (
    DIGEST_ANNOTATION,
    READY_CONDITION,
    EventReason,
    OpenStackCondition,
    OpenStackKind,
    Reason,
    ReleaseCondition,
)
from clusterstacks.model.names import parse_release
from clusterstacks.model.objects import contains
from clusterstacks.model.outcomes import Outcome, Settled, Waiting
from clusterstacks.operator.controllers.clusterstackrelease.class_objects import judge_images
from clusterstacks.operator.controllers.clusterstackrelease.image_wait import RECHECK, SHOWN
from clusterstacks.operator.controllers.openstack.rules import (
    differs,
    is_missing,
    node_images,
    owned_by,
    owners,
    report,
    uploads,
    wanted_image,
)

if TYPE_CHECKING:
    from clusterstacks.model.objects import Manifest
    from clusterstacks.net.kube.client import Client
    from clusterstacks.operator.controllers.object_reader import CachedReader
    from clusterstacks.operator.controllers.status_reconciler import StatusPatch
    from clusterstacks.release.release import Release
    from clusterstacks.release.sources.fetcher import ReleaseFetcher
    from clusterstacks.runtime.cache import ObjectCache
    from clusterstacks.runtime.clock import Clock

LIST_RECHECK: Final = timedelta(seconds=10)
"""Interval at which it is looked whether the definitions are installed. Arbitrary."""

_ISSUE: Final = (OpenStackCondition.IMAGE_ACTIVE, Reason.IMAGE_ISSUE)


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeImageReconciler:
    """Applies the Image of an OpenStackNodeImageRelease and reports its state."""

    client: Client
    reads: CachedReader
    clock: Clock

    async def work(self, patch: StatusPatch) -> Outcome | None:
        """Reconcile one object; the garbage collector deletes its Image with it."""
        if patch.deleting:
            return None
        key, ready, patch.status["ready"] = patch.key, patch.status.get("ready") is True, False
        with patch.failing_condition(*_ISSUE):
            document = mapping(patch.manifest, "spec", "image")
            image = read(OpenStackImage, document, file="spec.image", error=InvalidNodeImages)
        images = NodeImages(api_version="", open_stack_node_images=(image,))
        judge_images(patch, images, orc_images(images, ()))
        with patch.failing_condition(OpenStackCondition.IMAGE_CLIENT_AVAILABLE, Reason.IMAGE_CLIENT_NOT_SET):
            resource = await self.reads.resource(*IMAGE_KIND)
        live = await self.reads.find(resource, key.name, key.namespace)
        with patch.failing_condition(*_ISSUE):
            _check_owner(patch, live)
        if live is not None and ("deletionTimestamp" in live["metadata"] or is_missing(live)):
            patch.require_live()
            if "deletionTimestamp" not in live["metadata"]:
                await self.client.delete(resource, key.name, key.namespace, uid=live["metadata"]["uid"])
            message = "no image in the cloud has this name and these tags yet"
            if is_missing(live):  # remembers that the next Image uploads
                patch.false(OpenStackCondition.IMPORT_STARTED, Reason.IMPORT_NOT_STARTED, message, Severity.INFO)
            patch.false(OpenStackCondition.IMAGE_ACTIVE, Reason.IMAGE_NOT_CREATED, message, Severity.INFO)
            return Waiting(Reason.IMAGE_NOT_CREATED, message, RECHECK)
        patch.status["ready"] = ready
        # Where it is True, an image was uploaded, perhaps by the provider written in Go: it is looked for.
        started = patch.condition(OpenStackCondition.IMPORT_STARTED)
        upload = uploads(live or {}) or (started is not None and started.status == "False")
        wanted = wanted_image(patch.manifest, images, upload=upload)
        if live is None or not contains(live["spec"], wanted["spec"]):
            patch.require_live()
            with patch.failing_condition(*_ISSUE):
                live = await self.client.apply(resource, wanted, manager=FIELD_MANAGER, force=True)
            self.reads.written(live, resource.group)
        why = report(patch, live, self.clock.now())
        patch.status["ready"] = not why
        return Waiting(Reason.PROCESS_ONGOING, why, RECHECK) if why else Settled(RECHECK)


def _check_owner(patch: StatusPatch, live: Manifest | None) -> None:
    """Raise a SpecError if the Image belongs to somebody else."""
    known = [one.get("uid") for one in mappings(live or {}, "metadata", "ownerReferences")]
    if live is not None and patch.manifest["metadata"]["uid"] not in known:
        raise SpecError(Reason.IMAGE_ISSUE, f"Image {patch.key} belongs to another object: delete or rename one")


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenStackReleaseReconciler:
    """Creates the OpenStackNodeImageReleases of a release that the operator has, and waits for them."""

    client: Client
    reads: CachedReader
    fetcher: ReleaseFetcher
    releases: ObjectCache

    async def work(self, patch: StatusPatch) -> Outcome | timedelta | None:
        """Reconcile one object; the garbage collector deletes an OpenStackNodeImageRelease with its last owner."""
        if patch.deleting:
            return None
        images = await self.reads.informer(OpenStackKind.NODE_IMAGE.group, OpenStackKind.NODE_IMAGE)
        if images is None:  # not listed yet
            return LIST_RECHECK
        same = [one for one in images.cache.all() if one["metadata"]["namespace"] == patch.key.namespace]
        owned = {one["metadata"]["name"]: one for one in same if patch.key.name in owners(one)}
        with patch.failing_condition(OpenStackCondition.ASSETS_READY, Reason.ISSUE_WITH_RELEASE):
            release = await self._open(patch, known=bool(owned) and patch.holds(OpenStackCondition.ASSETS_READY))
            wanted = node_images(release) if release else {}
        if not wanted and not owned:
            message = f"ClusterStackRelease {patch.key} is not downloaded yet"
            patch.false(OpenStackCondition.ASSETS_READY, Reason.RELEASE_NOT_DOWNLOADED_YET, message, Severity.INFO)
            return Waiting(Reason.RELEASE_NOT_DOWNLOADED_YET, message, RECHECK)
        for name, image in wanted.items():
            owned[name] = await self._ensure(patch, name, image)
        patch.reached(OpenStackCondition.ASSETS_READY, "the release is downloaded")
        patch.true(ReleaseCondition.ASSETS_CLIENT_AVAILABLE)
        if other := [name for name, image in wanted.items() if differs(owned[name], image)]:
            message = (
                f"{and_more(other, SHOWN)} has another image: publish a release with another version of node images"
            )
            patch.false(ReleaseCondition.NODE_IMAGES_AS_STATED, Reason.IMAGE_DIFFERS, message)
        elif wanted:
            patch.true(ReleaseCondition.NODE_IMAGES_AS_STATED)
        return _report(patch, owned)

    async def _open(self, patch: StatusPatch, *, known: bool) -> Release | None:
        """Return the release of this name; None until it is downloaded.

        ``known`` says that its images are: then a restart without cached releases downloads nothing.
        """
        name, manifest = parse_release(patch.key.name), self.releases.get(patch.key)
        if manifest is None or not mapping(manifest, "metadata", "annotations").get(DIGEST_ANNOTATION):
            return None
        stored = await self.fetcher.stored(manifest, name)
        if stored is not None or known:
            return stored
        fetched = await self.fetcher.fetch(patch.key, manifest, name)
        return fetched.release if fetched else None

    async def _ensure(self, patch: StatusPatch, name: str, image: Manifest) -> Manifest:
        """Return an OpenStackNodeImageRelease, which this object owns; its image is set when it is created."""
        kind, release = OpenStackKind.NODE_IMAGE, patch.manifest
        resource = await self.reads.resource(kind.group, kind)
        live = await self.reads.find(resource, name, patch.key.namespace)
        if live is not None and patch.key.name in owners(live):
            return live
        patch.require_live()
        manifest = {"apiVersion": resource.api_version, "kind": kind.value, "metadata": owned_by(release, name)}
        if live is None:
            manifest["spec"] = {"identityRef": mapping(release, "spec", "identityRef"), "image": image}
            patch.announce(release, "Normal", EventReason.NODE_IMAGE_CREATED, f"created {kind} {name}")
        # Each owner is a manager of its own reference.
        manager = f"{FIELD_MANAGER}-{release['metadata']['uid']}"
        applied = await self.client.apply(resource, manifest, manager=manager, force=True)
        self.reads.written(applied, kind.group)
        return applied


def _report(patch: StatusPatch, images: dict[str, Manifest]) -> Outcome:
    pending = {name: one for name, one in images.items() if mapping(one, "status").get("ready") is not True}
    patch.status["ready"] = not pending
    if not pending:
        patch.reached(OpenStackCondition.IMAGES_READY, "the node images are ready")
        return Settled(RECHECK)
    waits = [f"{name}: {condition_view(one, READY_CONDITION).message}" for name, one in sorted(pending.items())]
    message = and_more(waits, SHOWN, separator="; ")
    patch.false(OpenStackCondition.IMAGES_READY, Reason.PROCESS_ONGOING, message, Severity.INFO)
    return Waiting(Reason.PROCESS_ONGOING, message, RECHECK)
