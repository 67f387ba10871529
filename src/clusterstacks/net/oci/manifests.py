"""Manifests: parsed, written, pulled and pushed, always with their exact bytes."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import orjson

from clusterstacks.model.bounded_json import decode_object
from clusterstacks.model.documents import Node, shown
from clusterstacks.net.http.errors import AnswerRefused
from clusterstacks.net.oci.descriptor import Descriptor, digest_of, parse_descriptor
from clusterstacks.net.oci.errors import ContentCorrupt, ManifestInvalid, manifest_unsupported
from clusterstacks.net.oci.reference import is_sha256
from clusterstacks.net.oci.session import PUSH, registry_error

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from clusterstacks.net.oci.session import Session

OCI_MANIFEST = "application/vnd.oci.image.manifest.v1+json"
OCI_INDEX = "application/vnd.oci.image.index.v1+json"
DOCKER_MANIFEST = "application/vnd.docker.distribution.manifest.v2+json"
DOCKER_LIST = "application/vnd.docker.distribution.manifest.list.v2+json"

ACCEPT = f"{OCI_MANIFEST}, {OCI_INDEX}, {DOCKER_MANIFEST}, {DOCKER_LIST}"
"""All types are accepted, so that messages can name the type of other content."""

MAX_MANIFEST_BYTES = 4 * 1024 * 1024
"""Largest manifest (distribution-spec: registries should take at least this much, and may refuse more)."""

MAX_BLOBS = 200
"""Most layers of a manifest read (arbitrary; twice the files of a release)."""


@dataclass(frozen=True, slots=True)
class Manifest:
    """A manifest or index."""

    raw: bytes = field(repr=False)
    """Its exact bytes, which ``digest`` is computed from."""
    digest: str
    media_type: str
    document: Mapping[str, Any] = field(repr=False)
    place: str
    """Origin for messages."""

    @property
    def descriptor(self) -> Descriptor:
        """The descriptor that an index or a referrer contains."""
        return Descriptor(self.media_type, self.digest, len(self.raw))

    @property
    def artifact_type(self) -> str:
        """The artifact type; before image-spec 1.1 the config's media type."""
        return self._node.child("artifactType").optional_text() or (
            self.config.media_type if self.media_type == OCI_MANIFEST else ""
        )

    @property
    def config(self) -> Descriptor:
        """The config blob, in a manifest of an image."""
        return parse_descriptor(self._node.child("config"))

    @property
    def layers(self) -> tuple[Descriptor, ...]:
        """The layers; raises ManifestInvalid if there are too many, or one violates the image-spec."""
        items = self._node.child("layers").items()
        if len(items) > MAX_BLOBS:
            raise ManifestInvalid(
                f"{self.place}: layers has more than {MAX_BLOBS} members: publish it in smaller parts"
            )
        return tuple(parse_descriptor(item) for item in items)

    @property
    def manifests(self) -> tuple[Descriptor, ...]:
        """The members of an index, however many. Raises as ``layers``, but for their number."""
        return tuple(parse_descriptor(item) for item in self._node.child("manifests").items())

    @property
    def blobs(self) -> tuple[Descriptor, ...]:
        """Config and layers of an image, each once. Raises as ``layers``."""
        return tuple({blob.digest: blob for blob in (self.config, *self.layers)}.values())

    @property
    def annotations(self) -> Mapping[str, str]:
        """Annotations, without values that are not strings."""
        node = self._node.child("annotations")
        words = {} if node.value is None else node.mapping()
        return {key: word for key, word in words.items() if isinstance(key, str) and isinstance(word, str)}

    @property
    def subject(self) -> Descriptor | None:
        """The manifest that this one refers to; None without one."""
        node = self._node.child("subject")
        return None if node.value is None else parse_descriptor(node)

    def require_image(self) -> None:
        """Raise SpecError unless it is an OCI image manifest, as every release is."""
        what = {
            OCI_INDEX: "is an image index",
            DOCKER_LIST: "is a list of Docker images",
            DOCKER_MANIFEST: "is a Docker image",
        }.get(self.media_type)
        if self.media_type != OCI_MANIFEST:
            problem = what or "has an unknown type"
            raise manifest_unsupported(self.place, f"{problem}, not a release: name one that csctl push published")

    @property
    def _node(self) -> Node:
        return Node(self.document, self.place, error=ManifestInvalid)


