"""Releases in a directory, as csctl and the Go operator write them, and publishing to one."""

from __future__ import annotations

import asyncio
import errno
import os
import shutil
import stat
import time
from contextlib import ExitStack, contextmanager, suppress
from datetime import timedelta
from hashlib import file_digest, sha256
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from clusterstacks.model.digests import content_digest
from clusterstacks.model.errors import ClusterStacksError, SpecError
from clusterstacks.model.names import parse_release
from clusterstacks.net.http.errors import NotThere, SourceUnavailable, store_unavailable
from clusterstacks.release.contents import read_contents
from clusterstacks.release.errors import ReleaseBroken, ReleaseNotFound, ReleaseTaken, image_unusable
from clusterstacks.release.open import open_directory
from clusterstacks.release.release_source import (
    IMAGE_DIRECTORY,
    MAX_FILE_BYTES,
    MAX_FILES,
    MAX_RELEASE_BYTES,
    EnvelopeKind,
    Evidence,
    image_file,
)
from clusterstacks.release.staging import Staging

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Collection, Iterator
    from io import BufferedReader

    from clusterstacks.model.names import ReleaseName

_NESTED = "cluster-stacks"
_CHUNK = 1024 * 1024
_NO_ROOM = {errno.ENOSPC, errno.EDQUOT, errno.EROFS}
"""Errors of writes only: the source is not the cause."""

_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY
_BELOW = _DIRECTORY | os.O_NOFOLLOW

SETTLED = timedelta(seconds=2)
"""Time without a change after which a release that is being copied counts as complete (arbitrary)."""


