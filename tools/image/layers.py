"""Files of an image layer, and the archive of them: the same files give the same bytes."""

from __future__ import annotations

import gzip
import io
import tarfile
from dataclasses import dataclass
from hashlib import sha256
from pathlib import PurePosixPath
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

WHITEOUT = ".wh."
"""A file whose name begins with this deletes another one when the layer is applied (image-spec ``layer.md``)."""

COMPRESSION = 6
"""Level of gzip (arbitrary: 9 takes three times as long for 1 % less)."""


@dataclass(frozen=True, slots=True)
class File:
    """A regular file of root, which everybody may read."""

    content: bytes
    executable: bool = False


@dataclass(frozen=True, slots=True)
class Link:
    """A symbolic link."""

    target: str


@dataclass(frozen=True, slots=True)
class Directory:
    """A directory with a mode or an owner of its own; all others are made as they are needed, by root with 0755.

    Args:
        mode: Permission bits.
        owner: Id of the user and of the group.
    """

    mode: int = 0o755
    owner: int = 0


Entry = File | Link | Directory
Layer = dict[str, Entry]
"""Entries by path, relative to the root of the image."""


@dataclass(frozen=True, slots=True)
class Archive:
    """A layer as it is stored.

    Args:
        content: The tar archive, compressed with gzip.
        diff_id: Digest of the tar archive before compression (image-spec ``config.md``).
        size: Bytes of the tar archive before compression.
    """

    content: bytes
    diff_id: str
    size: int


def archive(layer: Mapping[str, Entry]) -> Archive:
    """Pack and compress a layer; order, times, owners and the gzip header do not depend on the machine.

    Raises:
        ValueError: A path is unusable in a layer.
    """
    plain = pack(layer)
    packed = io.BytesIO()
    with gzip.GzipFile(filename="", fileobj=packed, mode="wb", compresslevel=COMPRESSION, mtime=0) as stream:
        stream.write(plain)
    return Archive(packed.getvalue(), f"sha256:{sha256(plain).hexdigest()}", len(plain))


def pack(layer: Mapping[str, Entry]) -> bytes:
    """Write the tar archive of a layer, sorted by path, with all parent directories and the time 1970-01-01.

    Raises:
        ValueError: A path is not relative, is a whiteout, or leads through something that is not a directory.
    """
    parents = {str(parent) for name in layer for parent in PurePosixPath(name).parents if parent.name}
    for name in layer:
        _check(name)
    if crossed := sorted(one for one in parents if not isinstance(layer.get(one, Directory()), Directory)):
        raise ValueError(f"{crossed[0]} is not a directory, and the layer has files below it")
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=tarfile.PAX_FORMAT) as tar:
        for name in sorted(parents | layer.keys()):
            entry = layer.get(name, Directory())
            tar.addfile(_header(name, entry), io.BytesIO(entry.content) if isinstance(entry, File) else None)
    return out.getvalue()


def _check(name: str) -> None:
    path = PurePosixPath(name)
    if path.is_absolute() or ".." in path.parts or str(path) != name:
        raise ValueError(f"{name!r} is not a plain path relative to the root of the image")
    if any(part.startswith(WHITEOUT) for part in path.parts):
        raise ValueError(f"{name} would delete another file when the layer is applied: leave it out")


def _header(name: str, entry: Entry) -> tarfile.TarInfo:
    header = tarfile.TarInfo(name)
    header.mtime, header.uid, header.gid = 0, 0, 0
    match entry:
        case File(content, executable):
            header.size, header.mode = len(content), 0o755 if executable else 0o644
        case Link(target):
            header.type, header.linkname, header.mode = tarfile.SYMTYPE, target, 0o777
        case Directory(mode, owner):
            header.type, header.mode, header.uid, header.gid = tarfile.DIRTYPE, mode, owner, owner
    return header


def lay_out(layer: Mapping[str, Entry], root: Path) -> None:
    """Write a layer below a directory; what is there already is replaced. Owners are left out.

    Raises:
        OSError: The disk refuses.
    """
    for name, entry in sorted(layer.items()):
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if not isinstance(entry, Directory):
            path.unlink(missing_ok=True)
        match entry:
            case File(content, executable):
                path.write_bytes(content)
                path.chmod(0o755 if executable else 0o644)
            case Link(target):
                path.symlink_to(target)
            case Directory(mode):
                path.mkdir(exist_ok=True)
                path.chmod(mode)
