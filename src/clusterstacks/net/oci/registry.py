"""One repository of an OCI registry."""

from __future__ import annotations

import tempfile
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from yarl import URL

from clusterstacks.net.http.errors import AnswerRefused, CredentialsRefused
from clusterstacks.net.oci.blob_download import download, read_part
from clusterstacks.net.oci.blob_upload import Upload, digest_file, next_location
from clusterstacks.net.oci.credentials import ANONYMOUS, RegistryCredentials
from clusterstacks.net.oci.descriptor import Descriptor, digest_of
from clusterstacks.net.oci.errors import ContentCorrupt
from clusterstacks.net.oci.manifests import (
    MAX_MANIFEST_BYTES,
    SUBJECT_HEADER,
    Manifest,
    find_digest,
    get_manifest,
    put_manifest,
    read_manifest,
)
from clusterstacks.net.oci.referrers import Referrers, add_to_index, list_referrers, read_index
from clusterstacks.net.oci.session import PUSH, RegistryAccess, Session, parse_page, read_pages, registry_error
from clusterstacks.net.oci.transfers import TransferProgress, silent

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, AsyncIterator

    from clusterstacks.net.http.client import HTTPClient
    from clusterstacks.net.oci.reference import Reference

PAGE = 1000
"""Tags requested per page; a registry may return fewer."""

MAX_TAGS = 100_000
"""Most tags of a repository (arbitrary: some 10 MB)."""

MAX_TAG_PAGE_BYTES = 8 * 1024 * 1024
"""Largest page of tags (arbitrary; some registries give all tags in one)."""


