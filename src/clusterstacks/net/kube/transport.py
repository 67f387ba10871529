"""Sends requests: a connection pool, and a budget, a deadline and bounded retries for each client."""

from __future__ import annotations

import asyncio
from contextlib import aclosing, suppress
from dataclasses import dataclass, field
from datetime import timedelta
from typing import TYPE_CHECKING, Self, TypeVar
from urllib.parse import urlsplit

import aiohttp
from multidict import CIMultiDict
from yarl import URL

from clusterstacks.net.kube.aborting_connector import aborting_connector
from clusterstacks.net.kube.auth import ConnectionCredentials, RequestCredentials
from clusterstacks.net.kube.errors import ResponseTooLarge, TooMany, Unauthorized, Unreachable
from clusterstacks.net.kube.failure_status import parse_status, retry_after_seconds, status_error
from clusterstacks.net.kube.limits import BusyTime
from clusterstacks.net.kube.pipeline import answers
from clusterstacks.net.kube.write_gate import GuardedBody

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
    from types import TracebackType

    from clusterstacks.model.errors import ClusterStacksError
    from clusterstacks.net.kube.connection import Connection
    from clusterstacks.net.kube.limits import Bounds
    from clusterstacks.net.kube.write_gate import WriteGate

T = TypeVar("T")

JSON = "application/json"

MAX_FAILURE_BYTES = 1024 * 1024
"""Maximum size of a failure response (arbitrary)."""

IDLE_SECONDS = 80.0
"""Time after which an idle connection is closed: longer than the interval of a sweep with its jitter, which therefore
reuses its connection, and shorter than the 90 s after which the API server closes it."""

PIPELINE_PATIENCE = timedelta(seconds=5)
"""Maximum duration of reads that wait for each other on one connection (arbitrary); the others are sent alone."""

MANAGEMENT = "management"
WORKLOAD = "workload"
"""Targets of requests, for metrics."""


class Pool:
    """One aiohttp session; clients that share it share its connector, but not their settings.

    Args:
        on_answer: Called with target, HTTP method and status of every response; for metrics.
    """

    def __init__(self, *, on_answer: Callable[[str, str, int], None] | None = None) -> None:
        self.on_answer = on_answer
        self._session: aiohttp.ClientSession | None = None

    @property
    def session(self) -> aiohttp.ClientSession:
        """The session, opened by the first request because it needs the running loop."""
        if self._session is None:
            # Each client has its own budget, so the connector sets no limit.
            self._session = aiohttp.ClientSession(
                connector=aborting_connector(limit=0, keepalive_seconds=IDLE_SECONDS),
                timeout=aiohttp.ClientTimeout(total=None),
                cookie_jar=aiohttp.DummyCookieJar(),
                # A small compressed response may expand to a thousand times its size, so compression is not accepted.
                auto_decompress=False,
            )
            # aiohttp retries a DELETE after a broken connection; retries are decided here, call by call.
            self._session._retry_connection = False  # noqa: SLF001  # there is no public option
        return self._session

    async def close(self) -> None:
        """Close all connections; running calls fail."""
        if self._session is not None:
            await self._session.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()


@dataclass(frozen=True, slots=True)
class RequestTimeouts:
    """Retries and timeouts of requests.

    Args:
        attempts: Maximum number of attempts of a repeatable call, within its deadline.
        first_delay: Delay before the second attempt; it doubles for each further one. Retry-After has precedence.
        longest_delay: Maximum delay, also for Retry-After.
        idle_timeout: A watch without data for this time is broken; the server is requested to end it earlier.
        sleep: Waits for the given seconds; tests replace it.
    """

    attempts: int = 5
    first_delay: timedelta = timedelta(milliseconds=100)
    longest_delay: timedelta = timedelta(seconds=10)
    idle_timeout: timedelta = timedelta(seconds=70)
    sleep: Callable[[float], Awaitable[object]] = asyncio.sleep

    def delay(self, attempt: int, wanted: float) -> float:
        """Return the seconds to wait after an attempt (the first is 1); ``wanted`` is the server's Retry-After or 0."""
        seconds = wanted or self.first_delay.total_seconds() * 2 ** (attempt - 1)
        return min(seconds, self.longest_delay.total_seconds())


