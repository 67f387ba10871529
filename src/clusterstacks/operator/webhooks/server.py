"""Serves the validating webhooks over HTTPS, within bounds of bytes, values and time.

Every client that reaches the port can send requests. So the body is bounded before it is read, and its values before
they are decoded; the event loop decodes little at a time, and all requests under way share bounded resources. Beyond
that the API server is asked to try again. A request that is too large is refused by an AdmissionReview and not by an
HTTP error, which ``failurePolicy: Ignore`` would turn into a permission.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from contextlib import AsyncExitStack, asynccontextmanager
from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING, Final, TypeVar

from aiohttp import web

from clusterstacks.model.errors import ClusterStacksError
from clusterstacks.operator.listener import Listener
from clusterstacks.operator.webhooks.configuration import PATH
from clusterstacks.operator.webhooks.reviews import (
    HEAD_BYTES,
    MAX_VALUES,
    InvalidReview,
    OutOfBounds,
    answer_document,
    count_values,
    parse_review,
    refusal_document,
)

if TYPE_CHECKING:
    import ssl
    from collections.abc import AsyncIterator, Awaitable, Callable

    from clusterstacks.operator.webhooks.answers import AdmissionResponse
    from clusterstacks.operator.webhooks.reviews import AdmissionRequest

    Validate = Callable[[AdmissionRequest], Awaitable[AdmissionResponse]]

MAX_BYTES: Final = 8 * 1024 * 1024
"""Largest body: an object and its predecessor, each at most 3 MiB as a request to the API server may be."""

SMALL_BYTES: Final = 128 * 1024
"""A body of this size needs no share of the bytes. aiohttp buffers as much of a request in any case, and few Clusters
are larger."""

BYTES_AT_A_TIME: Final = 2 * MAX_BYTES
"""Bytes of all larger bodies at a time. Arbitrary: two of the largest, or 64 of 256 KiB."""

VALUES_AT_A_TIME: Final = 4 * MAX_VALUES
"""Values of all requests at a time, 100 bytes each. Arbitrary: four of the largest, or 400 Clusters of 500 values."""

WAITING: Final = 256
"""Requests that wait for a share; further ones are tried again later. Arbitrary: more than an API server has at a
time."""

RETRY_SECONDS: Final = 1
"""Pause before the API server tries again: the smallest it understands. It tries up to ten times within the timeout of
the webhook (client-go's ``rest.Request``, for 429 and 5xx with Retry-After)."""

TURN_BYTES: Final = 256 * 1024
"""Bytes decoded in one turn of the event loop: 20 ms at most, measured. One request a turn would be slow while turns
are long, for example while a hundred connections begin."""

QUICK_BYTES: Final = 8 * 1024
"""A body of this size is decoded at once: 0.6 ms at most, measured."""

DEADLINE: Final = timedelta(seconds=4.5)
"""Timeout of an answer, including the arrival of the request; the API server waits 5 s for an answer about a
Cluster."""

STOP_SECONDS: Final = 2
"""Timeout of requests under way when the server stops. Arbitrary: an answer takes milliseconds."""

_KIND: Final = web.RequestKey("kind", str)

T = TypeVar("T")

log = logging.getLogger(__name__)


class TooManyRequests(Exception):
    """All resources are in use, and too many requests wait for them."""


class SharedBudget:
    """An amount of a resource that requests share, first come, first served; ``waiting`` requests may wait."""

    def __init__(self, size: int, waiting: int = WAITING) -> None:
        self._free = size
        self._waiting = waiting
        self._queue: deque[tuple[int, asyncio.Future[None]]] = deque()

    @asynccontextmanager
    async def taken(self, amount: int) -> AsyncIterator[None]:
        """Take a share for the duration of the context."""
        await self.take(amount)
        try:
            yield
        finally:
            self.give(amount)

    async def take(self, amount: int) -> None:
        """Take a share, at most the whole size; raises TooManyRequests if too many others wait."""
        if self._queue or self._free < amount:
            await self._wait(amount)
        else:
            self._free -= amount

    def give(self, amount: int) -> None:
        """Return a share and wake the waiting requests that it is enough for."""
        self._free += amount
        while self._queue and self._queue[0][0] <= self._free:
            waiting, turn = self._queue.popleft()
            if not turn.done():  # a cancelled one stays in the queue until its task runs
                self._free -= waiting
                turn.set_result(None)

    async def _wait(self, amount: int) -> None:
        if len(self._queue) >= self._waiting:
            raise TooManyRequests
        turn = asyncio.get_running_loop().create_future()
        entry = (amount, turn)
        self._queue.append(entry)
        try:
            await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():
                self.give(amount)
            elif entry in self._queue:
                self._queue.remove(entry)
                self.give(0)  # those behind may need less
            raise


class WebhookServer:
    """The HTTPS server of the webhooks.

    An empty ``host`` means all addresses, ``port`` 0 a free port, which attribute ``port`` has once ``started`` is set.
    A new certificate in ``context`` counts for connections that begin later. ``observe`` is called with each response:
    the kind of the object (empty if the request was not read), the status code, and the seconds since the header of the
    request arrived.
    """

    def __init__(
        self,
        host: str,
        port: int,
        context: ssl.SSLContext,
        validate: Validate,
        observe: Callable[[str, int, float], None] = lambda _kind, _code, _seconds: None,
    ) -> None:
        self.in_flight = 0
        """Number of requests under way."""
        self._observe = observe
        self.host = host
        self.port = port
        self.started = asyncio.Event()
        self._validate = validate
        self._listener = Listener(context, self._measured, stop_seconds=STOP_SECONDS)
        self._bytes = SharedBudget(BYTES_AT_A_TIME)
        self._values = SharedBudget(VALUES_AT_A_TIME)
        self._turn = SharedBudget(TURN_BYTES)

    async def run(self) -> None:
        """Serve until cancelled; raises OSError if the server cannot listen on the address."""
        await self._listener.run(self.host, self.port, self._listens)

    def _listens(self, port: int) -> None:
        self.port = port
        self.started.set()

    async def _measured(self, request: web.BaseRequest) -> web.Response:
        now = asyncio.get_running_loop().time
        began = now()
        self.in_flight += 1
        try:
            response = await self._respond(request)
        finally:
            self.in_flight -= 1
        self._observe(request.get(_KIND, ""), response.status, now() - began)
        return response

    async def _respond(self, request: web.BaseRequest) -> web.Response:
        """Answer a request; after an HTTP error the API server applies its failurePolicy."""
        if (request.method, request.path) != ("POST", PATH):
            return _closing(web.Response(status=404, text=f"AdmissionReviews are posted to {PATH}"))
        body = bytearray()
        try:
            async with asyncio.timeout(DEADLINE.total_seconds()), AsyncExitStack() as shares:
                await self._read(request, body, shares)
                return await self._answer(request, body, shares)
        except (OutOfBounds, InvalidReview) as error:
            return _refused(body, error)
        except (ClusterStacksError, TimeoutError, TooManyRequests) as error:
            return _failed(error)
        except (ConnectionError, web.RequestPayloadError):
            raise  # the client is gone; aiohttp ends the connection
        except Exception:
            log.exception("Unexpected failure while an AdmissionReview was answered, please report it")
            return web.Response(status=500, text="unexpected failure; see the log of the operator")

    async def _read(self, request: web.BaseRequest, body: bytearray, shares: AsyncExitStack) -> None:
        """Read the request into ``body``; if it is too large, only its beginning."""
        length = request.content_length or 0
        most = MAX_BYTES if length <= MAX_BYTES else HEAD_BYTES
        has_room = False
        while chunk := await request.content.readany():
            body += chunk
            if len(body) > most:
                raise OutOfBounds(f"it and its predecessor have more than {MAX_BYTES >> 20} MiB; make it smaller")
            if len(body) > SMALL_BYTES and not has_room:
                await shares.enter_async_context(self._bytes.taken(length or MAX_BYTES))
                has_room = True

    async def _answer(self, request: web.BaseRequest, body: bytearray, shares: AsyncExitStack) -> web.Response:
        values = count_values(body) if len(body) <= SMALL_BYTES else await self._in_turn(count_values, body)
        await shares.enter_async_context(self._values.taken(values))
        review = await self._in_turn(partial(parse_review, values=values), body)
        request[_KIND] = review.kind
        answer = await self._validate(review)
        return _answered(answer_document(review.uid, answer))

    async def _in_turn(self, work: Callable[[bytearray], T], body: bytearray) -> T:
        """Work on a body, on at most ``TURN_BYTES`` in one turn of the event loop; a larger body has its own turn.

        There is no await after the work: decoded values that live longer cost more in garbage collection than
        everything else.
        """
        if len(body) > QUICK_BYTES:
            amount = min(len(body), TURN_BYTES)
            await self._turn.take(amount)
            asyncio.get_running_loop().call_soon(self._turn.give, amount)  # in the next turn
        return work(body)


def _answered(document: bytes) -> web.Response:
    return web.Response(body=document, content_type="application/json")


def _refused(body: bytearray, error: OutOfBounds | InvalidReview) -> web.Response:
    document = refusal_document(body, error.message)
    if document is not None:
        return _answered(document)
    return _closing(web.Response(status=413 if isinstance(error, OutOfBounds) else 400, text=error.message))


def _failed(error: ClusterStacksError | TimeoutError | TooManyRequests) -> web.Response:
    match error:
        case TooManyRequests():
            retry = {"Retry-After": str(RETRY_SECONDS)}
            return web.Response(status=429, text="too many requests at a time, try again", headers=retry)
        case TimeoutError():
            return _closing(web.Response(status=504, text=f"no answer within {DEADLINE.total_seconds()} s"))
        case ClusterStacksError():
            log.warning("An AdmissionReview cannot be answered: %s", error)
            return web.Response(status=503, text=error.message)


def _closing(response: web.Response) -> web.Response:
    """Close the connection after the answer: another client than the API server, or a request that was not read."""
    response.force_close()
    return response
