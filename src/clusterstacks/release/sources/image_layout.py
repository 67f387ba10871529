"""A directory in OCI image layout (image-spec 1.1, ``image-layout.md``) with one repository, for example on a disk.

A tag is an entry of ``index.json`` with the annotation ``org.opencontainers.image.ref.name``, and a referrer is an
entry without it, as oras writes them. Files and entries that exist are kept, except for the entry of a tag that moves.
"""

from __future__ import annotations

import asyncio
import errno
import hashlib
import os
import shutil
import stat
import tempfile
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import orjson

from clusterstacks.model.errors import SpecError
from clusterstacks.net.http.errors import NotThere
from clusterstacks.net.oci.descriptor import Descriptor, digest_of
from clusterstacks.net.oci.manifests import MAX_MANIFEST_BYTES, OCI_INDEX, read_manifest, write_index
from clusterstacks.net.oci.reference import is_sha256
from clusterstacks.net.oci.referrers import Referrers
from clusterstacks.runtime.files import replace_file, sync_directory

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping
    from io import BufferedReader

    from clusterstacks.net.oci.manifests import Manifest

SCHEME = "oci-layout:"
REF_NAME = "org.opencontainers.image.ref.name"

_MARKER = "oci-layout"
_INDEX = "index.json"
_VERSION = b'{"imageLayoutVersion":"1.0.0"}'


class ImageLayout:
    """One repository in a directory, whose content is untrusted: links in it are refused, and digests are verified.

    Every method may raise :class:`SpecError` for a directory that is damaged, and :class:`OSError`.
    """

    def __init__(self, root: Path, index: Mapping[str, Any], entries: tuple[Descriptor, ...]) -> None:
        self._root = root
        self._index = index
        self._entries = entries
        self._subjects: dict[str, str] = {}

    @classmethod
    def open(cls, root: Path, *, new: bool = False) -> ImageLayout:
        """Open a layout.

        Args:
            root: The directory.
            new: Whether the directory may be missing or empty: the first write makes it a layout.
        """
        if not (root / _MARKER).is_file() and not (new and (not root.exists() or not any(root.iterdir()))):
            remedy = "name a new or empty directory" if new else "correct the path"
            raise SpecError("NotALayout", f"{root} is not a directory in OCI image layout: {remedy}")
        for part in (root / "blobs", root / "blobs" / "sha256"):
            if part.is_symlink():
                raise _damaged(part, "is a link")
        file = root / _INDEX
        raw = _read(file) if os.path.lexists(file) else write_index(())  # a layout that was just begun has none
        index = read_manifest(raw, OCI_INDEX, str(file))
        if index.media_type != OCI_INDEX:
            raise _damaged(file, "is not an index")
        return cls(root, index.document, index.manifests)

    def place(self, target: str) -> str:
        """Return the name of a tag or digest in messages."""
        return f"{SCHEME}{self._root}{'@' if is_sha256(target) else ':'}{target}"

    async def tags(self) -> tuple[str, ...]:
        """Return all tags, sorted."""
        return tuple(sorted({tag for entry in self._entries if (tag := entry.annotations.get(REF_NAME))}))

    async def head(self, target: str) -> str | None:
        """Return the digest of the manifest with a tag or digest; None if the index does not have it."""
        entry = self._entry(target)
        return None if entry is None else entry.digest

    async def manifest(self, target: str) -> Manifest:
        """Return a verified manifest by tag or digest; raises :class:`NotThere` if it does not exist."""
        entry = self._entry(target)
        digest = target if entry is None else entry.digest
        if not is_sha256(digest):
            raise NotThere(self.place(target))
        return await asyncio.to_thread(self._manifest, digest, entry.media_type if entry else "")

    async def has_blob(self, digest: str) -> bool:
        """Return whether there is a blob; its content is verified."""
        try:
            await asyncio.to_thread(_verify, self._file(digest), digest)
        except FileNotFoundError:
            return False
        return True

    @asynccontextmanager
    async def blob_file(self, blob: Descriptor) -> AsyncIterator[Path]:
        """Yield the file of a blob, verified; raises :class:`NotThere` if it does not exist."""
        file = self._file(blob.digest)
        try:
            await asyncio.to_thread(_verify, file, blob.digest, blob.size)
        except FileNotFoundError:
            raise NotThere(self.place(blob.digest)) from None
        yield file

    async def add_blob(self, blob: Descriptor, file: Path) -> None:
        """Store a copy of a file as a blob that does not exist."""
        await asyncio.to_thread(self._add_blob, blob, file)

    async def push_manifest(self, raw: bytes, media_type: str, target: str) -> str:
        """Store a manifest by tag or by its digest; return the digest."""
        manifest = read_manifest(raw, media_type, self.place(target))
        words = {} if is_sha256(target) else {REF_NAME: target}
        entry = replace(manifest.descriptor, annotations=words, artifact_type=manifest.artifact_type)
        await asyncio.to_thread(self._store, raw, entry)
        return manifest.digest

    async def referrers(self, digest: str) -> Referrers:
        """Return the entries without a tag that refer to a manifest; those that cannot be read are problems."""
        return await asyncio.to_thread(self._referrers, digest)

    def _entry(self, target: str) -> Descriptor | None:
        return next(
            (entry for entry in self._entries if target in (entry.annotations.get(REF_NAME), entry.digest)), None
        )

    def _file(self, digest: str) -> Path:
        return self._root / "blobs" / "sha256" / digest.removeprefix("sha256:")

    def _manifest(self, digest: str, media_type: str) -> Manifest:
        file = self._file(digest)
        try:
            raw = _read(file)
        except FileNotFoundError:
            raise NotThere(self.place(digest)) from None
        if digest_of(raw) != digest:
            raise _damaged(file, "has other content")
        return read_manifest(raw, media_type, self.place(digest))

    def _referrers(self, digest: str) -> Referrers:
        members, problems = [], []
        for entry in self._entries:
            if REF_NAME in entry.annotations:
                continue
            try:
                subject = self._subject(entry)
            except (SpecError, NotThere) as error:
                problems.append(error.message)
            else:
                members += [entry] if subject == digest else []
        return Referrers(tuple(members), tuple(problems))

    def _subject(self, entry: Descriptor) -> str:
        if entry.digest not in self._subjects:
            subject = self._manifest(entry.digest, entry.media_type).subject
            self._subjects[entry.digest] = subject.digest if subject else ""
        return self._subjects[entry.digest]

    def _begin(self) -> None:
        """Make the directory a layout; the file that marks it is the first one in it, so a later run goes on."""
        self._root.mkdir(parents=True, exist_ok=True)
        if not (self._root / _MARKER).exists():
            replace_file(self._root / _MARKER, _VERSION)
        self._file("").mkdir(parents=True, exist_ok=True)

    def _add_blob(self, blob: Descriptor, file: Path) -> None:
        self._begin()
        place = self._file(blob.digest)
        with tempfile.TemporaryDirectory(prefix=".csctl-", dir=place.parent) as scratch:
            copied = Path(scratch, "blob")
            shutil.copyfile(file, copied)
            _verify(copied, blob.digest)
            with copied.open("rb") as written:
                os.fsync(written.fileno())
            copied.replace(place)
        sync_directory(place.parent)

    def _store(self, raw: bytes, entry: Descriptor) -> None:
        self._begin()
        file = self._file(entry.digest)
        try:
            _verify(file, entry.digest)
        except FileNotFoundError:
            replace_file(file, raw)
        tag = entry.annotations.get(REF_NAME)
        if self._entry(tag or entry.digest) == entry or (not tag and self._entry(entry.digest)):
            return

        def is_replaced(other: Descriptor) -> bool:
            """Match the entry of the same tag, and one of the same manifest without a tag."""
            name = other.annotations.get(REF_NAME)
            return name == tag if name else other.digest == entry.digest

        members = zip(self._entries, self._index.get("manifests") or (), strict=True)
        kept = [(old, member) for old, member in members if not is_replaced(old)]
        self._entries = (*(old for old, _ in kept), entry)
        self._index = {**self._index, "manifests": [*(member for _, member in kept), entry.document()]}
        replace_file(self._root / _INDEX, orjson.dumps(self._index))


