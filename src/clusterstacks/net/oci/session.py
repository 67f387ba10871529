"""Requests to one repository: address, authorization, errors, and lists in pages."""

from __future__ import annotations

import asyncio
import re
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import orjson
from yarl import URL

from clusterstacks.model.bounded_json import decode_object
from clusterstacks.model.documents import shown
from clusterstacks.model.errors import ClusterStacksError, DependencyError
from clusterstacks.net.http.errors import AnswerRefused, CredentialsRefused
from clusterstacks.net.http.messages import HTTPDocument, shown_url
from clusterstacks.net.http.urls import follow, is_loopback
from clusterstacks.net.oci.authorization import Authorization

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, AsyncIterator, Mapping

    from clusterstacks.net.http.client import HTTPClient
    from clusterstacks.net.http.messages import Body
    from clusterstacks.net.http.response import HTTPResponse
    from clusterstacks.net.oci.credentials import RegistryCredentials
    from clusterstacks.net.oci.reference import Reference


@dataclass(frozen=True, slots=True)
class RegistryAccess:
    """The permissions that a request needs: actions as in the scopes of tokens, such as ``pull,push``."""

    actions: str
    origin: str = ""
    """Another repository that must be readable, for a mount; empty for none."""


PULL = RegistryAccess("pull")
PUSH = RegistryAccess("pull,push")

_MAX_ERROR_BYTES = 16 * 1024


class Session:
    """One repository of one registry; ``plain_http`` is detected for a registry on this machine."""

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
        """Send a request; the caller handles all statuses except 401, 429 and 5xx.

        ``target`` is a path below the repository, or a URL from the registry: other hosts get no credentials.
        ``length`` is the size of a body that is not ``bytes``. Raises CredentialsRefused, ServerUnavailable, or
        AnswerRefused if the challenge of the registry is not valid.
        """
        root, authorization = await self._resolve()
        url = target if isinstance(target, URL) else self._below(root, target)
        own = _origin(url) == _origin(root)
        scope = self._scope(access)
        try:
            for again in (True, False):
                known = authorization.headers(scope) if own else {}
                async with self._web.open(
                    method, str(url), headers={**(headers or {}), **known}, body=body, length=length
                ) as answer:
                    if not (again and own and answer.status == 401):
                        yield answer
                        return
                    challenges = answer.headers.getall("WWW-Authenticate", [])
                    error = answer.error()
                if not await authorization.answer(challenges, scope, known):
                    raise error
        except CredentialsRefused as refused:
            raise CredentialsRefused(self.reference.place, refused.status, self._credentials.described) from None

    async def read(
        self,
        target: str | URL,
        *,
        limit: int,
        headers: Mapping[str, str] | None = None,
    ) -> HTTPDocument:
        """Read a document of at most ``limit`` bytes; raise NotThere for a 404, AnswerRefused for other statuses."""
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
        """Resolve the next URL from the registry; raise AnswerRefused if it is less secure, or internal."""
        target = follow(URL(base), location)
        if target is None:
            raise AnswerRefused(shown_url(base), "redirects to an unsafe URL")
        return target

    def _scope(self, access: RegistryAccess) -> str:
        own = f"repository:{self.reference.repository}:{access.actions}"
        return f"{own} repository:{access.origin}:{PULL.actions}" if access.origin else own

    async def _resolve(self) -> tuple[URL, Authorization]:
        async with self._resolving:
            if self._resolved is not None:
                return self._resolved
            host = self.reference.host
            speaks_plain = self._plain_http or await speaks_plain_http(self._web, host)
            root = registry_url(host, plain_http=bool(speaks_plain))
            resolved = root, Authorization(self._web, root, self._credentials)
            # A registry without an answer is tried again later, because it may have been down.
            self._resolved = None if speaks_plain is None else resolved
            return resolved


async def speaks_plain_http(web: HTTPClient, host: str) -> bool | None:
    """Detect whether a registry on this machine speaks plain HTTP: with TLS it answers 400. Sends no credentials.

    False for other machines, and None without an answer.
    """
    root = registry_url(host, plain_http=True)
    if not is_loopback(root):
        return False
    try:
        async with web.open("GET", f"{root}/v2/") as answer:
            return answer.status != 400
    except DependencyError:
        return None


def registry_url(host: str, *, plain_http: bool) -> URL:
    """Return the URL of a registry, without a path."""
    return URL(f"{'http' if plain_http else 'https'}://{host}")


def _origin(url: URL) -> tuple[str, str | None, int | None]:
    return url.scheme, url.host, url.port  # with the default port of the scheme


async def registry_error(answer: HTTPResponse) -> ClusterStacksError:
    """Return the error for an unexpected answer, with the registry's code and message if it has them."""
    error = answer.error()
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
    """Yield the pages of a list, each of at most ``limit`` bytes; raise NotThere if the list does not exist."""
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
            raise AnswerRefused(session.reference.place, "returned a list with too many pages")
        seen.add(str(target))


def parse_page(document: HTTPDocument, session: Session) -> dict[str, Any]:
    """Parse a page; raise AnswerRefused if it is not a JSON object."""
    page = decode_object(document.body)
    if page is None:
        raise AnswerRefused(session.reference.place, "returned a list that is not a JSON object")
    return page
