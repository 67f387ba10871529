"""Publishing a release directory as a GitHub release."""

from __future__ import annotations

import asyncio
import tempfile
from dataclasses import dataclass, replace
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import quote

import orjson
from yarl import URL

from clusterstacks.model.errors import SpecError
from clusterstacks.model.names import parse_release
from clusterstacks.model.versions import STABLE
from clusterstacks.net.http.errors import AnswerRefused, RateLimited, ServerUnavailable, store_unavailable
from clusterstacks.net.http.messages import PIECE_BYTES, shown_url
from clusterstacks.release.contents import read_contents
from clusterstacks.release.errors import ReleaseNotFound, ReleaseTaken, images_not_held
from clusterstacks.release.open import open_directory
from clusterstacks.release.release_source import EnvelopeKind
from clusterstacks.release.sources.downloads import ExpectedFile
from clusterstacks.release.sources.github.api_documents import read_asset, read_release

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Mapping

    from clusterstacks.model.names import ReleaseName
    from clusterstacks.release.sources.github.api_documents import Asset, GitHubRelease
    from clusterstacks.release.sources.github.assets import GitHubSource
    from clusterstacks.release.sources.github.rest_api import GitHubRepository


@dataclass(frozen=True, slots=True)
class _Local:
    """A release directory to be published, with the envelopes beside it."""

    name: ReleaseName
    digest: str
    files: Mapping[str, LocalFile]
    envelopes: Mapping[str, LocalFile]

    @property
    def everything(self) -> dict[str, LocalFile]:
        """The files and the envelopes: all of them become assets."""
        return {**self.files, **self.envelopes}


async def publish(directory: Path, source: GitHubSource, report: Callable[[str], None]) -> bool:
    """Publish the files of a directory and the envelopes beside it; return whether anything changed.

    The release is verified first. It is a draft, invisible to others, until all its assets are uploaded and verified;
    an existing draft is completed, also that of an earlier call that failed. GitHub creates the tag on the default
    branch unless it exists. A release of another channel than stable is marked as a pre-release, so that GitHub never
    shows it as the latest one. Raises ReleaseTaken if the release is already published with other content.
    """
    if not source.repository.may_write:
        raise SpecError("TokenMissing", f"publishing to {source.repository.place} needs a token; set GIT_ACCESS_TOKEN")
    local = await asyncio.to_thread(_gather, directory)
    published = await _published(source, local.name)
    if published is not None:
        return await _complete(local, published, source, report)
    draft = await _draft(source, local, report)
    await draft.fill()
    if await draft.publish():
        return True
    faster = await _published(source, local.name)
    if faster is None:
        raise AnswerRefused(source.repository.place, f"does not publish the draft of {local.name}")
    await draft.discard()
    return await _complete(local, faster, source, report)


def _gather(directory: Path) -> _Local:
    directory = directory.absolute()
    name = parse_release(directory.name)
    try:
        release = open_directory(directory)
        if (images := release.node_images()) and images.artifacts:
            raise images_not_held("GitHub")
        contents = release.contents
        files = {file: local_file(directory / file, digest) for file, digest in contents.files.items()}
        beside = [directory.with_name(kind.file(name)) for kind in EnvelopeKind]
        return _Local(name, contents.digest, files, {file.name: local_file(file) for file in beside if file.is_file()})
    except OSError as error:
        raise store_unavailable(directory, error) from None


async def _published(source: GitHubSource, name: ReleaseName) -> GitHubRelease | None:
    try:
        return await source.release(name)
    except ReleaseNotFound:
        return None


async def _complete(
    local: _Local, published: GitHubRelease, source: GitHubSource, report: Callable[[str], None]
) -> bool:
    """Compare with the published release; add missing and newer envelopes."""
    digest = await source.digest(local.name) or await _downloaded(source, local.name)
    if digest != local.digest:
        raise ReleaseTaken(f"release {local.name} in {source.repository.place}")
    present = {asset.file for asset in published.assets if asset.complete}
    newer = [file for file in local.envelopes.values() if file.stated not in present]
    for file in newer:
        await DraftRelease(source.repository, published, local.envelopes, report).add(file)
    return bool(newer)


async def _downloaded(source: GitHubSource, name: ReleaseName) -> str:
    """Download a release to compute its digest, when GitHub does not state it."""
    with tempfile.TemporaryDirectory(prefix="cluster-stacks-") as directory:
        await source.fetch(name, Path(directory))
        return (await asyncio.to_thread(read_contents, name, Path(directory))).digest


async def _draft(source: GitHubSource, local: _Local, report: Callable[[str], None]) -> DraftRelease:
    drafts: dict[str, int] = {}
    async for page in source.pages():
        drafts.update(page.drafts)
    repository, number = source.repository, drafts.get(local.name.release)
    if number is None:
        wish = {
            "tag_name": local.name.release,
            "name": local.name.release,
            "draft": True,
            "prerelease": local.name.version.channel != STABLE,
        }
        url = repository.url("releases")
        document = await repository.write("POST", url, body=orjson.dumps(wish), expect=(_CREATED,))
    else:
        document = await repository.read(repository.url(f"releases/{number}"), {})
    return DraftRelease(repository, read_release(repository.place, document), local.everything, report)


UPLOADS = 3
"""Most uploads of an asset when GitHub fails (arbitrary). The HTTP client does not retry an upload: a failed one leaves
an asset, which must be deleted first."""

