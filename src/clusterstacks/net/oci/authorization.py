"""Authorization at a registry: Basic, or a bearer token for a repository and its actions.

Source: distribution/distribution ``docs/spec/auth/token.md`` and ``oauth.md``.
"""

from __future__ import annotations

import asyncio
import re
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from yarl import URL

from clusterstacks.model.bounded_json import decode_object
from clusterstacks.net.http.errors import AnswerRefused
from clusterstacks.net.http.urls import follow
from clusterstacks.net.oci.credentials import ANONYMOUS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from clusterstacks.net.http.client import HTTPClient
    from clusterstacks.net.oci.credentials import RegistryCredentials

MAX_ANSWER_BYTES = 256 * 1024
"""Largest response of a token server (arbitrary; a token has a few KB)."""

DEFAULT_LIFE_SECONDS = 60.0
"""Default lifetime of a token (docs/spec/auth/token.md)."""

MARGIN_SECONDS = 10.0
"""Remaining lifetime below which a token is not used (arbitrary: it must last for one request)."""

CLIENT = "cluster-stacks"


@dataclass(frozen=True, slots=True)
class _Token:
    text: str = field(repr=False)
    ends: float


class Authorization:
    """Authorization at one registry, cached per scope (``repository:<name>:pull,push``).

    Only a plain HTTP registry may name a plain HTTP token server. ``now`` is a monotonic clock in seconds.
    """

    def __init__(
        self,
        web: HTTPClient,
        registry: URL,
        credentials: RegistryCredentials,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self._web = web
        self._registry = registry
        self._credentials = credentials
        self._now = now
        self._basic = False
        self._answering = asyncio.Lock()
        self._tokens: dict[str, _Token] = {}

    def headers(self, scope: str) -> dict[str, str]:
        """Return the headers of a request; there are none before the registry has sent a challenge."""
        if self._basic:
            return {"Authorization": f"Basic {self._credentials.basic}"}
        token = self._tokens.get(scope)
        if token is None or token.ends - MARGIN_SECONDS <= self._now():
            return {}
        return {"Authorization": f"Bearer {token.text}"}

    async def answer(self, challenges: Iterable[str], scope: str, sent: Mapping[str, str]) -> bool:
        """Answer the challenges (``WWW-Authenticate``) of a 401; False when it could only repeat what was refused.

        ``sent`` is the result of :meth:`headers` for the refused request. Raises AnswerRefused if the response of the
        token server is not valid, or its URL is not safe.
        """
        async with self._answering:
            if self.headers(scope) not in ({}, sent):
                return True  # another request got one meanwhile
            for challenge in parse_challenges(challenges):
                if challenge.scheme == "bearer":
                    return await self._get_token(challenge, scope)
                if challenge.scheme == "basic" and self._credentials.username and not self._basic:
                    self._basic = True
                    return True
            return False

    async def _get_token(self, challenge: Challenge, scope: str) -> bool:
        # A token that was just refused would be refused again.
        refused = self._tokens.pop(scope, None)
        if self._credentials.token:
            self._tokens[scope] = _Token(self._credentials.token, float("inf"))
            return refused is None
        document = await self._ask(self._realm(challenge), challenge, scope)
        text = document.get("token") or document.get("access_token")
        if not isinstance(text, str) or not text.isprintable():
            raise AnswerRefused(f"the token server of {self._registry.host}", "answered without a token")
        life = document.get("expires_in")
        seconds = float(life) if isinstance(life, (int, float)) and life > 0 else DEFAULT_LIFE_SECONDS
        self._tokens[scope] = _Token(text, self._now() + max(seconds, MARGIN_SECONDS + 1))
        return refused is None or refused.text != text

    def _realm(self, challenge: Challenge) -> URL:
        """Return the URL of the token server, which gets the credentials: it must be as safe as the registry."""
        realm = follow(self._registry, challenge.parameters.get("realm", ""))
        if realm is None or realm == self._registry:
            raise AnswerRefused(self._registry, "names a token server with an unsafe URL")
        return realm

    async def _ask(self, realm: URL, challenge: Challenge, scope: str) -> dict[str, Any]:
        wanted = list(dict.fromkeys(part for part in (scope, challenge.parameters.get("scope", "")) if part))
        service = challenge.parameters.get("service", "")
        if self._credentials.identity:
            return await self._exchange(realm, service, wanted)
        headers = {}
        if self._credentials != ANONYMOUS:
            headers["Authorization"] = f"Basic {self._credentials.basic}"
        query = [*([("service", service)] if service else []), *(("scope", part) for part in wanted)]
        url = realm.extend_query(query)
        document = await self._web.read(str(url), limit=MAX_ANSWER_BYTES, headers=headers)
        return self._parse(document.body)

    async def _exchange(self, realm: URL, service: str, wanted: list[str]) -> dict[str, Any]:
        form = {
            "grant_type": "refresh_token",
            "service": service,
            "client_id": CLIENT,
            "scope": " ".join(wanted),
            "refresh_token": self._credentials.identity,
        }
        body = URL.build(query=form).raw_query_string.encode()
        headers = {"Content-Type": "application/x-www-form-urlencoded"}
        async with self._web.open("POST", str(realm), headers=headers, body=body) as answer:
            if answer.status != 200:
                raise answer.error()
            return self._parse(await answer.read(MAX_ANSWER_BYTES))

    def _parse(self, body: bytes) -> dict[str, Any]:
        document = decode_object(body)
        if document is None:
            raise AnswerRefused(f"the token server of {self._registry.host}", "did not answer with a JSON object")
        return document


MAX_CHARACTERS = 8192
"""Most characters of a header that are parsed (arbitrary; servers refuse longer ones)."""

# Blanks are matched once (``*+``): trying fewer of them would take time that grows with their square.
_SCHEME = re.compile(r"\s*+,?\s*+([A-Za-z0-9!#$%&'*+.^_`|~-]+)(?:\s+(?![\s=])|\s*$)")
_PARAMETER = re.compile(r"\s*+,?\s*+([A-Za-z0-9_-]+)\s*=\s*(?:\"((?:[^\"\\]|\\.)*)\"|([^\s,\"]+))")


@dataclass(frozen=True, slots=True)
class Challenge:
    """One challenge of ``WWW-Authenticate`` (RFC 9110 section 11.6.1); scheme and names are in lower case."""

    scheme: str
    parameters: Mapping[str, str]


def parse_challenges(headers: Iterable[str]) -> tuple[Challenge, ...]:
    """Parse the values of ``WWW-Authenticate``; an invalid part ends the parsing of its header."""
    return tuple(challenge for header in headers for challenge in _parse(header[:MAX_CHARACTERS]))


def _parse(header: str) -> list[Challenge]:
    challenges, position = [], 0
    while scheme := _SCHEME.match(header, position):
        position, parameters = scheme.end(), {}
        while parameter := _PARAMETER.match(header, position):
            name, quoted, plain = parameter.groups()
            parameters[name.lower()] = re.sub(r"\\(.)", r"\1", quoted) if quoted is not None else plain
            position = parameter.end()
        challenges.append(Challenge(scheme[1].lower(), parameters))
    return challenges
