"""Send requests: one connection pool for all clusters, per cluster a budget, a deadline and bounded retries."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from datetime import timedelta
from typing import TYPE_CHECKING, Self, TypeVar
from urllib.parse import urlsplit

import aiohttp
from multidict import CIMultiDict
from yarl import URL

from clusterstacks.kube.auth import ConnectionCredentials, RequestCredentials
from clusterstacks.kube.errors import ResponseTooLarge, TooMany, Unauthorized, Unreachable
from clusterstacks.kube.failure_status import bounded_wait, failure, status_of
from clusterstacks.kube.limits import BusyTime
from clusterstacks.kube.responses import AbortingResponse
from clusterstacks.kube.write_gate import GuardedBody

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from types import TracebackType

    from clusterstacks.domain.errors import ClusterStacksError
    from clusterstacks.kube.connection import Connection
    from clusterstacks.kube.limits import Bounds
    from clusterstacks.kube.write_gate import WriteGate

T = TypeVar("T")

JSON = "application/json"

MAX_FAILURE_BYTES = 1024 * 1024
"""Largest failure answer read (arbitrary)."""

IDLE_SECONDS = 60.0
"""How long an unused connection stays open: as long as the drift interval, so that a sweep opens none."""

MANAGEMENT = "management"
WORKLOAD = "workload"
"""Targets of requests."""

TLS_SHUTDOWN_TIMEOUT = 0.2
"""How long the TLS end of a connection may take. asyncio's 30 s would keep the sockets of a frozen server for as long;
nothing is lost by a shorter one, as every answer has its length."""


class Pool:
    """One aiohttp session for all clusters; clients share its connector, not their settings (INCUMBENT D32).

    Args:
        on_answer: Called with target, HTTP method and status of every answer; for metrics.
    """

    def __init__(self, *, on_answer: Callable[[str, str, int], None] | None = None) -> None:
        self.on_answer = on_answer
        self._session: aiohttp.ClientSession | None = None

    @property
    def session(self) -> aiohttp.ClientSession:
        """The session, opened at the first request (it needs the running loop)."""
        if self._session is None:
            # Each client has its own budget, so the connector sets no limit.
            connector = aiohttp.TCPConnector(limit=0, keepalive_timeout=IDLE_SECONDS)
            connector._ssl_shutdown_timeout = TLS_SHUTDOWN_TIMEOUT  # noqa: SLF001  # its parameter is deprecated
            self._session = aiohttp.ClientSession(
                connector=connector,
                timeout=aiohttp.ClientTimeout(total=None),
                cookie_jar=aiohttp.DummyCookieJar(),
                # A small answer may unpack to a thousand times its size, so none is asked for or accepted packed.
                auto_decompress=False,
                response_class=AbortingResponse,
            )
            # aiohttp repeats a DELETE whose connection broke; what may be repeated is decided here, call by call.
            self._session._retry_connection = False  # noqa: SLF001  # it has no public switch
        return self._session

    async def close(self) -> None:
        """Close all connections; calls under way fail."""
        if self._session is not None:
            connector = self._session.connector
            if isinstance(connector, aiohttp.TCPConnector):
                await connector.close(abort_ssl=True)
            await self._session.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()


@dataclass(frozen=True, slots=True)
class RequestTimeouts:
    """How long to bear with a server.

    Args:
        attempts: Tries of a call that may be repeated, within its deadline.
        first_delay: Before the second try; doubles from there. A server's Retry-After goes first.
        longest_delay: Cap of both.
        idle_timeout: A watch that says nothing for so long is broken; the server is asked to end it before.
        sleep: Waits the given seconds; tests pass one that does not.
    """

    attempts: int = 5
    first_delay: timedelta = timedelta(milliseconds=100)
    longest_delay: timedelta = timedelta(seconds=10)
    idle_timeout: timedelta = timedelta(seconds=70)
    sleep: Callable[[float], Awaitable[object]] = asyncio.sleep

    def delay(self, attempt: int, wanted: float) -> float:
        """Seconds to wait after the ``attempt``-th try (from 1), ``wanted`` being the server's wish or 0."""
        seconds = wanted or self.first_delay.total_seconds() * 2 ** (attempt - 1)
        return min(seconds, self.longest_delay.total_seconds())


