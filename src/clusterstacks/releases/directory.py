"""Releases in a directory, as csctl and the Go operator leave them (FORMATS section 8)."""

from __future__ import annotations

import asyncio
import errno
import os
import stat
import time
from contextlib import suppress
from datetime import timedelta
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING

from clusterstacks.releases.contents import content_digest
from clusterstacks.releases.errors import ReleaseBroken, ReleaseNotFound, SourceUnavailable, StoreUnavailable
from clusterstacks.releases.evidence import MAX_SIGNATURE_BYTES, SIGNATURE_SUFFIX, Evidence
from clusterstacks.releases.sources import MAX_FILE_BYTES, MAX_FILES, MAX_RELEASE_BYTES

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from clusterstacks.domain.names import ReleaseName

_NESTED = "cluster-stacks"
_CHUNK = 1024 * 1024
_NO_ROOM = {errno.ENOSPC, errno.EDQUOT, errno.EROFS}
"""What only a write can fail with: then it is not the source that is at fault."""

SETTLED = timedelta(seconds=2)
"""A release that is being copied is complete when nothing of it changed for so long (arbitrary)."""


class DirectorySource:
    """A directory that holds ``<release>/``, or ``cluster-stacks/<release>/`` as the Go operator's does.

    Symbolic links inside are not followed: nothing outside the directory is ever read. Put a new release there under
    another name (a leading dot hides it) and rename it when it is complete: then it is taken at once. One that is
    copied into its place is taken when it has settled.

    Args:
        root: The directory; ``--release-dir`` of the operator.
        settled: How long nothing may have changed in a release that was not renamed into its place.
    """

    def __init__(self, root: Path, *, settled: timedelta = SETTLED) -> None:
        self._root = root
        self._settled = settled.total_seconds()

    async def list(self) -> tuple[str, ...]:
        """Name the directories, sorted; hidden ones are left out.

        Raises:
            SourceUnavailable: The directory is missing or may not be read.
        """
        return await asyncio.to_thread(self._list)

    async def fetch(self, name: ReleaseName, into: Path) -> None:
        """Copy the regular files of one release; sub-directories (unpacked addons) are left out.

        Raises:
            ReleaseNotFound: No directory has the release's name.
            ReleaseBroken: The release is too large, or holds a link or device.
            StoreUnavailable: There is no room for the copy.
            SourceUnavailable: A file cannot be read.
        """
        while left := await asyncio.to_thread(self._unsettled, name):  # noqa: ASYNC110 - a file system tells nobody
            await asyncio.sleep(left)
        await asyncio.to_thread(self._fetch, name, into)

    async def read(self, name: ReleaseName, files: Collection[str], limit: int) -> dict[str, bytes]:
        """Return the content of some files.

        Raises:
            ReleaseNotFound: No directory has the release's name.
            ReleaseBroken: A file is larger than ``limit`` bytes, or is a link or device.
            SourceUnavailable: One cannot be read.
        """
        return await asyncio.to_thread(self._read, name, files, limit)

    async def digest(self, name: ReleaseName) -> str:
        """Digest the files as they are now; empty while they still change.

        Raises:
            ReleaseNotFound: No directory has the release's name.
            ReleaseBroken: The release is too large, or holds a link or device.
            SourceUnavailable: A file cannot be read.
        """
        return await asyncio.to_thread(self._digest, name)

    async def evidence(self, name: ReleaseName) -> Evidence:
        """Return the envelope that lies beside the release's directory.

        Raises:
            ReleaseBroken: It is a link or device, or too large.
            SourceUnavailable: It cannot be read.
        """
        return await asyncio.to_thread(self._evidence, name)

    def _list(self) -> tuple[str, ...]:
        try:
            names = _directories(self._root)
            nested = _directories(self._root / _NESTED) if _NESTED in names else set()
        except OSError as error:
            raise _unavailable(self._root, error) from None
        return tuple(sorted((names | nested) - {_NESTED}))

    def _evidence(self, name: ReleaseName) -> Evidence:
        file = f"{name}{SIGNATURE_SUFFIX}"
        for parent in (self._root, self._root / _NESTED):
            try:
                return Evidence((_content(name, parent / file, MAX_SIGNATURE_BYTES),))
            except FileNotFoundError:
                continue
            except OSError as error:
                raise _unavailable(parent / file, error) from None
        return Evidence()

    def _read(self, name: ReleaseName, files: Collection[str], limit: int) -> dict[str, bytes]:
        found: dict[str, bytes] = {}
        try:
            directory = self._open(name)
            try:
                for file in files:
                    with suppress(FileNotFoundError):
                        found[file] = _content(name, Path(file), limit, directory)
            finally:
                os.close(directory)
        except OSError as error:
            raise _unavailable(self._root / name.release, error) from None
        return found

    def _unsettled(self, name: ReleaseName) -> float:
        """Seconds until the release counts as complete; 0 when it does, or is not there.

        A rename into place changes the directory above and nothing inside, a copy goes on changing the inside.
        """
        for parent in (self._root, self._root / _NESTED):
            try:
                directory = parent / name.release
                inside = [directory.stat().st_mtime, *(entry.stat().st_mtime for entry in os.scandir(directory))]
                age = time.time() - max(inside)
                if max(inside) > parent.stat().st_mtime and 0 <= age < self._settled:
                    return self._settled - age
            except OSError:
                continue  # the copy itself says what is wrong
        return 0

    def _digest(self, name: ReleaseName) -> str:
        try:
            directory = self._open(name)
            try:
                digests = [(file, _digest_file(name, directory, file)) for file in _files(name, directory)]
            finally:
                os.close(directory)
        except OSError as error:
            raise _unavailable(self._root / name.release, error) from None
        return "" if self._unsettled(name) else content_digest(digests)

    def _fetch(self, name: ReleaseName, into: Path) -> None:
        try:
            directory = self._open(name)
            try:
                self._copy(name, directory, into)
            finally:
                os.close(directory)
        except OSError as error:
            if error.errno in _NO_ROOM:
                raise StoreUnavailable(name, error) from None
            raise _unavailable(self._root / name.release, error) from None

    def _open(self, name: ReleaseName) -> int:
        for parent in (self._root, self._root / _NESTED):
            try:
                return os.open(parent / name.release, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
            except (FileNotFoundError, NotADirectoryError):
                continue
        raise ReleaseNotFound(name, self._root)

    def _copy(self, name: ReleaseName, directory: int, into: Path) -> None:
        copied = 0
        for count, file in enumerate(_files(name, directory), start=1):
            if count > MAX_FILES:
                raise ReleaseBroken(name, file, f"is one more than the {MAX_FILES} files a release may have")
            copied += _copy_file(name, directory, file, into)
            if copied > MAX_RELEASE_BYTES:
                raise ReleaseBroken(name, file, f"makes the release larger than {MAX_RELEASE_BYTES} bytes")


def _content(name: ReleaseName, file: Path, limit: int, directory: int | None = None) -> bytes:
    foreign = ReleaseBroken(name, file.name, "is a link or device: put the file itself there")
    try:
        handle = os.open(file, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK, dir_fd=directory)
    except OSError as error:
        if error.errno == errno.ELOOP:  # what O_NOFOLLOW makes of a link
            raise foreign from None
        raise
    with os.fdopen(handle, "rb") as reader:
        if not stat.S_ISREG(os.fstat(handle).st_mode):
            raise foreign
        content = reader.read(limit + 1)
    if len(content) > limit:
        raise ReleaseBroken(name, file.name, f"is larger than {limit} bytes")
    return content


def _directories(parent: Path) -> set[str]:
    with os.scandir(parent) as entries:
        return {
            entry.name for entry in entries if entry.is_dir(follow_symlinks=False) and not entry.name.startswith(".")
        }


def _files(name: ReleaseName, directory: int) -> Iterator[str]:
    for file in sorted(os.listdir(directory)):
        mode = os.stat(file, dir_fd=directory, follow_symlinks=False).st_mode
        if stat.S_ISREG(mode):
            yield file
        elif not stat.S_ISDIR(mode):
            raise ReleaseBroken(name, file, "is a link or device: put the file itself there")


def _copy_file(name: ReleaseName, directory: int, file: str, into: Path) -> int:
    copied = 0
    with Path(into, file).open("xb") as writer:
        for piece in _pieces(name, directory, file):
            copied += writer.write(piece)
    return copied


def _digest_file(name: ReleaseName, directory: int, file: str) -> str:
    digest = sha256()
    for piece in _pieces(name, directory, file):
        digest.update(piece)
    return digest.hexdigest()


def _pieces(name: ReleaseName, directory: int, file: str) -> Iterator[bytes]:
    read = 0
    # O_NONBLOCK: a pipe that took the file's place must not hang the reader.
    source = os.open(file, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK, dir_fd=directory)
    with os.fdopen(source, "rb") as reader:
        while piece := reader.read(_CHUNK):
            read += len(piece)
            if read > MAX_FILE_BYTES:
                raise ReleaseBroken(name, file, f"is larger than {MAX_FILE_BYTES} bytes")
            yield piece


def _unavailable(place: Path, error: OSError) -> SourceUnavailable:
    inside = f"{error.filename}: " if error.filename and str(error.filename) != str(place) else ""
    return SourceUnavailable(place, f"{inside}{error.strerror}")
