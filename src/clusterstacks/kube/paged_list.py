"""Reads lists page by page; an object that cannot be decoded does not fail the list."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from clusterstacks.api.bounded_json import Undecodable, decode, estimate_values
from clusterstacks.kube.errors import ResponseTooLarge, Unreachable
from clusterstacks.kube.partial_json import decode_partial, read_page
from clusterstacks.kube.requests import query
from clusterstacks.kube.resources import ObjectList, UnreadableObject

if TYPE_CHECKING:
    from collections.abc import Mapping

    from clusterstacks.domain.objects import Manifest
    from clusterstacks.kube.limits import Bounds
    from clusterstacks.kube.requests import RequestTarget
    from clusterstacks.kube.transport import Call, Transport

PAGE_SIZE = 200
"""Objects per page: fewer than the 500 of client-go's pager, so that a page of Clusters (about 400 values each) is
within the limits of one decoding. Splitting a page costs more than additional requests."""

PAGE_DIVISOR = 10
"""Divisor of the page size after a response that is too large (arbitrary: 200, 20, 2, 1)."""


@dataclass(slots=True, kw_only=True)
class ListReader:
    """Reads one list.

    Args:
        transport: The server.
        bounds: Limits on what is read.
        target: The resource and namespace.
        accept: Accept header.
        selectors: Label and field selectors as query parameters.
    """

    transport: Transport
    bounds: Bounds
    target: RequestTarget
    accept: str
    selectors: Mapping[str, str]
    _items: list[Manifest] = field(default_factory=list)
    _unreadable: list[UnreadableObject] = field(default_factory=list)

    async def read(self) -> ObjectList:
        """Read all pages. Call it only once.

        Raises:
            Unreachable: The list exceeds a limit, or the response is not a list.
        """
        try:
            async with asyncio.timeout(self.bounds.list_time.total_seconds()):
                return await self._read_pages()
        except TimeoutError:
            raise self._limit_error(f"takes longer than {self.bounds.list_time}") from None

    async def _read_pages(self) -> ObjectList:
        token, limit = "", PAGE_SIZE
        size = values = 0
        for _ in range(self.bounds.list_pages):
            call = self.target.call(
                "list", query(limit=str(limit), **{"continue": token}, **self.selectors), accept=self.accept
            )
            try:
                answer = await self.transport.send(call)
            except ResponseTooLarge:
                if limit == 1:
                    raise
                limit = max(1, limit // PAGE_DIVISOR)
                continue
            size += len(answer)
            values += estimate_values(answer)
            if size > self.bounds.list_bytes or values > self.bounds.list_values:
                raise self._limit_error(
                    f"is larger than {self.bounds.list_bytes} bytes or {self.bounds.list_values} values"
                )
            metadata = await self._add_page(call, answer)
            token = metadata.get("continue") or ""
            if not token:
                return ObjectList(self._items, metadata.get("resourceVersion") or "", tuple(self._unreadable))
        raise self._limit_error(f"does not end after {self.bounds.list_pages} pages")

    async def _add_page(self, call: Call, answer: bytes) -> Mapping[str, Any]:
        """Add the items of a page; return the list metadata."""
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
            raise Unreachable(f"{call.about}: the response of {self.transport.host} is not a list") from None

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
        about = self.target.resource.describe(self.target.namespace)
        return Unreachable(f"list {about}: the list of {self.transport.host} {why}")


def _is_object(item: Any) -> bool:  # noqa: ANN401  # any JSON value
    return isinstance(item, dict) and isinstance(item.get("metadata"), dict) and "name" in item["metadata"]
