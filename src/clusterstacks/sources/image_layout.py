"""Image layouts (image-spec 1.1 ``image-layout.md``): repositories on disk, for example to cross an air gap.

Every tag of every repository is an entry of ``index.json`` with the name ``<repository>:<tag>``; a manifest without a
tag has the name ``<repository>@<digest>``. Blobs and manifests are stored once, by digest.
"""

from __future__ import annotations

import asyncio
import shutil
import tempfile
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import orjson

from clusterstacks.domain.errors import SpecError
from clusterstacks.http.errors import AnswerRefused, NotThere
from clusterstacks.oci.blob_upload import digest_file
from clusterstacks.oci.descriptor import Descriptor, describe, digest_of
from clusterstacks.oci.errors import ContentCorrupt
from clusterstacks.oci.manifests import MAX_MANIFEST_BYTES, OCI_INDEX, read_manifest
from clusterstacks.oci.reference import Reference
from clusterstacks.oci.referrers import Referrers
from clusterstacks.runtime.files import replace_file

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator, Mapping

    from clusterstacks.oci.manifests import Manifest

ARTIFACT_TYPE = "application/vnd.cluster-stacks.bundle.v1"
"""Artifact type of the ``index.json`` that this module writes; other layouts are not changed."""

REF_NAME = "org.opencontainers.image.ref.name"

HOST = "layout.local"
"""Registry of the references of an image layout, for messages; no request is sent to it."""

MAX_INDEX_BYTES = 16 * 1024 * 1024
"""Largest index.json (arbitrary: 50,000 entries)."""

_MARKER = "oci-layout"
_INDEX = "index.json"


class ImageLayout:
    """An image layout of several repositories.

    Args:
        root: Its directory.
        entries: The descriptor of each manifest in ``index.json``, by its name.
    """

    def __init__(self, root: Path, entries: dict[str, Descriptor]) -> None:
        self.root = root
        self.entries = entries

    @classmethod
    def open(cls, root: Path) -> ImageLayout:
        """Open a layout that was saved.

        Raises:
            SpecError: It is not one, or it is damaged.
            OSError: It cannot be read.
        """
        file = root / _INDEX
        if not (root / _MARKER).is_file() or not file.is_file():
            raise SpecError("NotALayout", f"{root} is not a layout of 'csctl bundle create': correct the path")
        with file.open("rb") as opened:
            content = opened.read(MAX_INDEX_BYTES + 1)
        if len(content) > MAX_INDEX_BYTES:
            raise SpecError("NotALayout", f"{file} is larger than {MAX_INDEX_BYTES} bytes: create the layout again")
        index = read_manifest(content, OCI_INDEX, str(file))
        if index.document.get("artifactType") != ARTIFACT_TYPE:
            raise SpecError("NotALayout", f"{root} was not written by 'csctl bundle create': choose another directory")
        return cls(root, {one.annotations.get(REF_NAME, one.digest): one for one in index.all_manifests})

    @classmethod
    def create(cls, root: Path) -> ImageLayout:
        """Begin a layout without entries; blobs of an earlier one are used again.

        Raises:
            SpecError: The directory has other content.
            OSError: It cannot be written.
        """
        if (root / _INDEX).is_file():
            cls.open(root)  # or an error
        elif root.is_dir() and any(root.iterdir()):
            raise SpecError("NotALayout", f"{root} has other content: choose a new or empty directory")
        root.joinpath("blobs", "sha256").mkdir(parents=True, exist_ok=True)
        (root / _MARKER).write_bytes(orjson.dumps({"imageLayoutVersion": "1.0.0"}))
        if not (root / _INDEX).is_file():
            replace_file(root / _INDEX, _index({}))
        return cls(root, {})

    def save(self) -> str:
        """Write the index, delete what it does not need, and return its digest: equal content has equal digests.

        Raises:
            SpecError: A manifest is damaged.
            OSError: The directory cannot be written.
        """
        found = {
            (_split(name)[0], digest)
            for name, one in self.entries.items()
            for digest in (*(() if "@" in name else (one.digest,)), *self._members(one))
        }
        for name, one in tuple(self.entries.items()):
            is_found = "@" in name and (_split(name)[0], one.digest) in found
            if is_found and self.read(one.digest).subject is None:
                del self.entries[name]  # by its tag or index, so it needs no name of its own
        content = _index(self.entries)
        replace_file(self.root / _INDEX, content)
        needed = {digest for one in self.entries.values() for digest in self.sizes(one)}
        for file in self.path("").iterdir():
            if f"sha256:{file.name}" not in needed:
                shutil.rmtree(file) if file.is_dir() else file.unlink()
        return digest_of(content)

    def repositories(self) -> tuple[str, ...]:
        """Return the names of all repositories, sorted."""
        return tuple(sorted({_split(name)[0] for name in self.entries}))

    def repository(self, name: str) -> LayoutRepository:
        """Return a repository, which may be empty."""
        return LayoutRepository(self, name)

    def path(self, digest: str) -> Path:
        """Return the file of a blob or manifest."""
        return self.root / "blobs" / "sha256" / digest.removeprefix("sha256:")

    def read(self, digest: str, limit: int = MAX_MANIFEST_BYTES) -> Manifest:
        """Read a manifest.

        Raises:
            SpecError: It is missing, too large or damaged.
        """
        file = self.path(digest)
        try:
            with file.open("rb") as opened:
                raw = opened.read(limit + 1)
        except FileNotFoundError:
            raise _damaged(self.root, digest, "is missing") from None
        if len(raw) > limit or digest_of(raw) != digest:
            raise _damaged(self.root, digest, "has other content")
        return read_manifest(raw, "", str(file))

    def sizes(self, entry: Descriptor) -> dict[str, int]:
        """Return the size of a manifest and of everything below it, by digest.

        Raises:
            SpecError: A manifest is damaged.
        """
        manifests, blobs, waiting = dict[str, int](), dict[str, int](), [entry.digest]
        while waiting:
            digest = waiting.pop()
            if digest not in manifests:
                manifest = self.read(digest)
                manifests[digest] = len(manifest.raw)
                blobs |= {blob.digest: blob.size for blob in manifest.blobs}
                waiting.extend(child.digest for child in manifest.all_manifests)
        return manifests | blobs

    def _members(self, entry: Descriptor) -> tuple[str, ...]:
        return tuple(child.digest for child in self.read(entry.digest).all_manifests)


