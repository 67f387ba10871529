"""Reads lists page by page; an object that cannot be decoded does not fail the list."""

from __future__ import annotations

import asyncio
import hashlib
from dataclasses import dataclass, field
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from clusterstacks.model.bounded_json import Undecodable, decode, estimate_values
from clusterstacks.net.kube.errors import ResponseTooLarge, Unreachable
from clusterstacks.net.kube.partial_json import decode_partial, read_page
from clusterstacks.net.kube.requests import RequestTarget, query
from clusterstacks.net.kube.resources import ObjectList, Resource, UnreadableObject
from clusterstacks.net.kube.transport import JSON, Call

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from clusterstacks.model.objects import Manifest
    from clusterstacks.net.kube.limits import Bounds
    from clusterstacks.net.kube.transport import Transport

PAGE_SIZE = 200
"""Objects per page: fewer than the 500 of client-go's pager, so that a page of Clusters (about 400 values each) is
within the limits of one decoding. Splitting a page costs more than additional requests."""

PAGE_DIVISOR = 10
"""Divisor of the page size after a response that is too large (arbitrary: 200, 20, 2, 1)."""

DIGEST_BYTES = 16

METADATA_LIST = f"{JSON};as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,{JSON}"

_ITEMS = b'"items":['


@dataclass(frozen=True, slots=True)
class ListRequest:
    """A list of the objects of one resource; ``labels`` and ``fields`` are selectors in the syntax of kubectl."""

    resource: Resource
    namespace: str = ""
    """Empty for all namespaces."""
    labels: str = ""
    fields: str = ""
    metadata_only: bool = False
    pages: int = 0
    """Maximum number of requests; 0 for the limit of the client."""

    def page(self, token: str = "", limit: int = PAGE_SIZE) -> Call:
        """Return the request of a page; ``token`` is that of the page before, and empty for the first page."""
        target = RequestTarget(self.resource, self.namespace)
        accept = METADATA_LIST if self.metadata_only else JSON
        return target.call("list", _page_query(token, limit, self.labels, self.fields), accept=accept)


@lru_cache(maxsize=64)
def _page_query(token: str, limit: int, labels: str, fields: str) -> str:
    """Return the query of a page; cached, because the lists of a sweep have equal ones."""
    return query(limit=str(limit), **{"continue": token}, labelSelector=labels, fieldSelector=fields)


def unchanged_list(page: bytes | None, known: bytes) -> ObjectList | None:
    """Return the list of a first page without decoding its objects, if its digest is ``known``.

    None if the page was not read, there are further pages, or the digest differs.
    """
    content = hashlib.blake2b(digest_size=DIGEST_BYTES)
    metadata = _add_to_digest(content, page) if page is not None and known else None
    if metadata is None or metadata.get("continue") or content.digest() != known:
        return None
    return ObjectList([], metadata["resourceVersion"], digest=known, unchanged=True)


