"""Client of GitHub's REST API for one repository, with its rate limits."""

from __future__ import annotations

import re
import time
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from yarl import URL

from clusterstacks.model.errors import SpecError
from clusterstacks.net.http.conditional_get import UNCHANGED
from clusterstacks.net.http.errors import CredentialsRefused, RateLimited, ServerUnavailable
from clusterstacks.net.http.messages import HTTPDocument
from clusterstacks.net.retry import retry_after

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Collection, Mapping

    from clusterstacks.net.http.client import HTTPClient
    from clusterstacks.net.http.messages import Body
    from clusterstacks.net.http.response import HTTPResponse

API = "https://api.github.com"

MAX_DOCUMENT_BYTES = 32 * 1024 * 1024
"""Largest document (arbitrary): a hundred releases with notes of 125,000 characters have 12 MB."""

_MAX_REFUSAL_BYTES = 64 * 1024
_OWNER = re.compile(r"[A-Za-z0-9_-]{1,39}")
_REPOSITORY = re.compile(r"(?!\.{1,2}$)[A-Za-z0-9._-]{1,100}")
_API_PATH = "/api/v3"
_CLOUD = re.compile(r"api\.(github\.com|[a-z0-9-]{1,63}\.ghe\.com)")
"""Hosts of github.com and of GitHub Enterprise Cloud, which serve the API at their root."""

_FORBIDDEN = 403
_HIDDEN = 404
_FAILING = 500


def _api_refused(stack: object, api: str, expected: str) -> SpecError:
    """Return the error for an API at an unexpected path; the allowlist is compared without that path."""
    return SpecError(
        "SourceNotAllowed",
        f"ClusterStack {stack}: spec.source.github.url is {api}, but the API of a GitHub Enterprise Server is only "
        f"at {_API_PATH}; write {expected}",
    )


def completed_api(api: str, stack: object) -> str:
    """Return the URL of the API that a ClusterStack means; its path is a fixed one, and any other is refused.

    Source: https://docs.github.com/en/enterprise-server@3.20/rest/using-the-rest-api/getting-started-with-the-rest-api
    """
    try:
        parts = urlsplit(api)
    except ValueError:
        raise _api_refused(stack, api, f"https://HOST{_API_PATH}") from None
    root = f"{parts.scheme}://{parts.netloc}"
    if parts.path.rstrip("/") not in ("", _API_PATH):
        raise _api_refused(stack, api, f"{root}{_API_PATH}")
    in_cloud = _CLOUD.fullmatch(parts.netloc.lower()) and not parts.path.rstrip("/")
    return root if in_cloud else f"{root}{_API_PATH}"


