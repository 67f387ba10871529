"""Reads lists page by page, so that one object that cannot be read costs only itself."""

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

PAGE = 200
"""Objects a page of a list: less than the 500 of client-go's pager, so that a page of Clusters, which have some 400
values each, is decoded at once. Taking a page apart costs more than the requests saved."""

SMALLER = 10
"""By how much a page is made smaller when its answer is too large. Arbitrary: 200, 20, 2, 1."""


@dataclass(slots=True, kw_only=True)
class ListReader:
    """Reads one list.

    Args:
        transport: The server.
        bounds: How much is read.
        target: The kind and namespace.
        accept: The form of the answers.
        selectors: Further query parameters.
    """

    transport: Transport
    bounds: Bounds
    target: RequestTarget
    accept: str
    selectors: Mapping[str, str]
    _items: list[Manifest] = field(default_factory=list)
    _remnants: list[UnreadableObject] = field(default_factory=list)

    async def read(self) -> ObjectList:
        """Read all pages; call it once.

        Raises:
            Unreachable: The list is over a bound, or something else than a list.
        """
        try:
            async with asyncio.timeout(self.bounds.list_time.total_seconds()):
                return await self._pages()
        except TimeoutError:
            raise self._endless(f"takes longer than {self.bounds.list_time}") from None

    async def _pages(self) -> ObjectList:
        token, limit = "", PAGE
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
                limit = max(1, limit // SMALLER)
                continue
            size += len(answer)
            values += estimate_values(answer)
            if size > self.bounds.list_bytes or values > self.bounds.list_values:
                raise self._endless(
                    f"is larger than {self.bounds.list_bytes} bytes or {self.bounds.list_values} values"
                )
            metadata = await self._take(call, answer)
            token = metadata.get("continue") or ""
            if not token:
                return ObjectList(self._items, metadata.get("resourceVersion") or "", tuple(self._remnants))
        raise self._endless(f"does not end after {self.bounds.list_pages} pages")

    async def _take(self, call: Call, answer: bytes) -> Mapping[str, Any]:
        """Keep the items of a page; return its metadata."""
        try:
            try:
                document = decode(answer)
            except Undecodable as error:
                if not error.excess:
                    raise
                document, texts = await read_page(answer)
                for text in texts:
                    await self._take_item(text)
            else:
                items = document.get("items") or []
                if not all(_is_object(item) for item in items):
                    raise TypeError
                self._items += items
            return document.get("metadata") or {}
        except (Undecodable, AttributeError, TypeError):
            raise Unreachable(f"{call.about}: {self.transport.host} answered with something else than a list") from None

    async def _take_item(self, text: bytes) -> None:
        # Each decoding takes milliseconds at most, and other tasks get a turn in between.
        await asyncio.sleep(0)
        try:
            self._items.append(decode(text))
        except Undecodable as error:
            try:
                self._remnants.append(UnreadableObject(await decode_partial(text), str(error)))
            except Undecodable:
                self._remnants.append(UnreadableObject({}, str(error)))

    def _endless(self, why: str) -> Unreachable:
        about = self.target.resource.describe(self.target.namespace)
        return Unreachable(f"list {about}: the list of {self.transport.host} {why}")


def _is_object(item: Any) -> bool:  # noqa: ANN401  # whatever was sent
    return isinstance(item, dict) and isinstance(item.get("metadata"), dict) and "name" in item["metadata"]