class DirectorySource:
    """A directory that holds ``<release>/``, or ``cluster-stacks/<release>/`` as the Go operator's does.

    Nothing outside of the directory is ever read. The path of the directory itself may contain links, as those of
    mounted volumes do. So may ``place``, the path of the source below it, as long as it ends inside, also after a later
    change. Releases, their files and ``cluster-stacks`` must not be links. Write a new release under another name (a
    leading dot hides it) and rename it when it is complete: then it is used immediately. A release that is copied into
    its place is used when it did not change for the time ``settled``.
    """

    def __init__(self, root: Path, place: str = "", *, settled: timedelta = SETTLED) -> None:
        self._root = root
        self._place = place
        self._settled = settled.total_seconds()

    async def list(self) -> tuple[str, ...]:
        """Return the names of the directories, sorted; hidden ones are skipped."""
        return await asyncio.to_thread(self._list)

    async def fetch(self, name: ReleaseName, into: Path) -> None:
        """Copy the regular files of a release; sub-directories (unpacked addons) are skipped."""
        while remaining := await asyncio.to_thread(self._unsettled, name):  # noqa: ASYNC110 - a file system sends no events
            await asyncio.sleep(remaining)
        await asyncio.to_thread(self._fetch, name, into)

    async def read(self, name: ReleaseName, files: Collection[str], limit: int) -> dict[str, bytes]:
        """Return the content of regular files; a link or device is :class:`ReleaseBroken`."""
        return await asyncio.to_thread(self._read, name, files, limit)

    async def digest(self, name: ReleaseName) -> str:
        """Return the digest of the current files; empty while they change."""
        return await asyncio.to_thread(self._digest, name)

    async def evidence(self, name: ReleaseName, kind: EnvelopeKind = EnvelopeKind.SIGNATURE) -> Evidence:
        """Return the envelopes beside the release's directory."""
        return await asyncio.to_thread(self._evidence, name, kind)

    async def image_size(self, digest: str) -> int:
        """Return the size of the file of a node image, beside the directories of releases."""
        with await asyncio.to_thread(self._image, digest) as file:
            return os.fstat(file.fileno()).st_size

    async def image_part(self, digest: str, start: int, length: int) -> AsyncGenerator[bytes]:
        """Yield a part of the file of a node image."""
        with await asyncio.to_thread(self._image, digest) as file:
            end = start + length
            while start < end:
                try:
                    piece = await asyncio.to_thread(os.pread, file.fileno(), min(end - start, _CHUNK), start)
                except OSError as error:
                    raise _unavailable(self.path, error) from None
                if not piece:
                    raise SourceUnavailable(self.path / IMAGE_DIRECTORY, f"the file of {digest} became shorter")
                start += len(piece)
                yield piece

    def _image(self, digest: str) -> BufferedReader:
        name = digest.removeprefix("sha256:")
        try:
            with self._parents() as parents:
                for parent in parents:
                    with suppress(FileNotFoundError, NotADirectoryError), _entered(IMAGE_DIRECTORY, parent) as images:
                        return _open_file(f"with node image {digest}", name, images)
        except OSError as error:
            raise _unavailable(self.path / IMAGE_DIRECTORY, error) from None
        raise NotThere(self.path / IMAGE_DIRECTORY / name)

    @property
    def path(self) -> Path:
        """The directory of the releases, before links are resolved."""
        return self._root / self._place

    def _list(self) -> tuple[str, ...]:
        names: set[str] = set()
        try:
            with self._parents() as parents:
                for parent in parents:
                    names |= _directories(parent)
        except OSError as error:
            raise _unavailable(self.path, error) from None
        return tuple(sorted(names - {_NESTED, IMAGE_DIRECTORY}))

    def _evidence(self, name: ReleaseName, kind: EnvelopeKind) -> Evidence:
        file = kind.file(name)
        try:
            with self._parents() as parents:
                for parent in parents:
                    with suppress(FileNotFoundError):
                        return kind.read(_content(name, file, kind.limit, parent))
        except OSError as error:
            raise _unavailable(self.path / file, error) from None
        return Evidence()

    def _read(self, name: ReleaseName, files: Collection[str], limit: int) -> dict[str, bytes]:
        contents: dict[str, bytes] = {}
        try:
            with self._opened(name) as (_, directory):
                for file in files:
                    with suppress(FileNotFoundError):
                        contents[file] = _content(name, file, limit, directory)
        except OSError as error:
            raise _unavailable(self.path / name.release, error) from None
        return contents

    def _unsettled(self, name: ReleaseName) -> float:
        """Seconds until the release counts as complete; 0 when it does, or does not exist.

        A rename into place changes only the parent directory, while a copy keeps changing the release itself.
        """
        try:
            with self._opened(name) as (parent, directory):
                inside = [os.fstat(directory).st_mtime]
                with os.scandir(directory) as entries:
                    inside += [entry.stat(follow_symlinks=False).st_mtime for entry in entries]
                age = time.time() - max(inside)
                if max(inside) > os.fstat(parent).st_mtime and 0 <= age < self._settled:
                    return self._settled - age
        except (OSError, ClusterStacksError):
            pass  # the copy reports the error
        return 0

    def _digest(self, name: ReleaseName) -> str:
        try:
            with self._opened(name) as (_, directory):
                digests = [(file, _digest_file(name, directory, file)) for file in _files(name, directory)]
        except OSError as error:
            raise _unavailable(self.path / name.release, error) from None
        return "" if self._unsettled(name) else content_digest(digests)

    def _fetch(self, name: ReleaseName, into: Path) -> None:
        try:
            with self._opened(name) as (_, directory):
                self._copy(name, directory, into)
        except OSError as error:
            if error.errno in _NO_ROOM:
                raise store_unavailable(into, error) from None
            raise _unavailable(self.path / name.release, error) from None

    @contextmanager
    def _opened(self, name: ReleaseName) -> Iterator[tuple[int, int]]:
        """Open the directory of a release and the one above it."""
        with self._parents() as parents:
            for parent in parents:
                with suppress(FileNotFoundError, NotADirectoryError):
                    directory = os.open(name.release, _BELOW, dir_fd=parent)
                    break
            else:
                raise ReleaseNotFound(name, self.path)
            try:
                yield parent, directory
            finally:
                os.close(directory)

    @contextmanager
    def _parents(self) -> Iterator[tuple[int, ...]]:
        """Open the directories that contain releases.

        Every part is opened relative to the one before it, without following links: so everything that is read is below
        the root, even during concurrent renames. A place outside of the root is refused.
        """
        with ExitStack() as opened:

            def enter(name: str | Path, flags: int, parent: int | None = None) -> int:
                directory = os.open(name, flags, dir_fd=parent)
                opened.callback(os.close, directory)
                return directory

            here = enter(self._root, _DIRECTORY)
            for part in self._inside():
                try:
                    here = enter(part, _BELOW, here)
                except (FileNotFoundError, NotADirectoryError):
                    raise SourceUnavailable(self.path, "the directory does not exist") from None
            try:
                nested = enter(_NESTED, _BELOW, here)
            except (FileNotFoundError, NotADirectoryError):
                yield (here,)
            else:
                yield here, nested

    def _inside(self) -> tuple[str, ...]:
        """Return the parts of the place after links are resolved."""
        if not self._place:
            return ()
        place = self.path.resolve()
        if not place.is_relative_to(root := self._root.resolve()):
            named = f"directory {self._place} below the release directory"
            raise SpecError("SourceOutside", f"{named} is outside of it; use a directory inside")
        return place.relative_to(root).parts

    def _copy(self, name: ReleaseName, directory: int, into: Path) -> None:
        copied = 0
        for count, file in enumerate(_files(name, directory), start=1):
            if count > MAX_FILES:
                raise ReleaseBroken(name, file, f"exceeds the limit of {MAX_FILES} files for a release")
            copied += _copy_file(name, directory, file, into)
            if copied > MAX_RELEASE_BYTES:
                raise ReleaseBroken(name, file, f"makes the release larger than {MAX_RELEASE_BYTES} bytes")


