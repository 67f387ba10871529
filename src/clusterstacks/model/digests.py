"""Digests of sets of files."""

from __future__ import annotations

from hashlib import sha256
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable


def sha256_digest(content: bytes) -> str:
    """Return the digest of some bytes as OCI writes it: ``sha256:`` and 64 lower-case hex digits."""
    return f"sha256:{sha256(content).hexdigest()}"


def content_digest(entries: Iterable[tuple[str, str]]) -> str:
    """Digest a set of files, given by name and hex sha256: over the sorted lines ``<hex sha256>  <name>``."""
    lines = sorted(f"{digest}  {name}\n" for name, digest in entries)
    return sha256_digest("".join(lines).encode())