class Registry:
    """One repository: every method may raise ``CredentialsRefused``, ``AnswerRefused`` and ``ServerUnavailable``.

    Tag and digest of the reference are ignored. ``plain_http`` says that the registry speaks plain HTTP, which ``web``
    must allow; on this machine it is detected.
    """

    def __init__(
        self,
        web: HTTPClient,
        reference: Reference,
        credentials: RegistryCredentials = ANONYMOUS,
        *,
        plain_http: bool = False,
        progress: TransferProgress = silent,
    ) -> None:
        self.reference = reference.at("")
        self._session = Session(web, self.reference, credentials, plain_http=plain_http)
        self._progress = progress

    def place(self, target: str) -> str:
        """Return the name of a tag or digest in messages."""
        return str(self.reference.at(target))

    async def tags(self) -> tuple[str, ...]:
        """Return all tags, sorted; raise NotThere if the registry has no such repository."""
        names: set[str] = set()
        async for document in read_pages(self._session, f"tags/list?n={PAGE}", limit=MAX_TAG_PAGE_BYTES, headers={}):
            tags = parse_page(document, self._session).get("tags") or []
            if not isinstance(tags, list) or not all(isinstance(tag, str) for tag in tags):
                raise AnswerRefused(self.reference.place, "returned tags that are not a list of strings")
            names.update(tags)
            if len(names) > MAX_TAGS:
                raise AnswerRefused(self.reference.place, f"has more than {MAX_TAGS} tags")
        return tuple(sorted(names))

    async def head(self, target: str) -> str | None:
        """Return the digest of the manifest with a tag or digest; None if and only if the registry answers 404."""
        return await find_digest(self._session, target)

    async def manifest(self, target: str, limit: int = MAX_MANIFEST_BYTES) -> Manifest:
        """Pull a manifest of at most ``limit`` bytes and verify it against the requested or stated digest.

        Raises:
            NotThere: It does not exist.
            ContentCorrupt: It has another digest.
            SpecError: It is not a manifest.
        """
        return await get_manifest(self._session, target, limit)

    async def has_blob(self, digest: str) -> bool:
        """Return whether the repository has a blob."""
        async with self._session.open("HEAD", f"blobs/{digest}", access=PUSH) as answer:
            if answer.status not in (200, 404):
                raise await registry_error(answer)
            return answer.status == 200

    async def blob_size(self, digest: str) -> int:
        """Return the size of a blob in bytes; raise NotThere without such a blob."""
        async with self._session.open("HEAD", f"blobs/{digest}") as answer:
            if answer.status != 200:
                raise await registry_error(answer)
            size = answer.headers.get("Content-Length", "")
        if not (size.isdecimal() and len(size) < 18):
            raise AnswerRefused(f"{self.reference.place}@{digest}", "has no size")
        return int(size)

    def blob_part(self, digest: str, start: int, length: int) -> AsyncGenerator[bytes]:
        """Yield ``length`` bytes of a blob from ``start`` on as they arrive, unverified; the caller closes it.

        It is not resumed: ServerUnavailable says that the rest is missing. Raises NotThere.
        """
        return read_part(self._session, digest, start, length)

    async def blob(self, blob: Descriptor, into: Path) -> None:
        """Write a blob to a file that does not exist, resumed when the connection breaks, and verified.

        There is no file when it fails. Raises NotThere, ContentCorrupt, or DependencyError if the disk is full or
        read-only.
        """
        await download(self._session, blob, into, self._progress)

    async def small_blob(self, blob: Descriptor, limit: int) -> bytes:
        """Return a blob of at most ``limit`` bytes; raise NotThere, or ContentCorrupt for another digest."""
        place = f"{self.reference.place}@{blob.digest}"
        if blob.size > limit:
            raise AnswerRefused(place, f"has {blob.size} bytes, and at most {limit} are read")
        content = (await self._session.read(f"blobs/{blob.digest}", limit=blob.size)).body
        if (digest := digest_of(content)) != blob.digest:
            raise ContentCorrupt(place, expected=blob.digest, found=digest)
        return content

    @asynccontextmanager
    async def blob_file(self, blob: Descriptor) -> AsyncIterator[Path]:
        """Yield a temporary file with a blob, verified. Raises as :meth:`blob`."""
        with tempfile.TemporaryDirectory(prefix="csctl-") as directory:
            file = Path(directory, "blob")
            await self.blob(blob, file)
            yield file

    async def add_blob(self, blob: Descriptor, file: Path) -> None:
        """Upload a verified file as a blob that does not exist; an OSError means that it cannot be read."""
        await Upload(self._session, blob, file, self._progress).run()

    async def push_blob(self, content: bytes | Path, *, title: str = "") -> str:
        """Upload bytes or a file unless the blob exists; return its digest. ``title`` names it in the progress."""
        blob = await _describe(content, title)
        if not await self.has_blob(blob.digest):
            await Upload(self._session, blob, content, self._progress).run()
        return blob.digest

    async def mount(self, digest: str, origin: str) -> bool:
        """Mount a blob from the repository ``origin`` of the same registry; False when the registry refuses."""
        path = str(URL("blobs/uploads/").with_query({"mount": digest, "from": origin}))
        try:
            async with self._session.open(
                "POST", path, access=RegistryAccess(PUSH.actions, origin), body=b""
            ) as answer:
                if answer.status >= 500:
                    raise await registry_error(answer)
                unused = next_location(self._session, answer) if answer.status == 202 else None
                mounted = answer.status == 201
        except CredentialsRefused:
            return False  # the credentials may not read that repository
        if unused is not None:
            # The registry started an upload instead, which is not used.
            async with self._session.open("DELETE", unused, access=PUSH):
                pass
        return mounted

    async def push_manifest(self, raw: bytes, media_type: str, target: str = "") -> str:
        """Push a manifest by tag, or by its digest without a tag; return the digest.

        A manifest with a subject becomes its referrer, also in registries without such lists. Raises ContentCorrupt if
        the registry reports another digest.
        """
        manifest = read_manifest(raw, media_type, self.reference.place)
        headers = await put_manifest(self._session, raw, media_type, target or manifest.digest)
        if manifest.subject is not None and SUBJECT_HEADER not in headers:
            referrer = Descriptor(
                manifest.media_type, manifest.digest, len(raw), manifest.annotations, manifest.artifact_type
            )
            await add_to_index(self._session, manifest.subject.digest, referrer)
        return manifest.digest

    async def referrers(self, digest: str, artifact_type: str = "") -> Referrers:
        """Return the unverified referrers of a manifest, of one artifact type or of all."""
        listed = await list_referrers(self._session, digest, artifact_type)
        return await read_index(self._session, digest, artifact_type) if listed is None else listed


async def _describe(content: bytes | Path, title: str) -> Descriptor:
    digest, size = await digest_file(content) if isinstance(content, Path) else (digest_of(content), len(content))
    words = {"org.opencontainers.image.title": title} if title else {}
    return Descriptor("application/octet-stream", digest, size, words)
