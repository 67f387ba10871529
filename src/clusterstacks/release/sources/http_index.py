"""Releases on a web server that serves files: a directory of releases with an index.

::

    https://stacks.example/index.json
    https://stacks.example/openstack-scs-1-34-v1.dsse.json        (optional)
    https://stacks.example/openstack-scs-1-34-v1/metadata.yaml
    https://stacks.example/openstack-scs-1-34-v1/...

``index.json`` lists every file of every release with its digest, and the digests of the signature and of the statements
of stages (``<release>.intoto.jsonl``) if there are any; unknown keys are ignored::

    {"releases": {"openstack-scs-1-34-v1": {
        "files": {"metadata.yaml": "sha256:<64 hex digits>", ...},
        "signature": "sha256:<64 hex digits>", "stages": "sha256:<64 hex digits>"}}}

To publish, copy the releases first and the index last. :func:`write_index` writes the index of a directory.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import orjson

from clusterstacks.model.bounded_json import Undecodable, decode
from clusterstacks.model.digests import content_digest, sha256_digest
from clusterstacks.model.documents import shown
from clusterstacks.model.errors import SpecError
from clusterstacks.model.names import parse_release, release_named
from clusterstacks.net.http.conditional_get import UNCHANGED, ConditionalCache
from clusterstacks.net.http.errors import AnswerRefused, NotThere, SourceUnavailable, store_unavailable
from clusterstacks.net.http.messages import HTTPDocument, shown_url
from clusterstacks.release.contents import read_contents
from clusterstacks.release.errors import ReleaseBroken, ReleaseNotFound
from clusterstacks.release.release_source import MAX_RELEASE_BYTES, EnvelopeKind, Evidence
from clusterstacks.release.sources.downloads import DIGEST, ExpectedFile, check_content, check_files, save_body
from clusterstacks.runtime.files import replace_file

if TYPE_CHECKING:
    from collections.abc import Collection
    from pathlib import Path

    from clusterstacks.model.names import ReleaseName
    from clusterstacks.net.http.client import HTTPClient

INDEX = "index.json"

MAX_INDEX_BYTES = 16 * 1024 * 1024
"""Largest index (arbitrary); one release has about 1 KB in it."""


class HttpSource:
    """The releases of an index on any file server.

    The index is requested conditionally (ETag, else Last-Modified), so it is sent again only after a change. Every file
    is verified against it. ``index.json`` and the directories of the releases are below ``url``, which must not have a
    query; ``authorization`` is the value of that header, empty for none.

    All methods raise :class:`SourceUnavailable` without a readable index, :class:`AnswerRefused` if the document is not
    an index, and :class:`CredentialsRefused` if the server requires credentials.
    """

    def __init__(self, web: HTTPClient, url: str, *, authorization: str = "") -> None:
        if {"?", "#"} & set(url):  # not shown: a query may be a secret
            raise SpecError(
                "UrlInvalid", f"the URL of releases must not contain a query or fragment, because /{INDEX} is appended"
            )
        self._web = web
        self._url = url.rstrip("/")
        value = authorization.strip()  # Secrets often end with a line break
        self._headers = {"Authorization": value} if value else {}
        self._index = ConditionalCache(self._read, self._releases, most=1)

    async def list(self) -> tuple[str, ...]:
        """Return the names in the index, sorted."""
        return tuple(sorted(await self._entries()))

    async def digest(self, name: ReleaseName) -> str:
        """Return the digest of the files as the index states them; an invalid entry is :class:`ReleaseBroken`."""
        return content_digest((file.name, file.hex) for file in _files(name, await self._entry(name)))

    async def evidence(self, name: ReleaseName, kind: EnvelopeKind = EnvelopeKind.SIGNATURE) -> Evidence:
        """Return the envelopes beside the release's directory, if the index states their digest."""
        stated = (await self._entry(name)).get(kind)
        if stated is None:
            return Evidence()
        file = ExpectedFile(kind.file(name), _digest(name, kind, stated))
        return kind.read(await self._content(f"{self._url}/{file.name}", file, kind.limit))

    async def read(self, name: ReleaseName, files: Collection[str], limit: int) -> dict[str, bytes]:
        """Return the content of some files, verified by the digests in the index; larger ones are refused.

        A file that is missing or being replaced is :class:`SourceUnavailable`.
        """
        wanted = [file for file in _files(name, await self._entry(name)) if file.name in files]
        return {
            file.name: await self._content(f"{self._url}/{name}/{quote(file.name)}", file, limit) for file in wanted
        }

    async def fetch(self, name: ReleaseName, into: Path) -> None:
        """Download the files of a release and verify each as :meth:`read` does."""
        room = MAX_RELEASE_BYTES
        for file in _files(name, await self._entry(name)):
            url = f"{self._url}/{name}/{quote(file.name)}"
            async with self._web.open("GET", url, headers=self._headers) as answer:
                if answer.status != 200:
                    error = answer.error()
                    raise _missing(url) if isinstance(error, NotThere) else error
                room -= await save_body(answer, file, into, release=name, room=room)

    async def _content(self, url: str, file: ExpectedFile, limit: int) -> bytes:
        try:
            document = await self._web.read(url, limit=limit, headers=self._headers)
        except NotThere:
            raise _missing(url) from None
        check_content(shown_url(url), file, document.body)
        return document.body

    async def _entries(self) -> Mapping[str, object]:
        try:
            return await self._index.get(f"{self._url}/{INDEX}")
        except NotThere as error:
            raise SourceUnavailable(shown_url(self._url), f"it has no {INDEX}; write one with csctl index") from error

    async def _entry(self, name: ReleaseName) -> Mapping[str, Any]:
        entries = await self._entries()
        if name.release not in entries:
            raise ReleaseNotFound(name, shown_url(self._url))
        return _mapping(name, INDEX, entries[name.release])

    async def _read(self, url: str, condition: Mapping[str, str]) -> HTTPDocument:
        also = (UNCHANGED,) if condition else ()
        return await self._web.read(url, limit=MAX_INDEX_BYTES, headers={**self._headers, **condition}, also=also)

    def _releases(self, document: HTTPDocument) -> Mapping[str, object]:
        try:
            releases = decode(document.body)["releases"]
        except (Undecodable, KeyError, TypeError):
            releases = None
        if not isinstance(releases, Mapping):
            raise AnswerRefused(
                shown_url(f"{self._url}/{INDEX}"), 'is not a release index (expected {"releases": {...}})'
            )
        return releases


