"""The source directory of a cluster stack: its files, its hashes and its version tags (FORMATS sections 3 and 5)."""

from __future__ import annotations

import os
import re
from functools import partial
from hashlib import sha256
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING

from clusterstacks.domain.hashes import Hashes, directory_hash, file_hash
from clusterstacks.releases.errors import SourceBroken

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

TAGS = ("ClusterClassVersion", "ClusterAddonVersion", "NodeImageVersion")
"""Names of the tags; the first one stands for the version of the cluster stack."""

WHITEOUT = ".wh."
"""Prefix of a file that takes another away, as in the layers of container images."""

MAX_TREE_BYTES = 256 * 1024 * 1024
"""Largest stack directory (arbitrary: twice a release; it is held in memory)."""

_TAG = re.compile(rb"<< \.([A-Za-z_][0-9A-Za-z_]*) >>")


def read_tree(root: Path) -> dict[str, bytes]:
    """Read every file below ``root``: path with ``/`` as separator, and content.

    Raises:
        SourceBroken: The directory is missing, cannot be read, is too large, or holds a link or device.
    """
    tree, size = {}, 0
    try:
        for path in _walk(root):
            size += path.stat().st_size
            if size > MAX_TREE_BYTES:
                bound = f"{MAX_TREE_BYTES // 1024**2} MiB"
                raise SourceBroken(path, f"makes the stack larger than {bound}: keep it outside of the stack directory")
            tree[path.relative_to(root).as_posix()] = path.read_bytes()
    except OSError as error:
        raise SourceBroken(error.filename or root, f"cannot be read: {error.strerror}") from None
    return tree


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


def hash_tree(tree: Mapping[str, bytes], addons: Mapping[str, str] | None = None) -> Hashes:
    """Hash a tree the way hashes.json says (FORMATS section 5), before its tags are replaced.

    Args:
        tree: The files of the stack directory.
        addons: Versions that are set in the addon charts while building, by the name of the dependency.
    """
    digests = {path: sha256(content).hexdigest() for path, content in tree.items()}

    def below(directory: str, **more: str) -> str:
        entries = [
            (path.removeprefix(directory), digest) for path, digest in digests.items() if path.startswith(directory)
        ]
        return directory_hash([*entries, *more.items()]) if entries else ""

    values = tree.get("cluster-addon-values.yaml")
    lines = "".join(f"{name} {version}\n" for name, version in sorted((addons or {}).items()))
    return Hashes(
        cluster_stack=below(""),
        cluster_addon_dir=below("cluster-addon/"),
        cluster_addon_values="" if values is None else file_hash(values),
        node_image_dir=below("node-image/"),
        node_images_dir=below("node-images/"),
        cluster_addon_pinned=below("cluster-addon/", versions=sha256(lines.encode()).hexdigest()) if addons else "",
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
