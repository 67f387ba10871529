"""Reads the source directory of a cluster stack: its files, hashes, version tags and metadata.yaml."""

from __future__ import annotations

import os
import re
from functools import partial
from hashlib import sha256
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING

from clusterstacks.csctl.building.yaml_edit import Place, with_values
from clusterstacks.model import yaml
from clusterstacks.model.files.hashes import Hashes, directory_hash, file_hash
from clusterstacks.model.files.metadata import Metadata, parse_metadata
from clusterstacks.release.errors import SourceBroken
from clusterstacks.release.release import METADATA
from clusterstacks.release.release_source import IMAGE_DIRECTORY, MAX_FILE_BYTES
from clusterstacks.runtime.files import replace_file

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping


TAGS = ("ClusterClassVersion", "ClusterAddonVersion", "NodeImageVersion")
"""The tags; ``ClusterClassVersion`` is the version of the cluster stack."""

WHITEOUT = ".wh."
"""Prefix of a file that removes another file, as in the layers of container images."""

MAX_TREE_BYTES = 256 * 1024 * 1024
"""Maximum size of a stack directory (arbitrary: twice a release; it is held in memory)."""

_TAG = re.compile(rb"<< \.([A-Za-z_][0-9A-Za-z_]*) >>")


def read_tree(root: Path) -> dict[str, bytes]:
    """Read all files below a directory: path with ``/`` as separator, and content.

    Files in node-images/ that are too large for a release are images, and left out: their checksums are in the list.

    Raises SourceBroken if the directory cannot be read, is too large, or contains a link or a device.
    """
    tree, size = {}, 0
    try:
        for path in _walk(root):
            length = path.stat().st_size
            if length > MAX_FILE_BYTES and path.is_relative_to(root / IMAGE_DIRECTORY):
                continue
            size += length
            if size > MAX_TREE_BYTES:
                bound = f"{MAX_TREE_BYTES // 1024**2} MiB"
                raise SourceBroken(path, f"makes the stack larger than {bound}: move it out of the stack directory")
            tree[path.relative_to(root).as_posix()] = path.read_bytes()
    except OSError as error:
        raise SourceBroken(error.filename or root, f"cannot be read: {error.strerror}") from None
    return tree


def overlaid(base: Mapping[str, bytes], changes: Mapping[str, bytes]) -> dict[str, bytes]:
    """Apply changes to a tree: a file is added or replaced, and ``.wh.<name>`` removes ``<name>``, which must exist."""
    result = dict(base)
    for path, content in changes.items():
        place = PurePosixPath(path)
        if not place.name.startswith(WHITEOUT):
            result[path] = content
        elif result.pop(removed := str(place.with_name(place.name.removeprefix(WHITEOUT))), None) is None:
            raise SourceBroken(path, f"removes {removed}, which does not exist: delete this file or correct its name")
    return result


def hash_tree(tree: Mapping[str, bytes], addons: Mapping[str, str] | None = None) -> Hashes:
    """Compute the hashes of hashes.json, before the tags are replaced.

    ``addons`` are the versions that the build sets in the addon charts, by the name of the dependency.
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
        cluster_class_dir=below("cluster-class/"),
        cluster_addon_pinned=below("cluster-addon/", versions=sha256(lines.encode()).hexdigest()) if addons else "",
    )


def fill_tags(tree: Mapping[str, bytes], versions: Mapping[str, str]) -> dict[str, bytes]:
    """Replace ``<< .Name >>`` in all files by the version of this name; other text with ``<<`` stays unchanged.

    Raises SourceBroken if a tag has a name that is not in ``versions``.
    """
    return {path: _TAG.sub(partial(_version, path, versions), content) for path, content in tree.items()}


def _version(path: str, versions: Mapping[str, str], tag: re.Match[bytes]) -> bytes:
    version = versions.get(tag[1].decode())
    if version is None:
        line = tag.string.count(b"\n", 0, tag.start()) + 1
        known = ", ".join(f"<< .{name} >>" for name in versions)
        raise SourceBroken(f"{path}, line {line}:", f"{tag[0].decode()} is not a known tag: use one of {known}")
    return version.encode()


def _walk(root: Path) -> Iterator[Path]:
    for directory, inner, files in os.walk(root, onerror=_fail):
        for name in sorted((*inner, *files)):
            path = Path(directory, name)
            if path.is_symlink() or not (path.is_file() or path.is_dir()):
                raise SourceBroken(path, "is a link or a device: replace it by a file")
            if path.is_file():
                yield path


def _fail(error: OSError) -> None:
    raise error


def written_metadata(tree: Mapping[str, bytes]) -> Metadata | None:
    """Read metadata.yaml, in which the author keeps the versions of the newest release; None if there is none.

    It is the base of the next versions if no remote is read, and part of the source like any other file.
    """
    return parse_metadata(yaml.load(tree[METADATA], name=METADATA)) if METADATA in tree else None


def updated_metadata(tree: Mapping[str, bytes], metadata: Metadata) -> bytes:
    """Return metadata.yaml with other versions; comments stay if it contains every version already."""
    document = metadata.document()
    if METADATA in tree:
        versions = document["versions"]
        values: dict[Place, str] = {("versions", key): versions[key] for key in ("clusterStack", "kubernetes")}
        values |= {("versions", "components", key): value for key, value in versions["components"].items()}
        changed = with_values(tree[METADATA], values, name=METADATA)
        if changed is not None:
            return changed
    return yaml.dump(document).encode()


def write_metadata(root: Path, content: bytes) -> None:
    """Replace metadata.yaml atomically."""
    target = root / METADATA
    mode = target.stat().st_mode & 0o777 if target.exists() else 0o644
    replace_file(target, content, mode=mode)
