"""Descriptors of blobs and manifests (image-spec ``descriptor.md``)."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from clusterstacks.model.digests import sha256_digest
from clusterstacks.net.oci.reference import is_sha256

if TYPE_CHECKING:
    from collections.abc import Mapping

    from clusterstacks.model.documents import Node

TITLE = "org.opencontainers.image.title"
EMPTY_TYPE = "application/vnd.oci.empty.v1+json"
EMPTY = b"{}"


@dataclass(frozen=True, slots=True)
class Descriptor:
    """A reference to content, with its type, digest (``sha256:<hex>``) and size in bytes."""

    media_type: str
    digest: str
    size: int
    annotations: Mapping[str, str] = field(default_factory=dict)
    artifact_type: str = ""
    """Artifact type of a manifest in an index."""

    @property
    def title(self) -> str:
        """The file's name; empty when the manifest has none."""
        return self.annotations.get(TITLE, "")

    @property
    def hex(self) -> str:
        """The digest without its algorithm."""
        return self.digest.removeprefix("sha256:")

    def document(self) -> dict[str, Any]:
        """Return the JSON form that manifests contain."""
        document: dict[str, Any] = {"mediaType": self.media_type, "digest": self.digest, "size": self.size}
        if self.media_type == EMPTY_TYPE:
            document["data"] = "e30="  # the two bytes, as the library of csctl in Go writes them
        if self.annotations:
            document["annotations"] = dict(self.annotations)
        if self.artifact_type:
            document["artifactType"] = self.artifact_type
        return document


def describe(content: bytes, media_type: str) -> Descriptor:
    """Return a descriptor with the digest and size of some bytes."""
    return Descriptor(media_type, digest_of(content), len(content))


def digest_of(content: bytes) -> str:
    """Return ``sha256:<hex>``."""
    return sha256_digest(content)


def digest_tag(digest: str) -> str:
    """Return the tag with the referrers of a manifest (distribution-spec, "Referrers Tag Schema")."""
    return digest.replace(":", "-", 1)


def parse_descriptor(node: Node) -> Descriptor:
    """Parse a descriptor; raise DocumentError if it violates the image-spec or its digest is not sha256."""
    digest = node.child("digest")
    if not is_sha256(digest.value):
        raise digest.refuse("only digests of the form sha256:<64 hex digits> can be verified; push it again with one")
    size = node.child("size")
    if not isinstance(size.value, int) or isinstance(size.value, bool) or size.value < 0:
        raise size.refuse("write the number of bytes")
    annotations = node.child("annotations")
    words = {} if annotations.value is None else annotations.mapping()
    texts = {key: value for key, value in words.items() if isinstance(key, str) and isinstance(value, str)}
    return Descriptor(
        node.child("mediaType").text(),
        digest.text(),
        size.value,
        texts,
        node.child("artifactType").optional_text(),
    )
