"""hashes.json of a release and the hash of a directory as Go's modules have it (FORMATS section 5).

The first four keys are csctl's, bit for bit. Two more are ours, because csctl's cannot tell what they tell; readers of
csctl's format pass over keys they do not know.
"""

from __future__ import annotations

from base64 import b64encode
from dataclasses import dataclass
from hashlib import sha256
from typing import TYPE_CHECKING

from clusterstacks.domain.documents import DocumentError, Node
from clusterstacks.domain.errors import SpecError

if TYPE_CHECKING:
    from collections.abc import Iterable

SHORT_CHARACTERS = 7
"""How much of the stack's hash makes a version: ``v0-sha.<short>``."""


class InvalidHashes(DocumentError):
    """hashes.json is no mapping."""

    CODE = "InvalidHashes"


@dataclass(frozen=True, slots=True)
class Hashes:
    """What hashes.json says; empty where it says nothing usable, and then nothing can be compared.

    Args:
        cluster_stack: Of the whole stack directory, or a git commit in releases of the build script's dialect.
        cluster_addon_dir: Of ``cluster-addon/``.
        cluster_addon_values: Of ``cluster-addon-values.yaml``.
        node_image_dir: Of ``node-image/``.
        node_images_dir: Of ``node-images/``, which ``node_image_dir`` leaves out (INCUMBENT D43).
        cluster_addon_pinned: Of ``cluster-addon/`` with the versions of versions.yaml in it: releases of two Kubernetes
            minors come from one directory then, and their addons differ though it is the same.
    """

    cluster_stack: str = ""
    cluster_addon_dir: str = ""
    cluster_addon_values: str = ""
    node_image_dir: str = ""
    node_images_dir: str = ""
    cluster_addon_pinned: str = ""

    @property
    def short(self) -> str:
        """The first characters of the stack's hash."""
        return self.cluster_stack[:SHORT_CHARACTERS]

    def document(self) -> dict[str, str]:
        """Return the document in the order csctl writes it; optional keys only where they have a value."""
        required = {
            "clusterStack": self.cluster_stack,
            "clusterAddonDir": self.cluster_addon_dir,
            "clusterAddonValues": self.cluster_addon_values,
        }
        optional = {
            "nodeImageDir": self.node_image_dir,
            "nodeImagesDir": self.node_images_dir,
            "clusterAddonPinned": self.cluster_addon_pinned,
        }
        return required | {key: value for key, value in optional.items() if value}


def parse_hashes(document: object, *, file: str = "hashes.json") -> Hashes:
    """Read a loaded hashes.json; missing keys, unknown keys and values that are no text are tolerated.

    Raises:
        InvalidHashes: The document is no mapping.
    """
    root = Node(document, file, error=InvalidHashes)

    def text(key: str) -> str:
        value = root.child(key).value
        return value if isinstance(value, str) else ""

    return Hashes(
        cluster_stack=text("clusterStack"),
        cluster_addon_dir=text("clusterAddonDir"),
        cluster_addon_values=text("clusterAddonValues"),
        node_image_dir=text("nodeImageDir"),
        node_images_dir=text("nodeImagesDir"),
        cluster_addon_pinned=text("clusterAddonPinned"),
    )


def clean_hash(text: str) -> str:
    """Make a hash fit for names and versions: without the prefix ``h1:`` and ``/ = +``, in lower case."""
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
        SpecError: A path holds a newline, which would make two directories look alike.
    """
    # Paths come from the file system, where not all are UTF-8; surrogateescape gives back their very bytes.
    lines = sorted((path.encode(errors="surrogateescape"), digest) for path, digest in entries)
    for path, _ in lines:
        if b"\n" in path:
            raise SpecError("UnusableFileName", f"the file name {path!r} holds a newline: rename the file")
    text = b"".join(digest.encode() + b"  " + path + b"\n" for path, digest in lines)
    return file_hash(text)