class LayoutRepository:
    """One repository of an image layout."""

    def __init__(self, layout: ImageLayout, name: str) -> None:
        self._layout = layout
        self._name = name
        self.reference = Reference(HOST, name)

    @property
    def scratch(self) -> Path:
        """The directory of the blobs, so that a download is moved and not copied."""
        return self._layout.path("")

    async def tags(self) -> tuple[str, ...]:
        """Return all tags, sorted."""
        return tuple(sorted(target for target in self.targets() if not target.startswith("sha256:")))

    def targets(self) -> Iterator[str]:
        """Yield all tags, and the digests of manifests that have a name of their own."""
        for name in self._layout.entries:
            repository, target = _split(name)
            if repository == self._name:
                yield target

    async def head(self, target: str) -> str | None:
        """Return the digest of the manifest with a tag or digest; None without such an entry of the layout."""
        entry = self._layout.entries.get(self._key(target))
        return None if entry is None else entry.digest

    async def manifest(self, target: str, limit: int = MAX_MANIFEST_BYTES) -> Manifest:
        """Return a verified manifest.

        Raises:
            NotThere: It does not exist.
            SpecError: It is damaged.
        """
        # Members of an index have no entry.
        digest = target if target.startswith("sha256:") else await self.head(target)
        if digest is None or not self._layout.path(digest).is_file():
            raise NotThere(self.reference.at(target))
        return await asyncio.to_thread(self._layout.read, digest, limit)

    async def has_blob(self, digest: str) -> bool:
        """Return whether the layout has a blob with the right content; another one is deleted."""
        file = self._layout.path(digest)
        if not file.is_file():
            return False
        found, _ = await digest_file(file)
        if found != digest:
            file.unlink()
        return found == digest

    async def blob(self, blob: Descriptor, into: Path) -> None:
        """Copy a blob to a new file, verified."""
        async with self.blob_file(blob, None) as file:
            await asyncio.to_thread(shutil.copyfile, file, into)

    async def small_blob(self, blob: Descriptor, limit: int) -> bytes:
        """Return a blob of at most ``limit`` bytes, verified."""
        if blob.size > limit:
            raise AnswerRefused(self._layout.path(blob.digest), f"has {blob.size} bytes, and at most {limit} are read")
        async with self.blob_file(blob, None) as file:
            return await asyncio.to_thread(file.read_bytes)

    @asynccontextmanager
    async def blob_file(self, blob: Descriptor, scratch: Path | None) -> AsyncIterator[Path]:  # noqa: ARG002 - Repository
        """Yield the file of a blob, verified."""
        file = self._layout.path(blob.digest)
        if not file.is_file():
            raise _damaged(self._layout.root, blob.digest, "is missing")
        found, _ = await digest_file(file)
        if found != blob.digest:
            raise _damaged(self._layout.root, blob.digest, "has other content")
        yield file

    async def push_blob(self, content: bytes | Path, *, title: str = "") -> str:  # noqa: ARG002 - Repository
        """Store a blob unless it exists; return its digest."""
        if isinstance(content, bytes):
            digest = digest_of(content)
            if not await self.has_blob(digest):
                await asyncio.to_thread(replace_file, self._layout.path(digest), content)
            return digest
        digest, size = await digest_file(content)
        if not await self.has_blob(digest):
            await self.add_blob(Descriptor("application/octet-stream", digest, size), content)
        return digest

    async def add_blob(self, blob: Descriptor, file: Path) -> None:
        """Move a file out of ``scratch`` to its place, or copy another file."""
        place = self._layout.path(blob.digest)
        if not file.is_relative_to(self._layout.root):
            with tempfile.TemporaryDirectory(prefix=".csctl-", dir=self.scratch) as scratch:
                copied = Path(scratch, "blob")
                await asyncio.to_thread(shutil.copyfile, file, copied)
                found, _ = await digest_file(copied)
                if found != blob.digest:
                    raise ContentCorrupt(file, expected=blob.digest, found=found)
                await asyncio.to_thread(copied.replace, place)
            return
        await asyncio.to_thread(file.replace, place)

    async def mount(self, digest: str, origin: str) -> bool:  # noqa: ARG002 - Repository
        """Return False: blobs of all repositories are stored once anyway."""
        return False

    async def push_manifest(self, raw: bytes, media_type: str, target: str = "") -> str:
        """Store a manifest by tag, or by its digest without a tag; return the digest."""
        manifest = read_manifest(raw, media_type, self.reference.place)
        await asyncio.to_thread(replace_file, self._layout.path(manifest.digest), raw)
        entry = describe(raw, manifest.media_type)
        self._layout.entries[self._key(target or manifest.digest)] = entry
        return manifest.digest

    async def referrers(self, digest: str, artifact_type: str = "") -> Referrers:
        """Return the referrers of a manifest in this repository."""
        return Referrers(tuple(await asyncio.to_thread(lambda: [*self._referrers(digest, artifact_type)])))

    def _referrers(self, digest: str, artifact_type: str) -> Iterator[Descriptor]:
        for target in self.targets():
            if target.startswith("sha256:"):
                manifest = self._layout.read(target)
                subject = manifest.subject
                if subject and subject.digest == digest and artifact_type in ("", manifest.artifact_type):
                    yield replace(manifest.descriptor, artifact_type=manifest.artifact_type)

    def _key(self, target: str) -> str:
        return f"{self._name}{'@' if target.startswith('sha256:') else ':'}{target}"


def _index(entries: Mapping[str, Descriptor]) -> bytes:
    members = [replace(one, annotations={REF_NAME: name}).document() for name, one in sorted(entries.items())]
    document = {"schemaVersion": 2, "mediaType": OCI_INDEX, "artifactType": ARTIFACT_TYPE, "manifests": members}
    return orjson.dumps(document)


def _split(name: str) -> tuple[str, str]:
    """Split the name of an entry into repository and tag or digest."""
    repository, at, digest = name.partition("@")
    if at:
        return repository, digest
    repository, _, tag = name.rpartition(":")
    return repository, tag


def _damaged(root: Path, digest: str, problem: str) -> SpecError:
    return SpecError("LayoutDamaged", f"{root}: blob {digest} {problem}; create or copy the layout again")
