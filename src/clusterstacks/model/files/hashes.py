"""hashes.json of a release, and the directory hash of Go modules (golang.org/x/mod/sumdb/dirhash).

The first four keys are those of csctl written in Go, bit for bit. Two further keys cover differences that these do not
show; readers of csctl's format ignore unknown keys.
"""

from __future__ import annotations

from base64 import b64encode
from dataclasses import dataclass
from hashlib import sha256
from typing import TYPE_CHECKING, Annotated

from pydantic import BeforeValidator

from clusterstacks.model.documents import DocumentError
from clusterstacks.model.errors import SpecError
from clusterstacks.model.files.definitions import OPEN, Section, read, write

if TYPE_CHECKING:
    from collections.abc import Iterable

SHORT_CHARACTERS = 7
"""Number of characters of the stack's hash in a version: ``v0-sha.<short>``."""


class InvalidHashes(DocumentError):
    """hashes.json is not a mapping."""

    CODE = "InvalidHashes"


_Hash = Annotated[str, BeforeValidator(lambda value: value if isinstance(value, str) else "")]


@dataclass(frozen=True, slots=True)
class Hashes(Section):
    """The hashes of a release; empty values cannot be compared.

    Args:
        cluster_stack: Hash of the stack directory, or a git commit in releases of the build script.
        cluster_addon_dir: Hash of ``cluster-addon/``.
        cluster_addon_values: Hash of ``cluster-addon-values.yaml``.
        node_image_dir: Hash of ``node-image/``.
        node_images_dir: Hash of ``node-images/``.
        cluster_class_dir: Hash of ``cluster-class/``, in releases whose metadata.yaml has a version of the class.
        cluster_addon_pinned: Hash of ``cluster-addon/`` with the versions of versions.yaml: releases of two Kubernetes
            minors then come from the same directory and have different addons.
    """

    __pydantic_config__ = OPEN

    cluster_stack: _Hash = ""
    cluster_addon_dir: _Hash = ""
    cluster_addon_values: _Hash = ""
    node_image_dir: _Hash = ""
    node_images_dir: _Hash = ""
    cluster_class_dir: _Hash = ""
    cluster_addon_pinned: _Hash = ""

    @property
    def short(self) -> str:
        """The start of the stack's hash."""
        return self.cluster_stack[:SHORT_CHARACTERS]

    def document(self) -> dict[str, str]:
        """Return the document in csctl's order, with optional keys only where they have a value."""
        return {"clusterStack": "", "clusterAddonDir": "", "clusterAddonValues": ""} | write(self)


def parse_hashes(document: object, *, file: str = "hashes.json") -> Hashes:
    """Parse a loaded hashes.json; missing keys, unknown keys and values that are not strings are tolerated.

    Raises:
        InvalidHashes: The document is not a mapping.
    """
    return read(Hashes, document, file=file, error=InvalidHashes)


def clean_hash(text: str) -> str:
    """Normalize a hash for names and versions: lower case, without the prefix ``h1:`` and ``/ = +``."""
    return text.removeprefix("h1:").translate(str.maketrans("", "", "/=+")).lower()


def file_hash(content: bytes) -> str:
    """Hash the content of one file."""
    return clean_hash(b64encode(sha256(content).digest()).decode())


def directory_hash(entries: Iterable[tuple[str, str]]) -> str:
    """Hash a directory, in any order of its entries.

    Args:
        entries: Path below the directory with ``/`` as separator, and sha256 of the content in lower-case hex, for
            every regular file, hidden ones included.

    Raises:
        SpecError: A path contains a newline, which would give two directories the same hash.
    """
    # File names need not be UTF-8; surrogateescape restores their bytes.
    lines = sorted((path.encode(errors="surrogateescape"), digest) for path, digest in entries)
    for path, _ in lines:
        if b"\n" in path:
            raise SpecError("UnusableFileName", f"the file name {path!r} contains a newline: rename the file")
    text = b"".join(digest.encode() + b"  " + path + b"\n" for path, digest in lines)
    return file_hash(text)