def publish_to_directory(directory: Path, target: Path) -> bool:
    """Copy a release, and the envelopes beside it, into an existing directory of releases.

    Return whether the release was copied; it is not when it exists with the same content. Newer envelopes are copied.
    Raises ReleaseTaken if the release exists with other content.
    """
    name = parse_release(directory.name)
    place = target / name.release
    exists = place.exists()
    if exists and read_contents(name, place).digest != read_contents(name, directory).digest:
        raise ReleaseTaken(place)
    _copy_images(name, directory, target)
    if exists:
        _copy_envelopes(name, directory, target)
        return False
    staging = Staging.create(target)
    try:
        for file in sorted(directory.iterdir()):
            shutil.copyfile(file, staging.path / file.name)
        _copy_envelopes(name, directory, target)
        staging.publish(place, readable=True)
    finally:
        staging.remove()
    return True


def _copy_images(name: ReleaseName, directory: Path, target: Path) -> None:
    """Copy the files of the node images of a release, which are beside it, unless they exist."""
    images = open_directory(directory, name).node_images()
    for digest in images.artifacts if images else ():
        file, place = image_file(directory.parent, digest), image_file(target, digest)
        if place.exists():
            continue
        if not file.is_file():
            raise image_unusable(file, "does not exist")
        place.parent.mkdir(exist_ok=True)
        with TemporaryDirectory(prefix=".csctl-", dir=place.parent) as scratch:
            copied = Path(shutil.copyfile(file, Path(scratch, place.name)))
            with copied.open("rb") as written:
                if f"sha256:{file_digest(written, 'sha256').hexdigest()}" != digest:
                    raise image_unusable(file, "has another digest")
            copied.replace(place)


def _copy_envelopes(name: ReleaseName, directory: Path, target: Path) -> None:
    for kind in EnvelopeKind:
        if (directory.parent / kind.file(name)).is_file():
            shutil.copyfile(directory.parent / kind.file(name), target / kind.file(name))


def _content(name: ReleaseName, file: str, limit: int, directory: int) -> bytes:
    with _open_file(name, file, directory) as reader:
        content = reader.read(limit + 1)
    if len(content) > limit:
        raise ReleaseBroken(name, file, f"is larger than {limit} bytes")
    return content


@contextmanager
def _entered(name: str, parent: int) -> Iterator[int]:
    directory = os.open(name, _BELOW, dir_fd=parent)
    try:
        yield directory
    finally:
        os.close(directory)


def _open_file(name: object, file: str, directory: int) -> BufferedReader:
    """Open a regular file of a release; a pipe in its place must not block the reader."""
    foreign = ReleaseBroken(name, file, "is a link or device; replace it with the file")
    try:
        handle = os.open(file, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK, dir_fd=directory)
    except OSError as error:
        if error.errno == errno.ELOOP:  # the error of O_NOFOLLOW for a link
            raise foreign from None
        raise
    reader = os.fdopen(handle, "rb")
    if not stat.S_ISREG(os.fstat(handle).st_mode):
        reader.close()
        raise foreign
    return reader


def _directories(parent: int) -> set[str]:
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
            raise ReleaseBroken(name, file, "is a link or device; replace it with the file")


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
    # O_NONBLOCK: a pipe in place of the file must not block the reader.
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