@dataclass(frozen=True, slots=True)
class Call:
    """One request to make.

    Args:
        about: Verb and object for messages, e.g. ``apply Deployment.apps kube-system/coredns``.
        path: Escaped path with query.
        repeatable: Doing it twice is as good as once, so it is retried when nobody knows whether it was done.
        confidential: About Secrets: the server's words stay out of messages.
    """

    about: str
    method: str
    path: str
    body: bytes = field(default=b"", repr=False)
    content_type: str = JSON
    accept: str = JSON
    repeatable: bool = True
    confidential: bool = False

    @property
    def writes(self) -> bool:
        """Whether it may change something; also what only asks by a POST counts, and a dry run."""
        return self.method != "GET"


@dataclass(frozen=True, slots=True)
class _Failure:
    """A try that failed; ``again`` says whether another one is safe, ``wait`` what the server asked for."""

    error: ClusterStacksError
    again: bool
    wait: float = 0.0


class Transport:
    """Requests to one server: ``send`` for an answer in memory, ``open`` for a stream."""

    gate: WriteGate | None = None
    """What writes must pass at the moment of sending; None lets all pass."""
    target: str = MANAGEMENT
    """Which kind of cluster it is, for metrics; never the name of one."""

    def __init__(
        self,
        connection: Connection,
        pool: Pool,
        budget: int,
        deadline: timedelta,
        timeouts: RequestTimeouts,
        bounds: Bounds,
    ) -> None:
        self.host = urlsplit(connection.server).netloc
        self._connection = connection
        self._pool = pool
        self._timeouts = timeouts
        self._deadline = deadline.total_seconds()
        self._max_bytes = bounds.answer_bytes
        self.busy = BusyTime(bounds.busy_time, lambda: asyncio.get_running_loop().time())
        self._slots = asyncio.Semaphore(budget)
        self._credentials = ConnectionCredentials(connection)
        self._closed = False
        self.user_agent = ""

    def close(self) -> None:
        """Refuse further calls; connections are given back when idle, calls under way end by their deadline."""
        self._closed = True

    async def send(self, call: Call) -> bytes:
        """Make a call within the deadline, which covers waiting for a slot of the budget and all retries.

        Raises:
            ClusterStacksError: One of ``errors``.
        """

        async def read(response: aiohttp.ClientResponse) -> bytes:
            answer = await _bounded(response, self._max_bytes)
            if answer is None:
                raise ResponseTooLarge(f"{call.about}: {self.host} answered with more than {self._max_bytes} bytes")
            return answer

        deadline = self._remaining(call)
        try:
            with self.busy.request():
                async with asyncio.timeout(deadline) as limit, self._slots:
                    return await self._persist(call, read, limit.when() or 0.0)
        except TimeoutError:
            raise self._late(call, deadline) from None

    async def open(self, call: Call) -> aiohttp.ClientResponse:
        """Make a call up to the first byte of its answer within the deadline; the caller closes the response.

        Takes no slot of the budget: a stream would hold it for ever.
        """

        async def keep(response: aiohttp.ClientResponse) -> aiohttp.ClientResponse:
            return response

        deadline = self._remaining(call)
        try:
            with self.busy.request():
                async with asyncio.timeout(deadline) as limit:
                    return await self._persist(call, keep, limit.when() or 0.0)
        except TimeoutError:
            raise self._late(call, deadline) from None

    def broken(self, call: Call, error: Exception) -> Unreachable:
        """Name a failure of the connection, without what aiohttp says about proxies and contexts."""
        return Unreachable(f"{call.about}: {self.host} cannot be reached: {_cause(error)}")

    async def _persist(
        self, call: Call, consume: Callable[[aiohttp.ClientResponse], Awaitable[T]], give_up: float
    ) -> T:
        """Try until it succeeds, may not be repeated, or the next wait would pass the moment ``give_up``."""
        renewed = False
        attempt = 1
        while True:
            identity = await self._credentials.present()
            outcome = await self._attempt(call, identity, consume)
            if not isinstance(outcome, _Failure):
                return outcome
            if isinstance(outcome.error, Unauthorized) and not renewed:
                renewed = True
                if await self._credentials.renew(identity):
                    continue
            delay = self._timeouts.delay(attempt, outcome.wait)
            late = asyncio.get_running_loop().time() + delay >= give_up
            if not outcome.again or attempt >= self._timeouts.attempts or late:
                raise outcome.error
            await self._timeouts.sleep(delay)
            attempt += 1

    async def _attempt(
        self, call: Call, identity: RequestCredentials, consume: Callable[[aiohttp.ClientResponse], Awaitable[T]]
    ) -> T | _Failure:
        if self._closed:
            return _Failure(Unreachable(f"{call.about}: the client for {self.host} is closed"), again=False)
        self._check_gate(call)  # saves a connection; the check that counts is the one in the body
        try:
            response = await self._request(call, identity)
            try:
                if self._pool.on_answer is not None:
                    self._pool.on_answer(self.target, call.method, response.status)
                if response.status < 300:
                    return await consume(response)
                return await _refusal(call, response)
            except BaseException:
                response.close()
                raise
        except (aiohttp.ClientSSLError, aiohttp.ClientConnectorCertificateError) as error:
            return _Failure(self.broken(call, error), again=False)
        except aiohttp.ClientConnectorError as error:
            # Nothing was sent.
            return _Failure(self.broken(call, error), again=True)
        except (aiohttp.ClientError, OSError) as error:
            self._check_gate(call)
            return _Failure(self.broken(call, error), again=call.repeatable)

    def _check_gate(self, call: Call) -> None:
        if self.gate is not None and call.writes:
            self.gate.check(call.about)

    async def _request(self, call: Call, identity: RequestCredentials) -> aiohttp.ClientResponse:
        headers = CIMultiDict(identity.headers)
        headers["Accept"] = call.accept
        headers["Accept-Encoding"] = "identity"
        headers["User-Agent"] = self.user_agent
        body = None
        if call.writes:
            headers["Content-Type"] = call.content_type
            body = GuardedBody(call.body, call.about, self.gate)
        try:
            return await self._pool.session.request(
                call.method,
                URL(f"{self._connection.server}{call.path}", encoded=True),
                data=body,
                headers=headers,
                # A redirect would carry the credentials to another host.
                allow_redirects=False,
                ssl=identity.context,
                server_hostname=self._connection.server_name or None,
                proxy=self._connection.proxy or None,
            )
        finally:
            if body is not None:
                body.ended()

    def _remaining(self, call: Call) -> float:
        """Return the seconds a call may take."""
        left = self.busy.left
        if left <= 0:
            raise Unreachable(
                f"{call.about}: {self.host} took {self.busy.seconds:.0f} s for the requests before this one"
            )
        return min(self._deadline, left)

    def _late(self, call: Call, seconds: float) -> Unreachable:
        return Unreachable(f"{call.about}: {self.host} gave no answer within {seconds:g} s")


