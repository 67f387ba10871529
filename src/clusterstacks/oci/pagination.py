"""Lists that come in pages, each naming the next one in its ``Link`` header (RFC 8288)."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from yarl import URL

from clusterstacks.api.bounded_json import Undecodable, decode
from clusterstacks.http.errors import AnswerRefused

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Mapping

    from clusterstacks.http.response import HTTPDocument
    from clusterstacks.oci.session import Session

MAX_PAGES = 1000
"""Most pages of a list read (arbitrary; registries give 100 to 1000 tags a page)."""

_NEXT = re.compile(r'<([^<>]{1,4096})>\s*;[^<]*?\brel\s*=\s*"?next\b', re.IGNORECASE)


async def read_pages(
    session: Session, first: str, *, limit: int, headers: Mapping[str, str]
) -> AsyncGenerator[HTTPDocument, None]:
    """Read a list page by page.

    Args:
        session: The repository.
        first: Path of the first page.
        limit: Most bytes of a page.
        headers: Sent along.

    Raises:
        NotThere: There is no such list.
        AnswerRefused: It has no end.
        CredentialsRefused: The registry does not accept who asks.
        ServerUnavailable: It cannot be reached.
    """
    target: str | URL = first
    seen: set[str] = set()
    while True:
        document = await session.read(target, limit=limit, headers=headers)
        yield document
        following = _NEXT.search(document.headers.get("Link", ""))
        if following is None:
            return
        base = str(target) if isinstance(target, URL) else str(await session.url(target))
        target = session.location(base, following[1])
        if str(target) in seen or len(seen) >= MAX_PAGES:
            raise AnswerRefused(session.reference.place, "gives a list that has no end")
        seen.add(str(target))


def parse_page(document: HTTPDocument, session: Session) -> dict[str, Any]:
    """Read the JSON object a page is.

    Raises:
        AnswerRefused: It is none.
    """
    try:
        page = decode(document.body)
    except Undecodable:
        page = None
    if not isinstance(page, dict):
        raise AnswerRefused(session.reference.place, "gives a list that is no JSON object")
    return page
