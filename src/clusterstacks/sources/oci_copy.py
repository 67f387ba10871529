"""A release with its signatures into another repository, byte for byte: for sites without a way out."""

from __future__ import annotations

import tempfile
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from clusterstacks.domain.errors import SpecError
from clusterstacks.http.errors import AnswerRefused, NotThere
from clusterstacks.oci.errors import ContentCorrupt, ManifestInvalid
from clusterstacks.oci.transfers import BLOBS_AT_ONCE
from clusterstacks.releases.errors import ReleaseTaken
from clusterstacks.runtime.concurrency import gather
from clusterstacks.sources.oci_signatures import cosign_tag

if TYPE_CHECKING:
    from collections.abc import Iterator

    from clusterstacks.oci.descriptor import Descriptor
    from clusterstacks.oci.manifests import Manifest
    from clusterstacks.oci.registry import Registry

MAX_BLOB_BYTES = 16 * 1024 * 1024 * 1024
"""Largest blob copied (arbitrary: what a disk should have room for)."""

_COSIGN_KINDS = ("sig", "att", "sbom")


@dataclass(frozen=True, slots=True)
class Copied:
    """What a copy came to.

    Args:
        digest: Of the manifest, here and there.
        new: Whether it was not there before.
        signatures: How many referrers and cosign tags came with it; not what would take a signature of the target away.
        problems: What of that could not be read at the source, and was left out.
    """

    digest: str
    new: bool
    signatures: int
    problems: tuple[str, ...] = ()


async def copy(source: Registry, wanted: str, target: Registry, tag: str) -> Copied:
    """Copy the manifest under a tag or digest, its blobs, its referrers and cosign's tags.

    The tag appears last, so whoever sees it finds the signatures. What is there already is not sent again.

    Args:
        source: Where from.
        wanted: Tag or digest there.
        target: Where to.
        tag: What it is called there.

    Raises:
        ReleaseTaken: The tag has another manifest there.
        NotThere: There is nothing to copy.
        ManifestUnsupported: It is no image manifest, e.g. an index.
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


@dataclass(frozen=True, slots=True)
class _Carrier:
    source: Registry
    target: Registry
    problems: list[str]

    async def carry_signatures(self, digest: str) -> int:
        """Copy what belongs to a manifest; return how many it were.

        Anyone who may push may add to it: what cannot be read is left out with its problem.

        Raises:
            ManifestInvalid: There is too much of it.
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
        # A registry may list what belongs to something else, which would vouch for that in the target.
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
        """Whether all that cosign keeps under a tag of the target is in the new manifest, too.

        Cosign keeps all signatures in one manifest, so one made in the target would be gone.
        """
        if await self.target.head(tag) is None:
            return True
        layers = manifest.layers  # whole, as all signatures are over the same bytes and stand in annotations
        return all(layer in layers for layer in (await self.target.manifest(tag)).layers)

    async def carry(self, manifest: Manifest, to: str) -> None:
        """Copy one manifest and its blobs; put it under a tag or its digest."""
        manifest.require_image()
        blobs = {blob.digest: blob for blob in (manifest.config, *manifest.layers)}
        await gather(self._carry_blob, blobs.values(), at_once=BLOBS_AT_ONCE)
        await self.target.push_manifest(manifest.raw, manifest.media_type, to)

    async def _carry_blob(self, blob: Descriptor) -> None:
        if blob.size > MAX_BLOB_BYTES:
            raise AnswerRefused(self.source.reference.place, f"has a blob of {blob.size} bytes, which is not copied")
        if await self.target.has_blob(blob.digest) or await self._mounted(blob):
            return
        with tempfile.TemporaryDirectory(prefix="csctl-copy-") as scratch:
            file = Path(scratch, "blob")
            await self.source.blob(blob, file)
            await self.target.push_blob(file, title=blob.title)

    async def _mounted(self, blob: Descriptor) -> bool:
        here, there = self.source.reference, self.target.reference
        return here.registry == there.registry and await self.target.mount(blob.digest, here.repository)