def _open(file: Path) -> BufferedReader:
    """Open a regular file; a link, or a pipe that would block the reader, is refused."""
    try:
        handle = os.open(file, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError as error:
        if error.errno == errno.ELOOP:  # the error of O_NOFOLLOW for a link
            raise _damaged(file, "is a link") from None
        raise
    opened = os.fdopen(handle, "rb")
    if not stat.S_ISREG(os.fstat(handle).st_mode):
        opened.close()
        raise _damaged(file, "is not a file")
    return opened


def _read(file: Path) -> bytes:
    with _open(file) as opened:
        raw = opened.read(MAX_MANIFEST_BYTES + 1)
    if len(raw) > MAX_MANIFEST_BYTES:
        raise _damaged(file, f"is larger than {MAX_MANIFEST_BYTES} bytes")
    return raw


def _verify(file: Path, digest: str, size: int | None = None) -> None:
    with _open(file) as opened:
        if size not in (None, os.fstat(opened.fileno()).st_size):
            raise _damaged(file, f"does not have the {size} bytes that a manifest states")
        if f"sha256:{hashlib.file_digest(opened, 'sha256').hexdigest()}" != digest:
            raise _damaged(file, "has other content")


def _damaged(file: Path, problem: str) -> SpecError:
    return SpecError("LayoutDamaged", f"{file} {problem}: remove it, or copy the layout again")