@dataclass(slots=True, kw_only=True)
class ListReader:
    """Reads one list."""

    transport: Transport
    bounds: Bounds
    request: ListRequest
    first_page: bytes | None = None
    """The response to the request of the first page, if it was already read."""
    known: bytes | None = None
    """The ``digest`` of a list whose objects need not be read again; None computes no digest."""
    _items: list[Manifest] = field(default_factory=list)
    _unreadable: list[UnreadableObject] = field(default_factory=list)
    _values: int = 0

    async def read(self) -> ObjectList:
        """Read all pages, once; raise Unreachable if the list exceeds a limit or the response is not a list."""
        try:
            async with asyncio.timeout(self.bounds.list_time.total_seconds()):
                return await self._read_pages()
        except TimeoutError:
            raise self._limit_error(f"takes longer than {self.bounds.list_time}") from None

    async def _read_pages(self) -> ObjectList:
        token, limit = "", PAGE_SIZE
        size = 0
        content = hashlib.blake2b(digest_size=DIGEST_BYTES)
        pages: list[bytes] | None = [] if self.known is not None else None
        most = self.request.pages or self.bounds.list_pages
        for _ in range(most):
            answer, self.first_page = self.first_page, None
            try:
                answer = answer or await self.transport.send(self.request.page(token, limit))
            except ResponseTooLarge:
                if limit == 1:
                    raise
                limit = max(1, limit // PAGE_DIVISOR)
                continue
            size += len(answer)
            if size > self.bounds.list_bytes:
                raise self._limit_error(f"is larger than {self.bounds.list_bytes} bytes")
            metadata = _add_to_digest(content, answer) if pages is not None else None
            if pages is not None and metadata is not None:
                pages.append(answer)
            else:
                await self._add_pages(pages)
                pages = None
                metadata = await self._add_page(answer)
            token = metadata.get("continue") or ""
            if not token:
                return await self._complete(metadata, pages, content.digest())
        raise self._limit_error(f"does not end after {most} pages")

    async def _complete(self, metadata: Mapping[str, Any], pages: list[bytes] | None, digest: bytes) -> ObjectList:
        version = metadata.get("resourceVersion") or ""
        if pages is not None and digest == self.known:
            return ObjectList([], version, digest=digest, unchanged=True)
        await self._add_pages(pages)
        return ObjectList(self._items, version, tuple(self._unreadable), digest if pages is not None else b"")

    async def _add_pages(self, pages: Iterable[bytes] | None) -> None:
        for page in pages or ():
            # Each decoding takes milliseconds; other tasks run in between.
            await asyncio.sleep(0)
            await self._add_page(page)

    async def _add_page(self, answer: bytes) -> Mapping[str, Any]:
        """Add the items of a page; return the list metadata."""
        self._values += estimate_values(answer)
        if self._values > self.bounds.list_values:
            raise self._limit_error(f"has more than {self.bounds.list_values} values")
        try:
            try:
                document = decode(answer)
            except Undecodable as error:
                if not error.excess:
                    raise
                document, texts = await read_page(answer)
                for text in texts:
                    await self._add_item(text)
            else:
                items = document.get("items") or []
                if not all(_is_object(item) for item in items):
                    raise TypeError
                self._items += items
            return document.get("metadata") or {}
        except (Undecodable, AttributeError, TypeError):
            about = self.request.page().about
            raise Unreachable(f"{about}: the response of {self.transport.host} is not a list") from None

    async def _add_item(self, text: bytes) -> None:
        # Each decoding takes milliseconds at most; other tasks run in between.
        await asyncio.sleep(0)
        try:
            self._items.append(decode(text))
        except Undecodable as error:
            try:
                self._unreadable.append(UnreadableObject(await decode_partial(text), str(error)))
            except Undecodable:
                self._unreadable.append(UnreadableObject({}, str(error)))

    def _limit_error(self, why: str) -> Unreachable:
        return Unreachable(f"{self.request.page().about}: the list of {self.transport.host} {why}")


def _add_to_digest(content: hashlib.blake2b, page: bytes) -> Mapping[str, Any] | None:
    """Add the items of a page to a digest without decoding them; return the list metadata.

    The metadata of the list contains its resource version, which changes with every write to the cluster. It precedes
    the items in all lists of built-in kinds, and in lists of metadata. None for other lists, and what is not a list.
    """
    head, begin, items = page.partition(_ITEMS)
    if not begin:
        return None
    try:
        metadata = decode(head + begin + b"]}").get("metadata")
    except (Undecodable, AttributeError):
        return None
    if not isinstance(metadata, dict) or not metadata.get("resourceVersion"):
        return None
    content.update(items)
    return metadata


def _is_object(item: Any) -> bool:  # noqa: ANN401  # any JSON value
    return isinstance(item, dict) and isinstance(item.get("metadata"), dict) and "name" in item["metadata"]