@dataclass(frozen=True, slots=True)
class Call:
    """A request.

    Args:
        about: Verb and object for messages, e.g. ``apply Deployment.apps kube-system/coredns``.
        path: Escaped path with query.
        repeatable: The call is idempotent, so it is retried when its result is unknown.
        confidential: The call is about Secrets, so the server's message is not shown.
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
        """True if the call may change something; a dry run and a read by POST count as well."""
        return self.method != "GET"


@dataclass(frozen=True, slots=True)
class _Failure:
    """A failed attempt; ``again``: another attempt is safe; ``wait``: Retry-After in seconds."""

    error: ClusterStacksError
    again: bool
    wait: float = 0.0


class Transport:
    """Sends requests to one server: ``send`` returns the whole body, ``open`` returns a stream."""

    gate: WriteGate | None = None
    """Checked when a write is sent; None allows all writes."""
    target: str = MANAGEMENT
    """Management or workload cluster, for metrics; never a cluster name."""

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
        self._max_bytes = bounds.response_bytes
        self.busy = BusyTime(bounds.busy_time, lambda: asyncio.get_running_loop().time())
        self._slots = asyncio.Semaphore(budget)
        self._credentials = ConnectionCredentials(connection)
        self._closed = False
        self.user_agent = ""

    def close(self) -> None:
        """Refuse further calls; running calls end at their deadline."""
        self._closed = True

    async def send(self, call: Call) -> bytes:
        """Send a call within the deadline, which includes waiting for the budget and all retries.

        Raises:
            ClusterStacksError: One of ``errors``.
        """

        async def read(response: aiohttp.ClientResponse) -> bytes:
            answer = await _read_body(response.content.iter_any(), self._max_bytes)
            if answer is None:
                raise ResponseTooLarge(
                    f"{call.about}: the response of {self.host} is larger than {self._max_bytes} bytes"
                )
            return answer

        deadline = self._remaining(call)
        try:
            with self.busy.request():
                async with asyncio.timeout(deadline) as limit, self._slots:
                    return await self._send_with_retries(call, read, limit.when() or 0.0)
        except TimeoutError:
            raise self._timeout_error(call, deadline) from None

    async def send_together(self, reads: Sequence[Call]) -> list[bytes | None]:
        """Send reads over one connection, which takes one place of the budget, and return the bodies.

        Reads that are not successful have no body here, nor do those after them if the connection breaks, the server is
        slow, or the bodies exceed the limit of one response: ``send`` sends them again, and raises their errors.

        Raises:
            CredentialsFailed: There are no usable credentials.
        """
        found: list[bytes | None] = [None] * len(reads)
        if self._closed or self._connection.proxy or self.busy.left <= 0:
            return found
        size = 0
        with self.busy.request(), suppress(aiohttp.ClientError, aiohttp.http.HttpProcessingError, OSError):
            async with asyncio.timeout(PIPELINE_PATIENCE.total_seconds()), self._slots:
                pipeline = answers(
                    self._pool.session,
                    self._connection.server,
                    [(read.path, read.accept) for read in reads],
                    user_agent=self.user_agent,
                    credentials=await self._credentials.current(),
                    server_name=self._connection.server_name,
                )
                async with aclosing(pipeline) as responses:
                    number = 0
                    async for status, content in responses:
                        if self._pool.on_answer is not None:
                            self._pool.on_answer(self.target, reads[number].method, status)
                        body = await _read_body(content, self._max_bytes - size)
                        if body is None:
                            break
                        size += len(body)
                        found[number] = body if status == 200 else None
                        number += 1
        return found

    async def open(self, call: Call) -> aiohttp.ClientResponse:
        """Send a call and return its response, whose headers must arrive within the deadline; the caller closes it.

        It does not use the budget, because a stream would occupy it permanently.
        """

        async def keep(response: aiohttp.ClientResponse) -> aiohttp.ClientResponse:
            return response

        deadline = self._remaining(call)
        try:
            with self.busy.request():
                async with asyncio.timeout(deadline) as limit:
                    return await self._send_with_retries(call, keep, limit.when() or 0.0)
        except TimeoutError:
            raise self._timeout_error(call, deadline) from None

    def broken(self, call: Call, error: Exception) -> Unreachable:
        """Return the error for a failed connection, without the details of aiohttp about proxies and TLS contexts."""
        return Unreachable(f"{call.about}: {self.host} cannot be reached: {_cause(error)}")

    async def _send_with_retries(
        self, call: Call, consume: Callable[[aiohttp.ClientResponse], Awaitable[T]], give_up: float
    ) -> T:
        """Retry until the call succeeds, is not repeatable, or the next delay would pass ``give_up`` (loop time)."""
        renewed = False
        attempt = 1
        while True:
            identity = await self._credentials.current()
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
        self._check_gate(call)  # avoids a connection; the decisive check is in GuardedBody
        try:
            response = await self._request(call, identity)
            try:
                if self._pool.on_answer is not None:
                    self._pool.on_answer(self.target, call.method, response.status)
                if response.status < 300:
                    return await consume(response)
                return await _failure(call, response)
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
                # A redirect would send the credentials to another host.
                allow_redirects=False,
                ssl=identity.context,
                server_hostname=self._connection.server_name or None,
                proxy=self._connection.proxy or None,
            )
        finally:
            if body is not None:
                body.ended()

    def _remaining(self, call: Call) -> float:
        """Return the seconds left for a call."""
        left = self.busy.left
        if left <= 0:
            raise Unreachable(f"{call.about}: {self.host} took {self.busy.seconds:.0f} s for the previous requests")
        return min(self._deadline, left)

    def _timeout_error(self, call: Call, seconds: float) -> Unreachable:
        return Unreachable(f"{call.about}: {self.host} did not answer within {seconds:g} s")


async def _failure(call: Call, response: aiohttp.ClientResponse) -> _Failure:
    content = await _read_body(response.content.iter_any(), MAX_FAILURE_BYTES)
    if content is None:
        response.close()
    body = parse_status(content or b"")
    error = status_error(call.about, response.status, body, confidential=call.confidential)
    if isinstance(error, TooMany):
        # Refused before execution, e.g. by priority and fairness, or "storage is (re)initializing".
        wait = retry_after_seconds(response.headers.get("Retry-After", "")) or error.retry_after.total_seconds()
        return _Failure(error, again=True, wait=wait)
    return _Failure(error, again=isinstance(error, Unreachable) and call.repeatable)


async def _read_body(content: AsyncIterator[bytes], max_bytes: int) -> bytes | None:
    """Read a whole body; return None if it is larger than ``max_bytes``."""
    pieces = []
    size = 0
    async for piece in content:
        size += len(piece)
        if size > max_bytes:
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
