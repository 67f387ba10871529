"""An OCI image layout into a registry: the image, and the lists of what is in it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import orjson

from clusterstacks.model.errors import SpecError
from clusterstacks.net.oci.manifests import OCI_INDEX, read_manifest
from clusterstacks.net.oci.transfers import BLOBS_AT_ONCE
from clusterstacks.release.signing.attestation import SBOM, write_statement
from clusterstacks.release.signing.envelope import PAYLOAD_TYPE
from clusterstacks.runtime.concurrency import gather
from tools.image.layout import NAME, REF_NAME

if TYPE_CHECKING:
    from pathlib import Path

    from clusterstacks.net.oci.descriptor import Descriptor
    from clusterstacks.net.oci.manifests import Manifest
    from clusterstacks.net.oci.reference import Reference
    from clusterstacks.net.oci.registry import Registry


@dataclass(frozen=True, slots=True)
class Stored:
    """An image layout on disk.

    Args:
        folder: Its directory.
        tag: Name of the image in it.
        index: The index of the image, by architecture.
        referrers: Manifests that belong to its images.
    """

    folder: Path
    tag: str
    index: Manifest
    referrers: tuple[Manifest, ...]

    def content(self, blob: Descriptor) -> Path:
        """Return the file of a blob."""
        return self.folder / "blobs" / "sha256" / blob.hex

    def manifest(self, one: Descriptor) -> Manifest:
        """Read a manifest.

        Raises:
            SpecError: Its bytes are not those of the digest.
            OSError: It cannot be read.
        """
        return _read(self.folder, one)

    def statements(self) -> list[tuple[str, bytes]]:
        """Return what to attest: digests, and in-toto Statements about them, the provenance of each and their SBOMs.

        Raises:
            OSError: It cannot be read.
        """
        found = []
        for referrer in self.referrers:
            content, subject = self.content(referrer.layers[0]).read_bytes(), referrer.subject
            if referrer.artifact_type == PAYLOAD_TYPE:
                digests = (self.index.digest, *(image.digest for image in self.index.manifests))
                found += [(digest, content) for digest in digests]
            elif subject is not None:
                found.append((subject.digest, write_statement(SBOM, [(NAME, subject.digest)], orjson.loads(content))))
        return found


def open_layout(folder: Path) -> Stored:
    """Read a layout that ``make image`` wrote.

    Raises:
        SpecError: It is missing or damaged.
        OSError: It cannot be read.
    """
    entry = folder / "index.json"
    if not entry.is_file():
        raise SpecError("NoLayout", f"{folder} has no image: build it with 'make image'")
    listed = read_manifest(entry.read_bytes(), OCI_INDEX, str(entry)).manifests
    named = next((one for one in listed if REF_NAME in one.annotations), None)
    if named is None:
        raise SpecError("LayoutUnusable", f"{entry} names no image: build it again with 'make image'")
    referrers = tuple(_read(folder, one) for one in listed if one is not named)
    return Stored(folder, named.annotations[REF_NAME], _read(folder, named), referrers)


def _read(folder: Path, one: Descriptor) -> Manifest:
    found = read_manifest((folder / "blobs" / "sha256" / one.hex).read_bytes(), one.media_type, str(folder))
    if found.digest != one.digest:
        raise SpecError("LayoutUnusable", f"{folder}: blob {one.digest} is damaged: build it again with 'make image'")
    return found


async def push(stored: Stored, registry: Registry, tag: str) -> Reference:
    """Push an image with its referrers; the tag appears last. A blob that is there already is not sent again.

    Returns:
        The image with tag and digest.

    Raises:
        DependencyError: The registry fails.
        OSError: The layout cannot be read.
    """
    images = [stored.manifest(one) for one in stored.index.manifests]
    for manifest in (*images, *stored.referrers):
        blobs = {blob.digest: blob for blob in (manifest.config, *manifest.layers)}
        await gather(
            lambda blob: registry.push_blob(stored.content(blob), title=_name(blob)),
            blobs.values(),
            at_once=BLOBS_AT_ONCE,
        )
        await registry.push_manifest(manifest.raw, manifest.media_type)
    digest = await registry.push_manifest(stored.index.raw, stored.index.media_type, tag)
    return replace(registry.reference, tag=tag, digest=digest)


def _name(blob: Descriptor) -> str:
    return blob.title or f"blob {blob.hex[:12]}"
