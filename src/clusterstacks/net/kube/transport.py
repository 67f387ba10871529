"""Sends the requests of one client: with a budget, a deadline and bounded retries."""

from __future__ import annotations

import asyncio
from contextlib import aclosing, suppress
from dataclasses import dataclass, field
from datetime import timedelta
from typing import TYPE_CHECKING, TypeVar
from urllib.parse import urlsplit

import aiohttp
from multidict import CIMultiDict
from yarl import URL

from clusterstacks.net.kube.auth import ConnectionCredentials, RequestCredentials
from clusterstacks.net.kube.errors import ResponseTooLarge, TooMany, Unauthorized, Unreachable
from clusterstacks.net.kube.failure_status import parse_status, status_error
from clusterstacks.net.kube.limits import BusyTime, RequestBudget
from clusterstacks.net.kube.pipeline import answers
from clusterstacks.net.kube.write_gate import GuardedBody
from clusterstacks.net.pool import FAILURES, read_body
from clusterstacks.net.retry import RequestBroken, retry_after

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from clusterstacks.model.errors import ClusterStacksError
    from clusterstacks.net.kube.connection import Connection
    from clusterstacks.net.kube.limits import Bounds
    from clusterstacks.net.kube.write_gate import WriteGate
    from clusterstacks.net.pool import Pool
    from clusterstacks.net.retry import RetryPolicy

T = TypeVar("T")

JSON = "application/json"

REVIEWS = "/apis/authorization.k8s.io/"
"""Path of questions that are asked by POST, and not stored."""

MAX_FAILURE_BYTES = 1024 * 1024
"""Maximum size of a failure response (arbitrary)."""

PIPELINE_PATIENCE = timedelta(seconds=5)
"""Maximum duration of reads that wait for each other on one connection (arbitrary); the others are sent alone."""


@dataclass(frozen=True, slots=True)
class Call:
    """A request; ``path`` is escaped and contains the query."""

    about: str
    """Verb and object for messages, e.g. ``apply Deployment.apps kube-system/coredns``."""
    method: str
    path: str
    body: bytes = field(default=b"", repr=False)
    content_type: str = JSON
    accept: str = JSON
    repeatable: bool = True
    """The call is idempotent, so it is retried when its result is unknown."""
    confidential: bool = False
    """The call is about Secrets, so the server's message is not shown."""

    @property
    def writes(self) -> bool:
        """True if the call may store something; dry runs and reviews of rights do not."""
        path, _, parameters = self.path.partition("?")
        return self.method != "GET" and "dryRun=All" not in parameters and not path.startswith(REVIEWS)


@dataclass(frozen=True, slots=True)
class _Failure:
    """A failed attempt; ``again``: another attempt is safe; ``wait``: Retry-After."""

    error: ClusterStacksError
    again: bool
    wait: timedelta = timedelta()


