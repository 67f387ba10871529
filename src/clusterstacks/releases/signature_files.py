"""What lies beside a release to prove who made it."""

from __future__ import annotations

from dataclasses import dataclass
from hashlib import sha256

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