def write_index(directory: Path) -> bytes:
    """Write ``index.json`` of a directory of releases atomically, and return it; the same files give the same bytes.

    Entries without the name of a release are skipped.

    Raises:
        ReleaseBroken: A release contains an entry that is not a valid file.
    """
    try:
        entries = {path.name: _described(path) for path in sorted(directory.iterdir()) if _is_release(path)}
        index = orjson.dumps({"releases": entries}, option=orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE)
        replace_file(directory / INDEX, index)
    except OSError as error:
        raise store_unavailable(directory, error) from None
    return index


def _is_release(path: Path) -> bool:
    return release_named(path.name) is not None and path.is_dir() and not path.is_symlink()


def _described(path: Path) -> dict[str, object]:
    name = parse_release(path.name)
    files = read_contents(name, path).files
    check_files(name, [ExpectedFile(file) for file in files])
    entry: dict[str, object] = {"files": {file: f"sha256:{digest}" for file, digest in files.items()}}
    for kind in EnvelopeKind:
        if (envelopes := path.with_name(kind.file(name))).is_file():
            entry[kind.value] = sha256_digest(envelopes.read_bytes())
    return entry


def _files(name: ReleaseName, entry: Mapping[str, Any]) -> tuple[ExpectedFile, ...]:
    stated = _mapping(name, "files", entry.get("files"))
    files = tuple(ExpectedFile(file, _digest(name, file, digest)) for file, digest in sorted(stated.items()))
    check_files(name, files)
    return files


def _mapping(name: ReleaseName, what: str, value: object) -> Mapping[str, Any]:
    if not isinstance(value, Mapping):
        raise ReleaseBroken(name, what, f"is {shown(value)} in the index; write the index again")
    return value


def _digest(name: ReleaseName, file: str, value: object) -> str:
    if not isinstance(value, str) or not DIGEST.fullmatch(value):
        raise ReleaseBroken(name, shown(file), f"has the digest {shown(value)} in the index; write the index again")
    return value


def _missing(url: str) -> SourceUnavailable:
    return SourceUnavailable(shown_url(url), f"it does not exist, but {INDEX} lists it; copy it there")