class Transport:
    """Sends requests to one server: ``send`` returns the whole body, ``open`` returns a stream."""

    def __init__(  # noqa: PLR0913  # those of ``Client``
        self,
        connection: Connection,
        pool: Pool,
        *,
        budget: int,
        deadline: timedelta,
        user_agent: str,
        retries: RetryPolicy,
        bounds: Bounds,
        gate: WriteGate | None,
    ) -> None:
        self.host = urlsplit(connection.server).netloc
        self.busy = BusyTime(bounds.busy_time, lambda: asyncio.get_running_loop().time())
        self.gate = gate
        self._connection = connection
        self._pool = pool
        self._budget = RequestBudget(budget)
        self._deadline = deadline.total_seconds()
        self._user_agent = user_agent
        self._retries = retries
        self._max_bytes = bounds.response_bytes
        self._credentials = ConnectionCredentials(connection)
        self._closed = False

    def close(self) -> None:
        """Refuse further calls; running calls end at their deadline."""
        self._closed = True

    async def send(self, call: Call) -> bytes:
        """Send a call within the deadline, which includes waiting for the budget and all retries."""

        async def read(response: aiohttp.ClientResponse) -> bytes:
            answer = await read_body(response.content.iter_any(), self._max_bytes)
            if answer is None:
                raise ResponseTooLarge(
                    f"{call.about}: the response of {self.host} is larger than {self._max_bytes} bytes"
                )
            return answer

        deadline = self._remaining(call)
        try:
            with self.busy.request():
                async with asyncio.timeout(deadline) as limit, self._budget:
                    return await self._send_with_retries(call, read, limit.when() or 0.0)
        except TimeoutError:
            raise self._timeout_error(call, deadline) from None

    async def send_together(self, reads: Sequence[Call]) -> list[bytes | None]:
        """Send reads over one connection, which takes one place of the budget, and return the bodies.

        Reads that are not successful have no body here, nor do those after them if the connection breaks, the server is
        slow, or the bodies exceed the limit of one response: ``send`` sends them again, and raises their errors.
        """
        bodies: list[bytes | None] = [None] * len(reads)
        if self._closed or self._connection.proxy or self.busy.left <= 0:
            return bodies
        size = 0
        with self.busy.request(), suppress(*FAILURES, aiohttp.http.HttpProcessingError, RequestBroken):
            async with asyncio.timeout(PIPELINE_PATIENCE.total_seconds()), self._budget:
                pipeline = answers(
                    self._pool.session,
                    self._connection.server,
                    [(read.path, read.accept) for read in reads],
                    user_agent=self._user_agent,
                    credentials=await self._credentials.current(),
                    server_name=self._connection.server_name,
                )
                async with aclosing(pipeline) as responses:
                    number = 0
                    async for status, content in responses:
                        self._pool.on_answer(reads[number].method, status)
                        body = await read_body(content, self._max_bytes - size)
                        if body is None:
                            break
                        size += len(body)
                        bodies[number] = body if status == 200 else None
                        number += 1
        return bodies

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

    def unreachable(self, call: Call, error: RequestBroken) -> Unreachable:
        """Return the error for a failed connection."""
        return Unreachable(f"{call.about}: {self.host} cannot be reached: {error}")

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
            delay = self._retries.delay(attempt, outcome.wait)
            if not outcome.again or delay is None or asyncio.get_running_loop().time() + delay >= give_up:
                raise outcome.error
            await self._retries.sleep(delay)
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
                return await (consume(response) if response.status < 300 else _failure(call, response))
            except BaseException:
                response.close()
                raise
        except RequestBroken as error:
            if not error.unsent:
                self._check_gate(call)
            again = not error.permanent and (error.unsent or call.repeatable)
            return _Failure(self.unreachable(call, error), again=again)

    def _check_gate(self, call: Call) -> None:
        if self.gate is not None and call.writes:
            self.gate.check(call.about)

    async def _request(self, call: Call, identity: RequestCredentials) -> aiohttp.ClientResponse:
        headers = CIMultiDict(identity.headers)
        headers["Accept"] = call.accept
        headers["Accept-Encoding"] = "identity"
        headers["User-Agent"] = self._user_agent
        body = None
        if call.method != "GET":
            headers["Content-Type"] = call.content_type
            body = GuardedBody(call.body, call.about, self.gate if call.writes else None)
        try:
            return await self._pool.request(
                call.method,
                URL(f"{self._connection.server}{call.path}", encoded=True),
                headers=headers,
                body=body,
                trusted=identity.context,
                server_name=self._connection.server_name,
                proxy=self._connection.proxy,
            )
        finally:
            if body is not None:
                body.ended()

    def _remaining(self, call: Call) -> float:
        seconds = self.busy.left
        if seconds <= 0:
            raise Unreachable(f"{call.about}: {self.host} took {self.busy.seconds:.0f} s for the previous requests")
        return min(self._deadline, seconds)

    def _timeout_error(self, call: Call, seconds: float) -> Unreachable:
        return Unreachable(f"{call.about}: {self.host} did not answer within {seconds:g} s")


async def _failure(call: Call, response: aiohttp.ClientResponse) -> _Failure:
    content = await read_body(response.content.iter_any(), MAX_FAILURE_BYTES)
    if content is None:
        response.close()
    error = status_error(call.about, response.status, parse_status(content or b""), confidential=call.confidential)
    if isinstance(error, TooMany):
        # Refused before execution, e.g. by priority and fairness, or "storage is (re)initializing".
        return _Failure(error, again=True, wait=retry_after(response.headers.get("Retry-After")) or error.retry_after)
    return _Failure(error, again=isinstance(error, Unreachable) and call.repeatable)