_OK, _CREATED, _DELETED, _GONE, _EXISTS = 200, 201, 204, 404, 422


@dataclass(frozen=True, slots=True)
class LocalFile:
    """A file that is uploaded as an asset; ``stated`` is the expected asset."""

    path: Path
    stated: ExpectedFile

    async def pieces(self) -> AsyncIterator[bytes]:
        """Read the file in bounded pieces, for an upload that can be repeated."""
        reader = await asyncio.to_thread(self.path.open, "rb")
        try:
            while piece := await asyncio.to_thread(reader.read, PIECE_BYTES):
                yield piece
        finally:
            reader.close()

    def is_equal(self, asset: Asset) -> bool:
        """Return whether an asset certainly is this file; false without a stated digest."""
        return asset.complete and asset.file == self.stated


def local_file(path: Path, digest: str = "") -> LocalFile:
    """Describe a file; its sha256 in hex is computed when it is not given."""
    digest = digest or sha256(path.read_bytes()).hexdigest()
    return LocalFile(path, ExpectedFile(path.name, f"sha256:{digest}", path.stat().st_size))


@dataclass(frozen=True, slots=True)
class DraftRelease:
    """A GitHub release to which the wanted files are uploaded, each reported with a line."""

    repository: GitHubRepository
    release: GitHubRelease
    files: Mapping[str, LocalFile]
    report: Callable[[str], None]

    @property
    def _url(self) -> str:
        return self.repository.url(f"releases/{self.release.number}")

    async def fill(self) -> None:
        """Upload missing files, and remove other assets."""
        kept = await self._clear(self.release.assets)
        for name, file in self.files.items():
            if name not in kept:
                await self._upload(file)

    async def add(self, file: LocalFile) -> None:
        """Upload one file and replace the asset of that name; other assets stay."""
        for asset in self.release.assets:
            if asset.file.name == file.stated.name:
                await self._delete(asset)
        await self._upload(file)

    async def publish(self) -> bool:
        """Publish the draft; False when another release of this tag was published first.

        Raises:
            AnswerRefused: GitHub has other files than were uploaded.
        """
        document = await self.repository.write(
            "PATCH", self._url, body=orjson.dumps({"draft": False}), expect=(_OK, _EXISTS)
        )
        if document.status == _EXISTS:
            return False
        published = read_release(self.repository.place, document)
        for asset in published.assets:
            self._check(asset)
        if published.draft or len(published.assets) != len(self.files):
            raise AnswerRefused(self.repository.place, f"did not publish {self.release.tag} as it was uploaded")
        return True

    async def discard(self) -> None:
        """Delete the draft."""
        await self.repository.write("DELETE", self._url, expect=(_DELETED, _GONE))

    async def _clear(self, assets: tuple[Asset, ...]) -> set[str]:
        """Delete the wrong assets, and return the names of the others."""
        kept = set()
        for asset in assets:
            wanted = self.files.get(asset.file.name)
            if wanted is not None and wanted.is_equal(asset):
                kept.add(asset.file.name)
            else:
                await self._delete(asset)
        return kept

    async def _delete(self, asset: Asset) -> None:
        url = self.repository.url(f"releases/assets/{asset.number}")
        await self.repository.write("DELETE", url, expect=(_DELETED, _GONE))

    async def _upload(self, file: LocalFile) -> None:
        """Upload a file; a failed upload leaves an asset with its name, which is deleted first."""
        for attempt in range(1, UPLOADS + 1):
            self.report(f"uploading {file.stated.name} ({file.stated.size} bytes)")
            try:
                if await self._send(file):
                    return
            except RateLimited:
                raise
            except ServerUnavailable:
                if attempt == UPLOADS:
                    raise
            if file.stated.name in await self._remaining(file):
                return
        raise AnswerRefused(
            self.repository.place, f"does not accept {file.stated.name}; another client uploads it at the same time"
        )

    async def _send(self, file: LocalFile) -> bool:
        url = f"{self._upload_url()}?name={quote(file.stated.name)}"
        document = await self.repository.write(
            "POST", url, body=file.pieces, length=file.stated.size, expect=(_CREATED, _EXISTS)
        )
        if document.status == _EXISTS:
            return False
        self._check(read_asset(self.repository.place, document))
        return True

    async def _remaining(self, file: LocalFile) -> set[str]:
        document = await self.repository.read(self._url, {})
        assets = read_release(self.repository.place, document).assets
        return await self._clear(tuple(asset for asset in assets if asset.file.name == file.stated.name))

    def _check(self, asset: Asset) -> None:
        """Compare an asset with the uploaded file; by size alone when GitHub states no digest."""
        wanted = self.files.get(asset.file.name)
        stated = asset.file if asset.file.digest or wanted is None else replace(asset.file, digest=wanted.stated.digest)
        if wanted is None or not asset.complete or stated != wanted.stated:
            raise AnswerRefused(self.repository.place, f"has {asset.file.name} with another name or content than sent")

    def _upload_url(self) -> str:
        """Return the upload URL: the API's host, or ``uploads.`` instead of ``api.``; no other host gets the token."""
        url, api = URL(self.release.upload_url.partition("{")[0]), URL(self.repository.api)
        host = api.host or ""
        if url.scheme != api.scheme or url.host not in {host, f"uploads.{host.removeprefix('api.')}"}:
            raise AnswerRefused(self.repository.place, f"wants assets sent to {shown_url(url)}")
        return str(url.with_query(None))