def read_manifest(raw: bytes, media_type: str, place: str) -> Manifest:
    """Parse a manifest or index; the type in the document has precedence over that in the server's answer.

    Raises ManifestInvalid if it is not a manifest, and SpecError if it has the format before 2016.
    """
    document = decode_object(raw)
    if document is None:
        raise ManifestInvalid(f"{place} is not a manifest, because it is not a JSON object: check the address")
    if document.get("schemaVersion") != 2:
        raise manifest_unsupported(place, "is a manifest of another version than 2: publish it again with a newer tool")
    own = document.get("mediaType") or media_type.partition(";")[0].strip()
    return Manifest(raw, digest_of(raw), own if isinstance(own, str) else "", document, place)


def write_manifest(
    *,
    artifact_type: str,
    layers: Sequence[Descriptor],
    config: Descriptor,
    subject: Descriptor | None = None,
    annotations: Mapping[str, str] | None = None,
) -> bytes:
    """Write an image manifest (image-spec 1.1 ``manifest.md``); the same arguments give the same bytes."""
    document: dict[str, Any] = {"schemaVersion": 2, "mediaType": OCI_MANIFEST, "artifactType": artifact_type}
    document["config"] = config.document()
    document["layers"] = [layer.document() for layer in layers]
    if subject is not None:
        document["subject"] = subject.document()
    if annotations:
        document["annotations"] = dict(sorted(annotations.items()))
    return orjson.dumps(document)


def write_index(members: Sequence[object]) -> bytes:
    """Write an image index; ``members`` are descriptors as JSON values."""
    return orjson.dumps({"schemaVersion": 2, "mediaType": OCI_INDEX, "manifests": members})


DIGEST_HEADER = "Docker-Content-Digest"
SUBJECT_HEADER = "OCI-Subject"


async def find_digest(session: Session, target: str) -> str | None:
    """Return the digest of a manifest by tag or digest; None when it does not exist."""
    async with session.open("HEAD", f"manifests/{target}", headers={"Accept": ACCEPT}) as answer:
        if answer.status == 404:
            return None
        if answer.status != 200:
            raise await registry_error(answer)
        stated = answer.headers.get(DIGEST_HEADER, "")
    # The header is optional: without it the manifest is read.
    return stated if is_sha256(stated) else (await get_manifest(session, target)).digest


async def get_manifest(session: Session, target: str, limit: int = MAX_MANIFEST_BYTES) -> Manifest:
    """Pull a manifest of at most ``limit`` bytes and verify it; see ``Registry.manifest``."""
    place = str(session.reference.at(target))
    document = await session.read(f"manifests/{target}", limit=limit, headers={"Accept": ACCEPT})
    digest = digest_of(document.body)
    stated = document.headers.get(DIGEST_HEADER, digest)
    for expected in (target, stated) if ":" in target else (stated,):
        if not is_sha256(expected):
            raise AnswerRefused(place, f"has the digest {shown(expected)}, and only sha256 can be verified")
        if expected != digest:
            raise ContentCorrupt(place, expected=expected, found=digest)
    return read_manifest(document.body, document.headers.get("Content-Type", ""), place)


async def put_manifest(session: Session, raw: bytes, media_type: str, target: str) -> Mapping[str, str]:
    """Push a manifest by tag or digest; return the headers of the answer.

    Raises ContentCorrupt if the registry reports another digest.
    """
    digest = digest_of(raw)
    async with session.open(
        "PUT", f"manifests/{target}", access=PUSH, headers={"Content-Type": media_type}, body=raw
    ) as answer:
        if answer.status not in (200, 201, 202):
            raise await registry_error(answer)
        stated = answer.headers.get(DIGEST_HEADER, digest)
        if is_sha256(stated) and stated != digest:
            raise ContentCorrupt(session.reference.at(target), expected=digest, found=stated)
        return answer.headers
