"""GitHub releases on their way: assets are uploaded, verified, and then shown to everybody.

Source: https://docs.github.com/en/rest/releases/assets
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, replace
from hashlib import sha256
from typing import TYPE_CHECKING, Self
from urllib.parse import quote

import orjson
from yarl import URL

from clusterstacks.domain.versions import STABLE
from clusterstacks.http.errors import AnswerRefused, RateLimited, ServerUnavailable
from clusterstacks.http.response import PIECE_BYTES, place
from clusterstacks.sources.downloads import StatedFile
from clusterstacks.sources.github.api_documents import read_asset, read_release

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Mapping
    from pathlib import Path

    from clusterstacks.domain.names import ReleaseName
    from clusterstacks.sources.github.api_documents import Asset, GitHubRelease
    from clusterstacks.sources.github.rest_api import GitHubRepository

UPLOADS = 3
"""How often an asset is uploaded when GitHub fails (arbitrary)."""

_OK, _CREATED, _DELETED, _GONE, _EXISTS = 200, 201, 204, 404, 422


@dataclass(frozen=True, slots=True)
class LocalFile:
    """A file that becomes an asset.

    Args:
        path: Where it is.
        stated: What it must be when it is there.
    """

    path: Path
    stated: StatedFile

    async def pieces(self) -> AsyncIterator[bytes]:
        """Read it, piece by piece."""
        reader = await asyncio.to_thread(self.path.open, "rb")
        try:
            while piece := await asyncio.to_thread(reader.read, PIECE_BYTES):
                yield piece
        finally:
            reader.close()

    def is_equal(self, asset: Asset) -> bool:
        """Tell whether an asset is this file for certain; without a stated digest it is not."""
        return asset.complete and asset.file == self.stated


def local_file(path: Path, digest: str = "") -> LocalFile:
    """Describe a file; its sha256 in hex is computed where it is not given.

    Raises:
        OSError: It cannot be read.
    """
    digest = digest or sha256(path.read_bytes()).hexdigest()
    return LocalFile(path, StatedFile(path.name, f"sha256:{digest}", path.stat().st_size))


class DraftRelease:
    """A release of GitHub that gets assets.

    Args:
        repository: Where.
        release: What GitHub has of it.
        files: What it shall hold, by name.
        report: Called with a line for each upload.
    """

    def __init__(
        self,
        repository: GitHubRepository,
        release: GitHubRelease,
        files: Mapping[str, LocalFile],
        report: Callable[[str], None],
    ) -> None:
        self._repository = repository
        self._release = release
        self._files = files
        self._report = report
        self._url = repository.url(f"releases/{release.number}")

    @classmethod
    async def create(
        cls,
        repository: GitHubRepository,
        name: ReleaseName,
        files: Mapping[str, LocalFile],
        report: Callable[[str], None],
    ) -> Self:
        """Make an empty one."""
        wish = {
            "tag_name": name.release,
            "name": name.release,
            "draft": True,
            "prerelease": name.version.channel != STABLE,
        }
        document = await repository.write(
            "POST", repository.url("releases"), body=orjson.dumps(wish), expect=(_CREATED,)
        )
        return cls(repository, read_release(repository.place, document), files, report)

    @classmethod
    async def resume(
        cls,
        repository: GitHubRepository,
        number: int,
        files: Mapping[str, LocalFile],
        report: Callable[[str], None],
    ) -> Self:
        """Take up one that was left behind."""
        document = await repository.read(repository.url(f"releases/{number}"), {})
        return cls(repository, read_release(repository.place, document), files, report)

    async def fill(self) -> None:
        """Upload what is missing, and remove what does not belong there."""
        kept = await self._clear(self._release.assets)
        for name, file in self._files.items():
            if name not in kept:
                await self._upload(file)

    async def add(self, file: LocalFile) -> None:
        """Upload one file in the place of what has its name; everything else stays."""
        for asset in self._release.assets:
            if asset.file.name == file.stated.name:
                await self._delete(asset)
        await self._upload(file)

    async def publish(self) -> bool:
        """Show it to everybody; False when another release of this tag was faster.

        Raises:
            AnswerRefused: GitHub has other files now than were uploaded.
        """
        document = await self._repository.write(
            "PATCH", self._url, body=orjson.dumps({"draft": False}), expect=(_OK, _EXISTS)
        )
        if document.status == _EXISTS:
            return False
        published = read_release(self._repository.place, document)
        for asset in published.assets:
            self._check(asset)
        if published.draft or len(published.assets) != len(self._files):
            raise AnswerRefused(self._repository.place, f"did not publish {self._release.tag} as it was uploaded")
        return True

    async def discard(self) -> None:
        """Remove it."""
        await self._repository.write("DELETE", self._url, expect=(_DELETED, _GONE))

    async def _clear(self, assets: tuple[Asset, ...]) -> set[str]:
        """Delete the assets that are not as they shall be, and name the others."""
        kept = set()
        for asset in assets:
            wanted = self._files.get(asset.file.name)
            if wanted is not None and wanted.is_equal(asset):
                kept.add(asset.file.name)
            else:
                await self._delete(asset)
        return kept

    async def _delete(self, asset: Asset) -> None:
        url = self._repository.url(f"releases/assets/{asset.number}")
        await self._repository.write("DELETE", url, expect=(_DELETED, _GONE))

    async def _upload(self, file: LocalFile) -> None:
        """Upload a file; an upload that failed half-way leaves an asset that holds its name and must go first."""
        for attempt in range(1, UPLOADS + 1):
            self._report(f"uploading {file.stated.name} ({file.stated.size} bytes)")
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
        raise AnswerRefused(self._repository.place, f"does not take {file.stated.name}: somebody else uploads it, too")

    async def _send(self, file: LocalFile) -> bool:
        url = f"{self._upload_url()}?name={quote(file.stated.name)}"
        document = await self._repository.write(
            "POST", url, body=file.pieces, length=file.stated.size, expect=(_CREATED, _EXISTS)
        )
        if document.status == _EXISTS:
            return False
        self._check(read_asset(self._repository.place, document))
        return True

    async def _remaining(self, file: LocalFile) -> set[str]:
        document = await self._repository.read(self._url, {})
        assets = read_release(self._repository.place, document).assets
        return await self._clear(tuple(asset for asset in assets if asset.file.name == file.stated.name))

    def _check(self, asset: Asset) -> None:
        """Compare an asset with what was sent; a GitHub that states no digest is believed by the size."""
        wanted = self._files.get(asset.file.name)
        stated = asset.file if asset.file.digest or wanted is None else replace(asset.file, digest=wanted.stated.digest)
        if wanted is None or not asset.complete or stated != wanted.stated:
            raise AnswerRefused(self._repository.place, f"has {asset.file.name} with another name or content than sent")

    def _upload_url(self) -> str:
        """Return where assets go: to the API's host, or ``uploads.`` beside ``api.``; nobody else gets the token."""
        url, api = URL(self._release.upload_url.partition("{")[0]), URL(self._repository.place)
        host = api.host or ""
        if url.scheme != api.scheme or url.host not in {host, f"uploads.{host.removeprefix('api.')}"}:
            raise AnswerRefused(self._repository.place, f"wants assets sent to {place(url)}")
        return str(url.with_query(None))
