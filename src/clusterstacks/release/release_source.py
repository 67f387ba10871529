"""Protocol of release sources, the bounds of a release, and its signatures as they are found."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Protocol, runtime_checkable

from clusterstacks.model.digests import sha256_digest

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Collection
    from pathlib import Path

    from clusterstacks.model.names import ReleaseName

MAX_FILES = 100
"""Most files of a release (arbitrary; csctl writes seven)."""

MAX_FILE_BYTES = 64 * 1024 * 1024
"""Largest file of a release (arbitrary; the largest known addon archive has 0.3 MB)."""

MAX_RELEASE_BYTES = 128 * 1024 * 1024
"""Largest release (arbitrary)."""


SIGNATURE_SUFFIX = ".dsse.json"
"""``<release name>.dsse.json`` is beside the release's directory, or among the assets of its GitHub release.

It is not one of the release's files, because it signs those.
"""

STAGES_SUFFIX = ".intoto.jsonl"
"""The same for the statements of stages, one envelope a line (in-toto attestation framework, spec/v1/bundle.md)."""


class EnvelopeKind(StrEnum):
    """What the envelopes of a release are; the value is the key of their digest in the index of a web server."""

    SIGNATURE = "signature"
    STAGES = "stages"

    def file(self, name: ReleaseName) -> str:
        """Return the name of the file with the envelopes of a release."""
        return f"{name.release}{SIGNATURE_SUFFIX if self is EnvelopeKind.SIGNATURE else STAGES_SUFFIX}"

    @property
    def limit(self) -> int:
        """Largest size of such a file."""
        return MAX_SIGNATURE_BYTES if self is EnvelopeKind.SIGNATURE else MAX_EVIDENCE_BYTES

    def read(self, content: bytes) -> Evidence:
        """Return the envelopes of such a file, at most ``MAX_SIGNATURES``."""
        lines = (content,) if self is EnvelopeKind.SIGNATURE else tuple(filter(None, content.splitlines()))
        return Evidence(lines[:MAX_SIGNATURES], complete=len(lines) <= MAX_SIGNATURES)


class ReleaseSource(Protocol):
    """A place where releases are published, each under its name in dash form.

    Every method raises :class:`SourceUnavailable` if the source cannot be read now, and all but :meth:`list` raise
    :class:`ReleaseNotFound` if it has no such release.
    """

    async def list(self) -> tuple[str, ...]:
        """Return the names in the source, sorted; the caller skips those that are not names of releases."""
        ...

    async def digest(self, name: ReleaseName) -> str:
        """Return the digest of the release's files as the source states it, without downloading them.

        It is :func:`~clusterstacks.model.digests.content_digest` of the files; empty when the source does not state
        it.
        """
        ...

    async def evidence(self, name: ReleaseName, kind: EnvelopeKind = EnvelopeKind.SIGNATURE) -> Evidence:
        """Return the signatures of the release, or the statements of stages about it, unverified."""
        ...

    async def read(self, name: ReleaseName, files: Collection[str], limit: int) -> dict[str, bytes]:
        """Return the content of some files, by name, without downloading the release.

        All are of the same state of the release, and each is verified if the source states its digest. Files that the
        release does not contain are left out of the result.

        Raises:
            ReleaseBroken: A file is larger than ``limit`` bytes, or is not a regular file.
        """
        ...

    async def fetch(self, name: ReleaseName, into: Path) -> None:
        """Copy the files of one release into an empty directory, without sub-directories.

        Stays within ``MAX_FILES``, ``MAX_FILE_BYTES`` and ``MAX_RELEASE_BYTES``. The files are not parsed.

        Raises:
            ReleaseBroken: The release is too large, or a file is not a regular file.
        """
        ...


IMAGE_DIRECTORY = "node-images"
"""``node-images/<sha256 in hex>`` beside the directories of releases holds the files of their node images."""


def image_file(releases: Path, digest: str) -> Path:
    """Return the file of a node image beside the directories of releases."""
    return releases / IMAGE_DIRECTORY / digest.removeprefix("sha256:")


@runtime_checkable
class ImageSource(Protocol):
    """A source that also has the files of node images, which are no part of a release: they are too large.

    Both methods raise :class:`NotThere` without such a file, and :class:`SourceUnavailable` if it cannot be read now.
    ``digest`` is ``sha256:<hex>``.
    """

    async def image_size(self, digest: str) -> int:
        """Return the size of a file in bytes."""
        ...

    def image_part(self, digest: str, start: int, length: int) -> AsyncGenerator[bytes]:
        """Yield ``length`` bytes of a file from ``start`` on, unverified, in pieces of at most 1 MiB.

        The caller closes it. It raises :class:`SourceUnavailable` if the rest cannot be read.
        """
        ...


MAX_SIGNATURE_BYTES = 1024 * 1024
"""Largest envelope or manifest read (arbitrary; an envelope for ten files has 3 KB)."""

MAX_EVIDENCE_BYTES = 16 * 1024 * 1024
"""Most bytes of envelopes read, and of payloads that cosign signed.

Arbitrary: 500 envelopes for releases of 100 files, which have 30 KB each. Useless data of that size hides no signature.
"""

MAX_SIGNATURES = 1000
"""Most signatures of one envelope (arbitrary; a key rotation leaves two, but 'csctl pull' merges those of others)."""


@dataclass(frozen=True, slots=True)
class CosignSignature:
    """A signature made by ``cosign sign --key``."""

    payload: bytes
    """The simple-signing document, which contains the digest of the manifest."""
    signature: bytes


@dataclass(frozen=True, slots=True)
class Evidence:
    """The signatures of a release as they were found, unverified."""

    envelopes: tuple[bytes, ...] = ()
    """DSSE envelopes, as JSON."""
    manifest: bytes = b""
    """The OCI manifest of the release, which cosign signs; empty from other sources."""
    cosign: tuple[CosignSignature, ...] = ()
    problems: tuple[str, ...] = ()
    """The signatures that are not valid or were not read, with reasons."""
    complete: bool = True
    """Whether all signatures were read; invalid ones count as read."""

    @property
    def manifest_digest(self) -> str:
        """``sha256:<hex>`` of the manifest; empty without a manifest."""
        return sha256_digest(self.manifest) if self.manifest else ""
