"""Copies a release with its signatures to another registry or an image layout, byte for byte."""

from __future__ import annotations

import asyncio
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

from clusterstacks.model import yaml
from clusterstacks.model.errors import SpecError
from clusterstacks.model.files.node_images import FILE as NODE_IMAGES
from clusterstacks.model.files.node_images import read_node_images
from clusterstacks.model.names import parse_release
from clusterstacks.net.http.errors import AnswerRefused, NotThere
from clusterstacks.net.oci.errors import ContentCorrupt, ManifestInvalid
from clusterstacks.net.oci.registry import Registry
from clusterstacks.net.oci.transfers import BLOBS_AT_ONCE
from clusterstacks.release.errors import ReleaseTaken
from clusterstacks.release.release_source import MAX_FILE_BYTES
from clusterstacks.release.sources.image_artifact import image_tag
from clusterstacks.release.sources.oci_signatures import cosign_tag
from clusterstacks.runtime.concurrency import gather

if TYPE_CHECKING:
    from collections.abc import Iterator

    from clusterstacks.net.oci.descriptor import Descriptor
    from clusterstacks.net.oci.manifests import Manifest
    from clusterstacks.release.sources.image_layout import ImageLayout

MAX_BLOB_BYTES = 16 * 1024 * 1024 * 1024
"""Largest blob that is copied (arbitrary: a disk should have room for it)."""

_COSIGN_KINDS = ("sig", "att", "sbom")

Repository: TypeAlias = "Registry | ImageLayout"
"""Where releases are copied from and to: a repository of a registry, or a directory."""


@dataclass(frozen=True, slots=True)
class Copied:
    """The result of a copy."""

    digest: str
    new: bool
    """Whether the target did not have it before."""
    signatures: int
    """Copied referrers and cosign tags; a tag that would remove signatures in the target is skipped."""
    problems: tuple[str, ...] = ()
    """Referrers and tags that could not be read in the source, and were skipped."""


async def copy(source: Repository, wanted: str, target: Repository, tag: str) -> Copied:
    """Copy the manifest under a tag or digest, its blobs, the node images it names, its referrers and cosign's tags.

    The tag is written last, when the signatures exist. Existing content is not sent again.

    Raises:
        ReleaseTaken: The tag has another manifest in the target.
        NotThere: The source has no such manifest.
        SpecError: It is not an image manifest, for example an index.
    """
    manifest = await source.manifest(wanted)
    manifest.require_image()
    present = await target.head(tag)
    if present not in (None, manifest.digest):
        raise ReleaseTaken(target.place(tag), f"manifest {present}, not {manifest.digest}")
    carrier = _Carrier(source, target, [])
    for digest in await _image_digests(source, manifest, tag):
        await carrier.carry_image(digest)
    await carrier.carry(manifest, manifest.digest)
    signatures = await carrier.carry_signatures(manifest.digest)
    if present is None:
        await target.push_manifest(manifest.raw, manifest.media_type, tag)
    return Copied(manifest.digest, present is None, signatures, tuple(carrier.problems))


async def _image_digests(source: Repository, manifest: Manifest, release: str) -> tuple[str, ...]:
    """Return the digests of the node images that are published with a release; none if their list is not valid."""
    listed = next((layer for layer in manifest.layers if layer.title == NODE_IMAGES), None)
    if listed is None or listed.size > MAX_FILE_BYTES:
        return ()
    async with source.blob_file(listed) as file:
        content = await asyncio.to_thread(file.read_bytes)
    with suppress(SpecError):  # the operator reports it
        document = yaml.load(content, name=NODE_IMAGES)
        return read_node_images(document, parse_release(release).provider, released=True).artifacts
    return ()


@dataclass(frozen=True, slots=True)
class _Carrier:
    source: Repository
    target: Repository
    problems: list[str]

    async def carry_image(self, digest: str) -> None:
        """Copy the artifact of a node image unless the target has it."""
        tag = image_tag(digest)
        manifest = await self.source.manifest(tag)
        if await self.target.head(tag) != manifest.digest:
            await self.carry(manifest, tag)

    async def carry_signatures(self, digest: str) -> int:
        """Copy the referrers and cosign tags of a manifest; return their number.

        Everyone who may push can add some: those that cannot be read are skipped and reported. Too many are refused.
        """
        listed = await self.source.referrers(digest)
        if not listed.complete:
            raise ManifestInvalid(listed.problems[0])
        self.problems.extend(listed.problems)
        count = 0
        for referrer in listed.members:
            with self._noting(f"referrer {referrer.digest}"):
                count += await self._carry_referrer(referrer.digest, digest)
        for kind in _COSIGN_KINDS:
            name = cosign_tag(digest, kind)
            with self._noting(name):
                count += await self._carry_tag(name)
        return count

    @contextmanager
    def _noting(self, label: str) -> Iterator[None]:
        try:
            yield
        except (SpecError, NotThere, ContentCorrupt) as error:
            self.problems.append(f"{label}: {error.message}")

    async def _carry_referrer(self, referrer: str, digest: str) -> bool:
        manifest = await self.source.manifest(referrer)
        # A registry may list referrers of another manifest, which must not be copied.
        belongs = manifest.subject is not None and manifest.subject.digest == digest
        if belongs:
            await self.carry(manifest, referrer)
        return belongs

    async def _carry_tag(self, name: str) -> bool:
        if await self.source.head(name) is None:
            return False
        manifest = await self.source.manifest(name)
        carried = await self._loses_nothing(name, manifest)
        if carried:
            await self.carry(manifest, name)
        return carried

    async def _loses_nothing(self, tag: str, manifest: Manifest) -> bool:
        """Return whether the new manifest contains all signatures of a cosign tag in the target.

        Cosign stores all signatures in one manifest, so a signature made in the target would be lost.
        """
        if await self.target.head(tag) is None:
            return True
        layers = manifest.layers  # with annotations: all signatures are over the same bytes
        return all(layer in layers for layer in (await self.target.manifest(tag)).layers)

    async def carry(self, manifest: Manifest, to: str) -> None:
        """Copy one manifest and its blobs; put it under a tag or its digest."""
        manifest.require_image()
        await self._carry_blobs(manifest)
        await self.target.push_manifest(manifest.raw, manifest.media_type, to)

    async def _carry_blobs(self, manifest: Manifest) -> None:
        await gather(self._carry_blob, manifest.blobs, at_once=BLOBS_AT_ONCE)

    async def _carry_blob(self, blob: Descriptor) -> None:
        if blob.size > MAX_BLOB_BYTES:
            raise AnswerRefused(
                self.source.place(blob.digest), f"has a blob of {blob.size} bytes, more than are copied"
            )
        if await self.target.has_blob(blob.digest) or await self._mounted(blob):
            return
        async with self.source.blob_file(blob) as file:
            await self.target.add_blob(blob, file)

    async def _mounted(self, blob: Descriptor) -> bool:
        source, target = self.source, self.target
        if not isinstance(source, Registry) or not isinstance(target, Registry):
            return False
        same = source.reference.registry == target.reference.registry
        return same and await target.mount(blob.digest, source.reference.repository)
