"""The port to wherever releases are published, and the bounds every source keeps."""

from __future__ import annotations

from dataclasses import dataclass
from hashlib import sha256
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Collection
    from pathlib import Path

    from clusterstacks.domain.names import ReleaseName

MAX_FILES = 100
"""Most files of a release (arbitrary; csctl writes seven)."""

MAX_FILE_BYTES = 64 * 1024 * 1024
"""Largest file of a release (arbitrary; the largest known addon archive has 0.3 MB)."""

MAX_RELEASE_BYTES = 128 * 1024 * 1024
"""Largest release (arbitrary)."""


class ReleaseSource(Protocol):
    """Somewhere releases are published, each under its name in dash form."""

    async def list(self) -> tuple[str, ...]:
        """Name what is there, sorted; names that are none of a release are the caller's to skip.

        Raises:
            SourceUnavailable: Nothing can be listed now.
        """
        ...

    async def digest(self, name: ReleaseName) -> str:
        """Return the digest of the release's files as the source states it now, without fetching them.

        Empty when only fetching them tells. It is what
        :func:`~clusterstacks.domain.digests.content_digest` makes of the files.

        Raises:
            ReleaseNotFound: The source has no such release.
            SourceUnavailable: The source cannot be read now.
        """
        ...

    async def evidence(self, name: ReleaseName) -> Evidence:
        """Return the signatures that lie beside the release; none of them is believed yet.

        Raises:
            ReleaseNotFound: The source has no such release.
            SourceUnavailable: The source cannot be read now.
        """
        ...

    async def read(self, name: ReleaseName, files: Collection[str], limit: int) -> dict[str, bytes]:
        """Return the content of some files, by name, for a look at a release that is not fetched.

        All are of the same state of the release, and each is verified by whatever digest the source states.

        Args:
            name: The release's.
            files: Names; a file the release does not have is left out of the answer.
            limit: Most bytes each may have.

        Raises:
            ReleaseNotFound: The source has no such release.
            ReleaseBroken: A file is larger, or is none.
            SourceUnavailable: The source cannot be read now.
        """
        ...

    async def fetch(self, name: ReleaseName, into: Path) -> None:
        """Copy the files of one release into an empty directory, flat, none in a sub-directory.

        Stays within ``MAX_FILES``, ``MAX_FILE_BYTES`` and ``MAX_RELEASE_BYTES``. What is in the files is not looked at.

        Raises:
            ReleaseNotFound: The source has no such release.
            ReleaseBroken: The release is too large, or a file is none.
            SourceUnavailable: The source cannot be read now.
        """
        ...


SIGNATURE_SUFFIX = ".dsse.json"
"""``<release name>.dsse.json`` lies beside the release's directory, or among the assets of its GitHub release.

It is none of the release's files: those are what it signs.
"""

MAX_SIGNATURE_BYTES = 1024 * 1024
"""Largest envelope or manifest read (arbitrary; an envelope for ten files has 3 KB)."""

MAX_SIGNATURES = 1000
"""Most signatures of one envelope (arbitrary; a key rotation leaves two, but 'csctl pull' joins what others added)."""


@dataclass(frozen=True, slots=True)
class CosignSignature:
    """A signature made by ``cosign sign --key``.

    Args:
        payload: The simple-signing document, which names the digest of the manifest.
        signature: Over the payload.
    """

    payload: bytes
    signature: bytes


@dataclass(frozen=True, slots=True)
class Evidence:
    """Signatures as they were found; nothing of it is believed before it is verified.

    Args:
        envelopes: DSSE envelopes, as JSON.
        manifest: The OCI manifest the release came with, which cosign signs; empty from other sources.
        cosign: Signatures of that manifest.
        problems: Why something that claims to be a signature could not be read, and what was not looked at.
        complete: Whether all signatures were looked at; what could be read in vain counts as looked at.
    """

    envelopes: tuple[bytes, ...] = ()
    manifest: bytes = b""
    cosign: tuple[CosignSignature, ...] = ()
    problems: tuple[str, ...] = ()
    complete: bool = True

    @property
    def manifest_digest(self) -> str:
        """Digest of the manifest; empty without one."""
        return f"sha256:{sha256(self.manifest).hexdigest()}" if self.manifest else ""
