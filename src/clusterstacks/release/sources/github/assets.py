"""GitHub repository as a source of releases: the assets of its GitHub releases."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from clusterstacks.model.digests import content_digest
from clusterstacks.net.http.conditional_get import ConditionalCache
from clusterstacks.net.http.errors import NotThere, SourceUnavailable
from clusterstacks.release.errors import ReleaseBroken, ReleaseNotFound
from clusterstacks.release.release_source import MAX_RELEASE_BYTES, EnvelopeKind, Evidence
from clusterstacks.release.sources.downloads import check_content, check_files, save_body
from clusterstacks.release.sources.github.api_documents import read_page, read_release
from clusterstacks.release.sources.github.rest_api import API, GitHubRepository

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Collection
    from contextlib import AbstractAsyncContextManager
    from pathlib import Path

    from clusterstacks.model.names import ReleaseName
    from clusterstacks.net.http.client import HTTPClient
    from clusterstacks.net.http.response import HTTPResponse
    from clusterstacks.release.sources.github.api_documents import Asset, GitHubRelease, ReleasePage

MAX_PAGES = 100
"""GitHub lists no more than 10,000 releases, a hundred to a page."""

_GONE = 404
_MOST_RELEASES = 256
"""Most releases in the cache of conditional requests (arbitrary)."""


class GitHubSource:
    """The published releases of a repository, by git tag; titles are ignored.

    Drafts are skipped, even if the token may see them. Pre-releases are listed like others: the version in the name
    shows the channel. Every asset is a file of the release, except those with its envelopes.
    Unchanged documents are not sent again and, with a token, do not count against the rate limit. Requests are sent one
    after the other, as GitHub asks of its clients.

    A token is needed for private repositories, publishing, and more than 60 requests in an hour. ``api`` is
    ``https://api.github.com``, or ``https://<host>/api/v3`` of an Enterprise Server. All methods raise
    :class:`RateLimited` when GitHub asks to wait, and :class:`CredentialsRefused` when it rejects the token.

    Raises:
        SpecError: Owner or repository is not a valid name, or ``api`` is not a valid URL.
    """

    def __init__(self, web: HTTPClient, owner: str, repository: str, *, token: str = "", api: str = API) -> None:
        self.repository = GitHubRepository(web, owner, repository, token=token, api=api)
        self._pages = ConditionalCache(self.repository.read, partial(read_page, self.repository.place), most=MAX_PAGES)
        self._releases = ConditionalCache(
            self.repository.read, partial(read_release, self.repository.place), most=_MOST_RELEASES
        )

    async def list(self) -> tuple[str, ...]:
        """Return the tags of all published releases, sorted, including foreign ones.

        Raises SourceUnavailable if the token sees no such repository.
        """
        return tuple(sorted([tag async for page in self.pages() for tag in page.tags]))

    async def digest(self, name: ReleaseName) -> str:
        """Return the digest of the files; empty unless GitHub states that of each (old Enterprise Servers do not)."""
        files = [asset.file for asset in self._files(name, await self.release(name))]
        if not all(file.digest for file in files):
            return ""
        return content_digest((file.name, file.hex) for file in files)

    async def evidence(self, name: ReleaseName, kind: EnvelopeKind = EnvelopeKind.SIGNATURE) -> Evidence:
        """Return the envelopes among the assets."""
        assets, file = (await self.release(name)).assets, kind.file(name)
        asset = next((asset for asset in assets if asset.complete and asset.file.name == file), None)
        return Evidence() if asset is None else kind.read(await self._content(name, asset, kind.limit))

    async def read(self, name: ReleaseName, files: Collection[str], limit: int) -> dict[str, bytes]:
        """Return the content of some assets; sizes and, where GitHub states them, digests are verified.

        An asset that is being replaced is :class:`SourceUnavailable`.
        """
        wanted = [asset for asset in self._files(name, await self.release(name)) if asset.file.name in files]
        return {asset.file.name: await self._content(name, asset, limit) for asset in wanted}

    async def fetch(self, name: ReleaseName, into: Path) -> None:
        """Download the assets and verify them as :meth:`read` does."""
        room = MAX_RELEASE_BYTES
        for asset in self._files(name, await self.release(name)):
            async with self._download(asset) as answer:
                _check_there(answer)
                room -= await save_body(answer, asset.file, into, release=name, room=room)

    async def pages(self) -> AsyncIterator[ReleasePage]:
        """Read the list of releases, page by page; raises as :meth:`list`."""
        try:
            for number in range(1, MAX_PAGES + 1):
                # The URL of the next page is not taken from the response, so the token is sent to the API only.
                page = await self._pages.get(self.repository.url(f"releases?per_page=100&page={number}"))
                yield page
                if not page.has_next:
                    return
        except NotThere:
            problem = "it does not exist, or is private and the token has no access; correct its name or the token"
            raise SourceUnavailable(self.repository.place, problem) from None

    async def release(self, name: ReleaseName) -> GitHubRelease:
        """Return a published release; a draft, or a release of another tag, counts as not found."""
        try:
            release = await self._releases.get(self.repository.url(f"releases/tags/{name}"))
        except NotThere:
            raise ReleaseNotFound(name, self.repository.place) from None
        if release.draft or release.tag != name.release:
            raise ReleaseNotFound(name, self.repository.place)
        return release

    def _files(self, name: ReleaseName, release: GitHubRelease) -> tuple[Asset, ...]:
        envelopes = {kind.file(name) for kind in EnvelopeKind}
        files = tuple(asset for asset in release.assets if asset.file.name not in envelopes)
        check_files(name, [asset.file for asset in files])
        if not files:
            raise SourceUnavailable(self.repository.place, f"release {name} has no assets yet")
        for asset in files:
            if not asset.complete:
                remedy = "wait, or delete and upload it again"
                raise SourceUnavailable(
                    self.repository.place,
                    f"asset {asset.file.name} of release {name} is not completely uploaded; {remedy}",
                )
        return files

    async def _content(self, name: ReleaseName, asset: Asset, limit: int) -> bytes:
        if (asset.file.size or 0) > limit:
            raise ReleaseBroken(name, asset.file.name, f"is larger than {limit} bytes")
        async with self._download(asset) as answer:
            _check_there(answer)
            content = await answer.read(limit)
            check_content(answer.place, asset.file, content)
        return content

    def _download(self, asset: Asset) -> AbstractAsyncContextManager[HTTPResponse]:
        url = self.repository.url(f"releases/assets/{asset.number}")
        place = f"asset {asset.file.name} of {self.repository.place}"
        return self.repository.open("GET", url, headers={"Accept": "application/octet-stream"}, place=place)


def _check_there(answer: HTTPResponse) -> None:
    if answer.status == _GONE:
        raise SourceUnavailable(answer.place, "it was just deleted; try again")
    if answer.status != 200:
        raise answer.error()
