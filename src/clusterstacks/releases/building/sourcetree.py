"""The source directory of a cluster stack: its files, its settings and its version tags (FORMATS sections 1 to 3)."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from functools import partial
from hashlib import sha256
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING

from clusterstacks.api import yaml
from clusterstacks.domain.documents import Node
from clusterstacks.domain.hashes import Hashes, directory_hash, file_hash
from clusterstacks.domain.versions import InvalidVersion, KubernetesVersion
from clusterstacks.releases.errors import SourceBroken

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

SETTINGS = "csctl.yaml"
WHITEOUT = ".wh."
"""Prefix of a file that takes another away, as in the layers of container images."""

_TAG = re.compile(rb"<< \.([A-Za-z]+) >>")


@dataclass(frozen=True, slots=True)
class Settings:
    """What csctl.yaml says.

    Args:
        provider: The infrastructure provider.
        stack: The cluster stack's name.
        kubernetes: The version the stack is made for.
    """

    provider: str
    stack: str
    kubernetes: KubernetesVersion


def read_tree(root: Path) -> dict[str, bytes]:
    """Read every file below ``root``: path with ``/`` as separator, and content.

    Raises:
        SourceBroken: The directory is missing, cannot be read, or holds a link or device.
    """
    try:
        return {path.relative_to(root).as_posix(): path.read_bytes() for path in _walk(root)}
    except OSError as error:
        raise SourceBroken(error.filename or root, f"cannot be read: {error.strerror}") from None


def overlaid(base: Mapping[str, bytes], changes: Mapping[str, bytes]) -> dict[str, bytes]:
    """Lay changes over a tree: a file replaces the one of its path or is new, ``.wh.<name>`` takes ``<name>`` away.

    Raises:
        SourceBroken: What is to be taken away is not there.
    """
    result = dict(base)
    for path, content in changes.items():
        place = PurePosixPath(path)
        if not place.name.startswith(WHITEOUT):
            result[path] = content
        elif result.pop(gone := str(place.with_name(place.name.removeprefix(WHITEOUT))), None) is None:
            raise SourceBroken(path, f"takes away {gone}, which is not there: remove it or correct its name")
    return result


def read_settings(tree: Mapping[str, bytes]) -> Settings:
    """Read csctl.yaml.

    Raises:
        SourceBroken: It is missing.
        SpecError: A field is missing or wrong; the message names it.
    """
    if SETTINGS not in tree:
        raise SourceBroken(SETTINGS, "is missing: add it at the top of the stack directory")
    config = Node(yaml.load(tree[SETTINGS], name=SETTINGS), SETTINGS).child("config")
    version = config.child("kubernetesVersion")
    try:
        kubernetes = KubernetesVersion.parse(version.value)
    except InvalidVersion:
        raise version.refuse("write a full Kubernetes version like v1.34.7") from None
    return Settings(config.child("provider").child("type").text(), config.child("clusterStackName").text(), kubernetes)


def hash_tree(tree: Mapping[str, bytes]) -> Hashes:
    """Hash a tree the way hashes.json says (FORMATS section 5), before its tags are replaced."""
    digests = {path: sha256(content).hexdigest() for path, content in tree.items()}

    def below(directory: str) -> str:
        entries = [
            (path.removeprefix(directory), digest) for path, digest in digests.items() if path.startswith(directory)
        ]
        return directory_hash(entries) if entries else ""

    values = tree.get("cluster-addon-values.yaml")
    return Hashes(
        cluster_stack=below(""),
        cluster_addon_dir=below("cluster-addon/"),
        cluster_addon_values="" if values is None else file_hash(values),
        node_image_dir=below("node-image/"),
    )


def fill_tags(tree: Mapping[str, bytes], versions: Mapping[str, str]) -> dict[str, bytes]:
    """Replace ``<< .Name >>`` by the version of that name in every file; other uses of ``<<`` stay as they are.

    Raises:
        SourceBroken: A tag has a name that is not in ``versions``.
    """
    return {path: _TAG.sub(partial(_version, path, versions), content) for path, content in tree.items()}


def _version(path: str, versions: Mapping[str, str], tag: re.Match[bytes]) -> bytes:
    version = versions.get(tag[1].decode())
    if version is None:
        line = tag.string.count(b"\n", 0, tag.start()) + 1
        known = ", ".join(f"<< .{name} >>" for name in versions)
        raise SourceBroken(f"{path}, line {line}:", f"{tag[0].decode()} is no known tag: write one of {known}")
    return version.encode()


def _walk(root: Path) -> Iterator[Path]:
    for directory, inner, files in os.walk(root, onerror=_give_up):
        for name in sorted((*inner, *files)):
            path = Path(directory, name)
            if path.is_symlink() or not (path.is_file() or path.is_dir()):
                raise SourceBroken(path, "is a link or device: put the file itself there")
            if path.is_file():
                yield path


def _give_up(error: OSError) -> None:
    raise error
