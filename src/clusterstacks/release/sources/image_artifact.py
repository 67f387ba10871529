"""Node images in a registry: each is an OCI artifact of its own, with the file as its only layer.

The digest of the layer is the checksum of the image, so everybody who knows the checksum can read the blob. The tag is
made from the digest, and keeps the blob when the registry removes what no manifest refers to.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from clusterstacks.net.oci.blob_upload import digest_file
from clusterstacks.net.oci.descriptor import EMPTY, EMPTY_TYPE, TITLE, Descriptor, describe
from clusterstacks.net.oci.manifests import OCI_MANIFEST, write_manifest
from clusterstacks.release.errors import image_unusable

if TYPE_CHECKING:
    from pathlib import Path

    from clusterstacks.net.oci.registry import Registry

ARTIFACT_TYPE: Final = "application/vnd.clusterstack.node-image.v1"
IMAGE_TAG: Final = "node-image-"
"""Prefix of the tags."""


def image_tag(digest: str) -> str:
    """Return the tag of a node image: half of its digest."""
    return f"{IMAGE_TAG}{digest.removeprefix('sha256:')[:32]}"


async def publish_image(registry: Registry, file: Path, digest: str) -> bool:
    """Publish the file of a node image; return whether the registry did not have it.

    Raises:
        SpecError: The file is missing or has another digest.
    """
    tag = image_tag(digest)
    if await registry.head(tag) is not None:
        layers = (await registry.manifest(tag)).layers
        if [layer.digest for layer in layers] == [digest] and await registry.has_blob(digest):
            return False
    try:
        found, size = await digest_file(file)
    except FileNotFoundError:
        raise image_unusable(file, "does not exist") from None
    if found != digest:
        raise image_unusable(file, f"has the digest {found}")
    layer = Descriptor(ARTIFACT_TYPE, digest, size, {TITLE: file.name})
    await registry.push_blob(EMPTY)
    if not await registry.has_blob(digest):
        await registry.add_blob(layer, file)
    raw = write_manifest(artifact_type=ARTIFACT_TYPE, layers=[layer], config=describe(EMPTY, EMPTY_TYPE))
    await registry.push_manifest(raw, OCI_MANIFEST, tag)
    return True
