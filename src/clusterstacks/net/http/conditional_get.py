"""Cache of documents that are requested often and rarely change (ETag, Last-Modified)."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass
from typing import TYPE_CHECKING, Generic, TypeVar

from clusterstacks.net.http.errors import AnswerRefused

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping

    from clusterstacks.net.http.messages import HTTPDocument

    Read = Callable[[str, Mapping[str, str]], Awaitable[HTTPDocument]]

T = TypeVar("T")
UNCHANGED = 304


@dataclass(frozen=True, slots=True)
class _Kept(Generic[T]):
    condition: Mapping[str, str]
    value: T


class ConditionalCache(Generic[T]):
    """Keeps the values of documents, and requests a document only if it changed (RFC 9110 section 13).

    ``read`` may return a document of status 304 only if it gets headers. The least recently used of more than ``most``
    documents is dropped first.
    """

    def __init__(self, read: Read, parse: Callable[[HTTPDocument], T], *, most: int) -> None:
        self._read = read
        self._parse = parse
        self._most = most
        self._kept: OrderedDict[str, _Kept[T]] = OrderedDict()

    async def get(self, url: str) -> T:
        """Return the current value of a document; raises what ``read`` and ``parse`` raise."""
        kept = self._kept.get(url)
        document = await self._read(url, kept.condition if kept else {})
        if document.status != UNCHANGED:
            kept = _Kept(_condition(document.headers), self._parse(document))
        if kept is None:
            raise AnswerRefused(url, "reports no change of a document that was never read")
        self._remember(url, kept)
        return kept.value

    def _remember(self, url: str, kept: _Kept[T]) -> None:
        self._kept.pop(url, None)
        if kept.condition:
            self._kept[url] = kept
            while len(self._kept) > self._most:
                self._kept.popitem(last=False)


def _condition(headers: Mapping[str, str]) -> Mapping[str, str]:
    if etag := headers.get("ETag"):
        return {"If-None-Match": etag}
    modified = headers.get("Last-Modified")
    return {"If-Modified-Since": modified} if modified else {}
