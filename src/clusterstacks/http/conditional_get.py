"""Documents that are asked for again and again and rarely change."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass
from typing import TYPE_CHECKING, Generic, TypeVar

from clusterstacks.http.errors import AnswerRefused

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping

    from clusterstacks.http.messages import HTTPDocument

    Read = Callable[[str, Mapping[str, str]], Awaitable[HTTPDocument]]

T = TypeVar("T")
UNCHANGED = 304


@dataclass(frozen=True, slots=True)
class _Kept(Generic[T]):
    condition: Mapping[str, str]
    value: T


class ConditionalCache(Generic[T]):
    """Remembers what documents said, and asks the server whether they still say it (RFC 9110 section 13).

    Args:
        read: Reads a URL with headers added; may return a document of status 304 only when there are some.
        parse: Makes the value of a document.
        most: How many documents are remembered; the one not asked for the longest is forgotten first.
    """

    def __init__(self, read: Read, parse: Callable[[HTTPDocument], T], *, most: int) -> None:
        self._read = read
        self._parse = parse
        self._most = most
        self._kept: OrderedDict[str, _Kept[T]] = OrderedDict()

    async def get(self, url: str) -> T:
        """Return what the document says now; raises what ``read`` and ``parse`` raise."""
        kept = self._kept.get(url)
        document = await self._read(url, kept.condition if kept else {})
        if document.status != UNCHANGED:
            kept = _Kept(_condition(document.headers), self._parse(document))
        if kept is None:
            raise AnswerRefused(url, "says that it did not change, but was never read")
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
