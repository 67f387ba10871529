"""Carries out an OpenStackClusterStackRelease: one OpenStackNodeImageRelease for each image of node-images.yaml."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from clusterstacks.deliver.apply.orc_images import DEFAULT_CLOUD, orc_images
from clusterstacks.model.conditions import Severity
from clusterstacks.model.documents import and_more, mapping, mappings, text
from clusterstacks.model.errors import SpecError
from clusterstacks.model.files.definitions import write
from clusterstacks.model.files.node_images import FILE
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
from clusterstacks.operator.controllers.clusterstackrelease.image_wait import RECHECK, SHOWN

if TYPE_CHECKING:
    from clusterstacks.model.objects import Manifest
    from clusterstacks.net.kube.client import Client
    from clusterstacks.operator.controllers.object_reader import CachedReader
    from clusterstacks.operator.controllers.status_reconciler import StatusPatch
    from clusterstacks.release.release import Release
    from clusterstacks.release.sources.fetcher import ReleaseFetcher
    from clusterstacks.runtime.cache import ObjectCache

IDENTITY: Final = {"kind": "Secret", "name": DEFAULT_CLOUD}
"""Default of identityRef, for an object without a spec."""


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


@dataclass(frozen=True, slots=True, kw_only=True)
class ReleaseReconciler:
    """Creates the OpenStackNodeImageReleases of a release that the operator has, and waits for them."""

    client: Client
    reads: CachedReader
    fetcher: ReleaseFetcher
    releases: ObjectCache
    images: ObjectCache

    async def work(self, patch: StatusPatch) -> Outcome | None:
        """Reconcile one object; the garbage collector deletes an OpenStackNodeImageRelease with its last owner."""
        if patch.deleting:
            return None
        same = [one for one in self.images.all() if one["metadata"]["namespace"] == patch.key.namespace]
        owned = {one["metadata"]["name"]: one for one in same if patch.key.name in owners(one)}
        with patch.failing_condition(OpenStackCondition.ASSETS_READY, Reason.ISSUE_WITH_RELEASE):
            release = await self._open(patch, known=bool(owned) and patch.holds(OpenStackCondition.ASSETS_READY))
            wanted = node_images(release) if release else {}
        if not wanted and not owned:
            message = f"ClusterStackRelease {patch.key} is being downloaded"
            patch.false(OpenStackCondition.ASSETS_READY, Reason.RELEASE_NOT_DOWNLOADED_YET, message, Severity.INFO)
            return Waiting(Reason.RELEASE_NOT_DOWNLOADED_YET, message, RECHECK)
        for name, image in wanted.items():
            owned[name] = await self._ensure(patch, name, image)
        patch.reached(OpenStackCondition.ASSETS_READY, "the release is downloaded")
        patch.true(ReleaseCondition.ASSETS_CLIENT_AVAILABLE)
        if other := [name for name, image in wanted.items() if differs(owned[name], image)]:
            message = (
                f"{and_more(other, SHOWN)}: it was created for another image, which stays: publish a release with "
            )
            message += "another version of node images"
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
        """Return an OpenStackNodeImageRelease, which this object owns; it is created once and not changed."""
        kind, release = OpenStackKind.NODE_IMAGE, patch.manifest
        resource = await self.reads.resource(kind.group, kind)
        live = await self.reads.find(resource, name, patch.key.namespace)
        if live is not None and patch.key.name in owners(live):
            return live
        patch.require_live()
        owner = {key: release[key] for key in ("apiVersion", "kind")}
        owner |= {key: release["metadata"][key] for key in ("name", "uid")}
        metadata = {"name": name, "ownerReferences": [*mappings(live or {}, "metadata", "ownerReferences"), owner]}
        if live is None:
            spec = {"identityRef": mapping(release, "spec", "identityRef") or IDENTITY, "image": image}
            manifest = {"apiVersion": resource.api_version, "kind": kind.value, "metadata": metadata, "spec": spec}
            live = await self.client.create(resource, manifest, patch.key.namespace)
            patch.announce(release, "Normal", EventReason.NODE_IMAGE_CREATED, f"created {kind} {name}")
        else:
            metadata["resourceVersion"] = live["metadata"]["resourceVersion"]
            live = await self.client.merge_patch(resource, name, {"metadata": metadata}, patch.key.namespace)
        self.reads.written(live, kind.group)
        return live


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
