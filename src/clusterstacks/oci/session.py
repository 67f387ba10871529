"""Requests to one repository: address, authorization, errors, and lists in pages."""

from __future__ import annotations

import asyncio
import re
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import orjson
from yarl import URL

from clusterstacks.api.bounded_json import Undecodable, decode
from clusterstacks.domain.documents import shown
from clusterstacks.domain.errors import ClusterStacksError, DependencyError
from clusterstacks.http.errors import AnswerRefused, CredentialsRefused
from clusterstacks.http.messages import HTTPDocument, shown_url, status_error
from clusterstacks.http.urls import follow, is_loopback
from clusterstacks.oci.authorization import Authorization

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, AsyncIterator, Mapping

    from clusterstacks.http.client import HTTPClient
    from clusterstacks.http.messages import Body, HTTPResponse
    from clusterstacks.oci.credentials import RegistryCredentials
    from clusterstacks.oci.reference import Reference


@dataclass(frozen=True, slots=True)
class RegistryAccess:
    """What a request needs to be allowed.

    Args:
        actions: In the repository, as scopes of tokens name them.
        origin: Another repository that must be readable, for a mount; empty for none.
    """

    actions: str
    origin: str = ""


PULL = RegistryAccess("pull")
PUSH = RegistryAccess("pull,push")

_MAX_ERROR_BYTES = 16 * 1024


class Session:
    """One repository of one registry.

    Args:
        web: What carries the requests.
        reference: Which repository.
        credentials: Who asks.
        plain_http: Whether the registry speaks plain HTTP. One on this machine is asked.
    """

    def __init__(
        self, web: HTTPClient, reference: Reference, credentials: RegistryCredentials, *, plain_http: bool = False
    ) -> None:
        self.reference = reference
        self._web = web
        self._credentials = credentials
        self._plain_http = plain_http
        self._resolving = asyncio.Lock()
        self._resolved: tuple[URL, Authorization] | None = None

    @asynccontextmanager
    async def open(
        self,
        method: str,
        target: str | URL,
        *,
        access: RegistryAccess = PULL,
        headers: Mapping[str, str] | None = None,
        body: Body | None = None,
        length: int | None = None,
    ) -> AsyncIterator[HTTPResponse]:
        """Send a request; any status but 401, 429 and 5xx is the caller's to judge.

        Args:
            method: GET, HEAD, PUT, ...
            target: A path below the repository, or a URL the registry gave: another host gets no credentials.
            access: What it needs to be allowed.
            headers: Sent along.
            body: What to send, or what makes it anew.
            length: Bytes of ``body``, where that is no ``bytes``.

        Raises:
            CredentialsRefused: The registry does not accept who asks.
            ServerUnavailable: It cannot be reached.
            AnswerRefused: It asks for what cannot be given.
        """
        try:
            async with self._sent(method, target, access, headers, body, length) as answer:
                yield answer
        except CredentialsRefused as error:
            raise CredentialsRefused(self.reference.place, error.status, self._credentials.described) from None

    @asynccontextmanager
    async def _sent(
        self,
        method: str,
        target: str | URL,
        access: RegistryAccess,
        headers: Mapping[str, str] | None,
        body: Body | None,
        length: int | None,
    ) -> AsyncIterator[HTTPResponse]:
        root, authorization = await self._resolve()
        url = target if isinstance(target, URL) else self._below(root, target)
        own = _origin(url) == _origin(root)
        scope = self._scope(access)
        for again in (True, False):
            known = authorization.headers(scope) if own else {}
            async with self._web.open(
                method, str(url), headers={**(headers or {}), **known}, body=body, length=length
            ) as answer:
                if not (again and own and answer.status == 401):
                    yield answer
                    return
                challenges = answer.headers.getall("WWW-Authenticate", [])
                error = status_error(answer)
            if not await authorization.answer(challenges, scope, known):
                raise error

    async def read(
        self,
        target: str | URL,
        *,
        limit: int,
        headers: Mapping[str, str] | None = None,
    ) -> HTTPDocument:
        """Read a small document.

        Raises:
            NotThere: The registry says 404.
            AnswerRefused: It answers with another status, or too much.
            CredentialsRefused: It does not accept who asks.
            ServerUnavailable: It cannot be reached.
        """
        async with self.open("GET", target, headers=headers) as answer:
            if answer.status != 200:
                raise await registry_error(answer)
            return HTTPDocument(answer.status, answer.headers, await answer.read(limit))

    async def url(self, path: str) -> URL:
        """Return the URL of a path below the repository."""
        root, _ = await self._resolve()
        return self._below(root, path)

    def _below(self, root: URL, path: str) -> URL:
        return URL(f"{root}/v2/{self.reference.repository}/{path}", encoded=True)

    def location(self, base: str, location: str) -> URL:
        """Resolve where the registry sends its client next, which must not lead to a weaker or an inner place.

        Raises:
            AnswerRefused: It does.
        """
        target = follow(URL(base), location)
        if target is None:
            raise AnswerRefused(shown_url(base), "sends its client to a place that is no safe URL")
        return target

    def _scope(self, access: RegistryAccess) -> str:
        own = f"repository:{self.reference.repository}:{access.actions}"
        return f"{own} repository:{access.origin}:{PULL.actions}" if access.origin else own

    async def _resolve(self) -> tuple[URL, Authorization]:
        async with self._resolving:
            if self._resolved is not None:
                return self._resolved
            plain = URL(f"http://{self.reference.host}")
            speaks_plain: bool | None = self._plain_http
            if not self._plain_http and is_loopback(plain):
                speaks_plain = await self._speaks_plain(plain)
            root = plain if speaks_plain else URL(f"https://{self.reference.host}")
            resolved = root, Authorization(self._web, root, self._credentials)
            # One that did not answer is asked again: it may have been down.
            self._resolved = None if speaks_plain is None else resolved
            return resolved

    async def _speaks_plain(self, root: URL) -> bool | None:
        """Ask a registry on this machine, without credentials; one that speaks TLS says 400 to plain HTTP.

        None when there is no answer.
        """
        try:
            async with self._web.open("GET", f"{root}/v2/") as answer:
                return answer.status != 400
        except DependencyError:
            return None


def _origin(url: URL) -> tuple[str, str | None, int | None]:
    return url.scheme, url.host, url.port  # with the port of the scheme where the URL names none


async def registry_error(answer: HTTPResponse) -> ClusterStacksError:
    """Return the error for an answer that is none, with the registry's own code and words where it gives some."""
    error = status_error(answer)
    if not isinstance(error, AnswerRefused):
        return error
    reason = ""
    with suppress(ClusterStacksError, orjson.JSONDecodeError, LookupError, TypeError):
        first = orjson.loads(await answer.read(_MAX_ERROR_BYTES))["errors"][0]
        reason = f" ({shown(first['code'])}: {shown(first.get('message'))})"
    return AnswerRefused(answer.place, f"answers with status {answer.status}{reason}")


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
