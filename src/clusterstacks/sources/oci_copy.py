"""Copies a release with its signatures into another repository, byte for byte, for example for air-gapped sites."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from clusterstacks.domain.errors import SpecError
from clusterstacks.http.errors import AnswerRefused, NotThere
from clusterstacks.oci.errors import ContentCorrupt, ManifestInvalid
from clusterstacks.oci.transfers import BLOBS_AT_ONCE
from clusterstacks.releases.errors import ReleaseTaken
from clusterstacks.runtime.concurrency import gather
from clusterstacks.sources.oci_signatures import cosign_tag

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

    from clusterstacks.oci.descriptor import Descriptor
    from clusterstacks.oci.image_repository import ImageRepository
    from clusterstacks.oci.manifests import Manifest

MAX_BLOB_BYTES = 16 * 1024 * 1024 * 1024
"""Largest blob that is copied (arbitrary: a disk should have room for it)."""

MAX_INDEX_DEPTH = 2
"""Deepest nesting of indexes (arbitrary: build tools write one index)."""

MAX_IMAGE_MANIFESTS = 1000
"""Most manifests of an image (arbitrary: a build for every platform, each with its attestation, has about 40)."""

_COSIGN_KINDS = ("sig", "att", "sbom")


@dataclass(frozen=True, slots=True)
class Copied:
    """The result of a copy.

    Args:
        digest: Digest of the manifest.
        new: Whether the target did not have it before.
        signatures: Number of copied referrers and cosign tags; a tag that would remove signatures in the target is
            skipped.
        problems: Referrers and tags that could not be read in the source, and were skipped.
    """

    digest: str
    new: bool
    signatures: int
    problems: tuple[str, ...] = ()


async def copy(source: ImageRepository, wanted: str, target: ImageRepository, tag: str) -> Copied:
    """Copy the manifest under a tag or digest, its blobs, its referrers and cosign's tags.

    The tag is written last, when the signatures exist. Existing content is not sent again.

    Args:
        source: The source repository.
        wanted: Tag or digest in the source.
        target: The target repository.
        tag: Tag in the target.

    Raises:
        ReleaseTaken: The tag has another manifest in the target.
        NotThere: The source has no such manifest.
        ManifestUnsupported: It is not an image manifest, for example an index.
        DependencyError: A registry fails.
    """
    manifest = await source.manifest(wanted)
    manifest.require_image()
    there = await target.head(tag)
    if there not in (None, manifest.digest):
        raise ReleaseTaken(target.reference.at(tag), f"manifest {there}, not {manifest.digest}")
    carrier = _Carrier(source, target, [])
    await carrier.carry(manifest, manifest.digest)
    signatures = await carrier.carry_signatures(manifest.digest)
    if there is None:
        await target.push_manifest(manifest.raw, manifest.media_type, tag)
    return Copied(manifest.digest, there is None, signatures, tuple(carrier.problems))


async def copy_image(
    source: ImageRepository, wanted: str, target: ImageRepository, to: str, *, signatures: bool = False
) -> Copied:
    """Copy a container image, for all its platforms; a tag with another image is replaced.

    Args:
        source: The source repository.
        wanted: Tag or digest in the source.
        target: The target repository.
        to: Tag or digest in the target.
        signatures: Whether referrers and cosign's tags are copied.

    Raises:
        NotThere: The source has no such manifest.
        SpecError: A manifest is not valid.
        DependencyError: A registry fails.
    """
    manifest = await source.manifest(wanted)
    there = await target.head(to)
    carrier = _Carrier(source, target, [])
    if there != manifest.digest:
        await carrier.carry_image(manifest, to)
    copied = await carrier.carry_signatures(manifest.digest) if signatures else 0
    return Copied(manifest.digest, there != manifest.digest, copied, tuple(carrier.problems))


async def image_sizes(source: ImageRepository, wanted: str) -> dict[str, int]:
    """Return the sizes of the manifests and blobs of an image for all its platforms, by digest.

    Raises:
        As :func:`copy_image`.
    """
    sizes = dict[str, int]()
    async for one in _manifests_of(source, await source.manifest(wanted)):
        sizes |= {one.digest: len(one.raw)} | {blob.digest: blob.size for blob in one.blobs}
    return sizes


async def _manifests_of(
    source: ImageRepository, manifest: Manifest, seen: set[str] | None = None, depth: int = 0
) -> AsyncIterator[Manifest]:
    """Yield the manifests of an image, each once: the members of an index before it, as registries require."""
    seen = set() if seen is None else seen
    seen.add(manifest.digest)
    if depth > MAX_INDEX_DEPTH or len(seen) > MAX_IMAGE_MANIFESTS:
        problem = f"indexes are nested deeper than {MAX_INDEX_DEPTH}, or have more than {MAX_IMAGE_MANIFESTS} members"
        raise ManifestInvalid(f"{manifest.place}: {problem}: publish the image again")
    for member in manifest.manifests if manifest.is_index else ():
        if member.digest not in seen:
            async for one in _manifests_of(source, await source.manifest(member.digest), seen, depth + 1):
                yield one
    yield manifest


@dataclass(frozen=True, slots=True)
class _Carrier:
    source: ImageRepository
    target: ImageRepository
    problems: list[str]

    async def carry_signatures(self, digest: str) -> int:
        """Copy the referrers and cosign tags of a manifest; return their number.

        Everyone who may push can add some: those that cannot be read are skipped and reported.

        Raises:
            ManifestInvalid: There are too many.
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

    async def carry_image(self, manifest: Manifest, to: str) -> None:
        """Copy an image, or an index with its members."""
        async for one in _manifests_of(self.source, manifest):
            await self._carry_blobs(one)
            await self.target.push_manifest(one.raw, one.media_type, to if one is manifest else one.digest)

    async def carry(self, manifest: Manifest, to: str) -> None:
        """Copy one manifest and its blobs; put it under a tag or its digest."""
        manifest.require_image()
        await self._carry_blobs(manifest)
        await self.target.push_manifest(manifest.raw, manifest.media_type, to)

    async def _carry_blobs(self, manifest: Manifest) -> None:
        await gather(self._carry_blob, manifest.blobs, at_once=BLOBS_AT_ONCE)

    async def _carry_blob(self, blob: Descriptor) -> None:
        if blob.size > MAX_BLOB_BYTES:
            raise AnswerRefused(self.source.reference.place, f"has a blob of {blob.size} bytes, more than are copied")
        if await self.target.has_blob(blob.digest) or await self._mounted(blob):
            return
        async with self.source.blob_file(blob, self.target.scratch) as file:
            await self.target.add_blob(blob, file)

    async def _mounted(self, blob: Descriptor) -> bool:
        here, there = self.source.reference, self.target.reference
        return here.registry == there.registry and await self.target.mount(blob.digest, here.repository)
