"""Publishes a release directory to an OCI repository; the tag is the name of the release."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from clusterstacks.model.errors import SpecError
from clusterstacks.model.names import parse_release
from clusterstacks.net.oci.descriptor import EMPTY
from clusterstacks.net.oci.manifests import OCI_MANIFEST, read_manifest
from clusterstacks.net.oci.transfers import BLOBS_AT_ONCE
from clusterstacks.release.errors import ReleaseBroken, ReleaseTaken
from clusterstacks.release.open import open_directory
from clusterstacks.release.release_source import EnvelopeKind, image_file
from clusterstacks.release.sources.directory import DirectorySource
from clusterstacks.release.sources.image_artifact import publish_image
from clusterstacks.release.sources.oci_artifact import compose, created_at, files_of
from clusterstacks.release.sources.oci_signatures import attach
from clusterstacks.runtime.concurrency import gather

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime
    from pathlib import Path

    from clusterstacks.model.names import ReleaseName
    from clusterstacks.net.oci.descriptor import Descriptor
    from clusterstacks.net.oci.manifests import Manifest
    from clusterstacks.net.oci.reference import Reference
    from clusterstacks.net.oci.registry import Registry

_SHOWN_FILES = 3


@dataclass(frozen=True, slots=True)
class Publication:
    """A release in a registry, published now or before."""

    release: ReleaseName
    reference: Reference
    """Its reference, with tag and digest of the manifest."""
    content: str
    """Digest of its files."""
    new: bool
    """Whether it was not published before."""


async def publish(directory: Path, registry: Registry, created: datetime) -> Publication:
    """Publish a release directory, which has the name of the release; do nothing if the same content is published.

    The release is verified first, and the files of its node images, which are beside it, are published before it.
    ``created`` is the creation time in the manifest.

    Raises:
        ReleaseTaken: The release is already published with other content.
        SpecError: The release is not valid.
        OSError: The directory cannot be read.
    """
    release = await asyncio.to_thread(open_directory, directory)
    tag = release.name.release
    artifact = compose(release, created)
    files = files_of(read_manifest(artifact.raw, OCI_MANIFEST, str(directory)), release.name)
    images = await asyncio.to_thread(release.node_images)
    published = None
    if await registry.head(tag) is not None:
        published = await registry.manifest(tag)
        _compare(published, files, registry.reference.at(tag))
    for digest in images.artifacts if images else ():
        await publish_image(registry, image_file(directory.parent, digest), digest)
    if published is not None:
        return Publication(
            release.name, replace(registry.reference, tag=tag, digest=published.digest), release.digest, new=False
        )
    await registry.push_blob(EMPTY)  # first and alone, so that the others share its token

    async def push_file(layer: Descriptor) -> None:
        if await registry.push_blob(artifact.files[layer.digest], title=layer.title) != layer.digest:
            raise ReleaseBroken(release.name, layer.title, "changed while it was published; publish it again")

    await gather(push_file, {layer.digest: layer for layer in files.values()}.values(), at_once=BLOBS_AT_ONCE)
    digest = await registry.push_manifest(artifact.raw, OCI_MANIFEST, tag)
    return Publication(release.name, replace(registry.reference, tag=tag, digest=digest), release.digest, new=True)


async def publish_with_signatures(
    directory: Path, registry: Registry, environ: Mapping[str, str]
) -> tuple[Publication, int]:
    """Publish a release directory and the envelopes beside it, and return the number of these as well."""
    beside, name = DirectorySource(directory.parent), parse_release(directory.name)
    found = [(kind, envelope) for kind in EnvelopeKind for envelope in (await beside.evidence(name, kind)).envelopes]
    published = await publish(directory, registry, created_at(environ))
    for kind, envelope in found:
        await attach(registry, published.reference.digest, envelope, kind)
    return published, len(found)


def check_tag(reference: Reference, release: ReleaseName) -> None:
    """Refuse a reference with a digest, or with a tag other than that of the release."""
    if reference.digest or reference.tag not in ("", release.release):
        raise SpecError(
            "InvalidReference",
            f"{reference} is not valid for release {release}, whose tag is its name "
            f"(expected {reference.place}, or {reference.place}:{release})",
        )


def _compare(published: Manifest, ours: Mapping[str, Descriptor], place: Reference) -> None:
    # Files are compared and not manifests, because csctl in Go writes its start time into those.
    theirs = files_of(published, place)
    differing = sorted(
        name
        for name in {*ours, *theirs}
        if name not in ours or name not in theirs or ours[name].digest != theirs[name].digest
    )
    if differing:
        more = f" and {len(differing) - _SHOWN_FILES} more" if len(differing) > _SHOWN_FILES else ""
        raise ReleaseTaken(place, f"different: {', '.join(differing[:_SHOWN_FILES])}{more}")