async def _refusal(call: Call, response: aiohttp.ClientResponse) -> _Failure:
    body = status_of(await _bounded(response, MAX_FAILURE_BYTES) or b"")
    error = failure(call.about, response.status, body, confidential=call.confidential)
    if isinstance(error, TooMany):
        # Refused before anything was done, e.g. by priority and fairness, or "storage is (re)initializing".
        wait = bounded_wait(response.headers.get("Retry-After", "")) or error.retry_after.total_seconds()
        return _Failure(error, again=True, wait=wait)
    return _Failure(error, again=isinstance(error, Unreachable) and call.repeatable)


async def _bounded(response: aiohttp.ClientResponse, max_bytes: int) -> bytes | None:
    """Read a whole body; None (and the connection closed) when it is larger than ``max_bytes``."""
    pieces = []
    size = 0
    async for piece in response.content.iter_any():
        size += len(piece)
        if size > max_bytes:
            response.close()
            return None
        pieces.append(piece)
    return pieces[0] if len(pieces) == 1 else b"".join(pieces)


def _cause(error: Exception) -> str:
    match error:
        case aiohttp.ClientConnectorCertificateError():
            return str(error.certificate_error)
        case aiohttp.ClientConnectorError():
            return error.os_error.strerror or str(error.os_error)
        case aiohttp.ClientResponseError():
            return f"{error.status} {error.message}"
        case _:
            return str(error) or type(error).__name__