class GitHubRepository:
    """One repository, accessed with one token (personal or app access token; empty for public access).

    Raises:
        SpecError: Owner or repository is not a valid name, or ``api`` is not a valid URL.
    """

    def __init__(self, web: HTTPClient, owner: str, repository: str, *, token: str = "", api: str = API) -> None:
        if not (_OWNER.fullmatch(owner) and _REPOSITORY.fullmatch(repository)):
            raise SpecError("RepositoryInvalid", "the GitHub repository is not valid (expected github://owner/name)")
        self._web = web
        self._token = token.strip()  # Secrets often end with a line break
        self._rate_limit = RateLimit()
        self.api = _base(api)
        self._root = f"{self.api}/repos/{owner}/{repository}"
        self.place = f"github://{owner}/{repository}" + ("" if self.api == API else f" of {self.api}")
        """Name of the repository in messages."""

    @property
    def _who(self) -> str:
        return "a token was sent" if self._token else "no token was sent"

    @property
    def may_write(self) -> bool:
        """True if there is a token; whether it may write is known only when it is used."""
        return bool(self._token)

    def url(self, path: str) -> str:
        """Return the URL of a resource of this repository."""
        return f"{self._root}/{path}"

    async def read(self, url: str, condition: Mapping[str, str]) -> HTTPDocument:
        """Read a document; its status is 304 when it did not change.

        Raises:
            NotThere: The status is 404, also for a private repository without access.
            CredentialsRefused: GitHub rejects the token.
            RateLimited: GitHub asks to wait, or did so before.
            ServerUnavailable: GitHub cannot be reached, or fails.
            AnswerRefused: The status is another one.
        """
        async with self.open("GET", url, headers=condition) as answer:
            if answer.status != 200 and not (condition and answer.status == UNCHANGED):
                raise answer.error()
            return HTTPDocument(answer.status, answer.headers, await answer.read(MAX_DOCUMENT_BYTES))

    async def write(
        self, method: str, url: str, *, body: Body | None = None, length: int | None = None, expect: Collection[int]
    ) -> HTTPDocument:
        """Send a change; raises as :meth:`read`, and for every status that is not in ``expect``.

        ``body`` is JSON, or the content of an asset when its ``length`` in bytes is given.
        """
        kind = "application/json" if length is None else "application/octet-stream"
        headers = {"Content-Type": kind}
        async with self.open(method, url, headers=headers, body=body, length=length) as answer:
            if answer.status >= _FAILING:
                raise ServerUnavailable(answer.place, f"it responds with status {answer.status}")
            if answer.status == _HIDDEN and _HIDDEN not in expect:  # the response to a token without write access
                raise CredentialsRefused(self.place, answer.status, self._who)
            if answer.status not in expect:
                raise answer.error()
            return HTTPDocument(answer.status, answer.headers, await answer.read(MAX_DOCUMENT_BYTES))

    @asynccontextmanager
    async def open(
        self,
        method: str,
        url: str,
        *,
        headers: Mapping[str, str],
        body: Body | None = None,
        length: int | None = None,
        place: str = "",
    ) -> AsyncIterator[HTTPResponse]:
        """Send one request, unless a rate limit is active; the caller checks the status.

        ``place`` is the name of the target in messages; the repository if it is empty.

        Raises:
            RateLimited: GitHub asks to wait, or did so before.
            ServerUnavailable: GitHub cannot be reached, or fails.
        """
        self._rate_limit.check(self.place)
        try:
            async with self._web.open(
                method, url, headers=self._with_token(headers), body=body, length=length
            ) as answer:
                answer.place = place or self.place
                await self._check_limit(answer)
                yield answer
        except RateLimited as error:
            raise RateLimited(self.place, self._rate_limit.begin(error.wait)) from None
        except CredentialsRefused as error:
            raise CredentialsRefused(self.place, error.status, self._who) from None
        except ServerUnavailable as error:
            server = f" ({API})" if self.api == API else ""
            raise ServerUnavailable(place or self.place, f"{error.cause}{server}") from None
        self._rate_limit.end()

    async def _check_limit(self, answer: HTTPResponse) -> None:
        """Detect a rate limit with status 403; the HTTP client detects 429."""
        if answer.status == _FORBIDDEN:
            asked = pause_requested(answer.headers, await answer.read(_MAX_REFUSAL_BYTES))
            if asked is not None:
                raise RateLimited(self.place, asked)

    def _with_token(self, headers: Mapping[str, str]) -> dict[str, str]:
        common = {"Accept": "application/vnd.github+json", "X-GitHub-Api-Version": "2022-11-28"}
        token = {"Authorization": f"Bearer {self._token}"} if self._token else {}
        return {**common, **token, **headers}


def _base(api: str) -> str:
    try:
        url = URL(api)
        if url.scheme in {"http", "https"} and url.host and url.user is None and not url.query_string:
            return str(url).rstrip("/")
    except ValueError:
        pass
    raise SpecError("ApiInvalid", f"the URL of the GitHub API is not valid (expected {API}, or https://<host>/api/v3)")


SHORTEST = timedelta(minutes=1)
"""Pause after a refusal without a time; doubled at each repetition.

Source: https://docs.github.com/en/rest/using-the-rest-api/rate-limits-for-the-rest-api
"""

LONGEST = timedelta(hours=1)
"""Longest pause: the window of the primary rate limit."""


def pause_requested(headers: Mapping[str, str], body: bytes) -> timedelta | None:
    """Return the pause that a refusal (403) asks for; zero for a limit without a time, None for another refusal.

    A wrong local clock has no effect: the end of the window is relative to the server's time.
    """
    if pause := retry_after(headers.get("Retry-After", "")):
        return pause
    if headers.get("X-RateLimit-Remaining") == "0":
        reset = headers.get("X-RateLimit-Reset", "")
        seconds = int(reset) - _server_time(headers) if reset.isdecimal() and len(reset) <= 12 else 0
        return timedelta(seconds=max(seconds, 0))
    return timedelta() if b"rate limit" in body.lower() else None


class RateLimit:
    """Keeps the time until which no request may be sent; the clock is monotonic, in seconds."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._until = clock()
        self._unsaid = timedelta()

    def check(self, place: str) -> None:
        """Raise :class:`RateLimited` while no request may be sent."""
        remaining = self._until - self._clock()
        if remaining > 0:
            raise RateLimited(place, timedelta(seconds=round(remaining) or 1))

    def begin(self, asked: timedelta) -> timedelta:
        """Start a pause, and return its length; ``asked`` is zero when no time was stated."""
        if not asked:
            self._unsaid = min(max(SHORTEST, 2 * self._unsaid), LONGEST)
        rest = min(asked or self._unsaid, LONGEST)
        self._until = self._clock() + rest.total_seconds()
        return rest

    def end(self) -> None:
        """Reset after a response without a rate limit."""
        self._unsaid = timedelta()


def _server_time(headers: Mapping[str, str]) -> int:
    try:
        return int(parsedate_to_datetime(headers.get("Date", "")).timestamp())
    except (TypeError, ValueError):
        return int(datetime.now(UTC).timestamp())
