"""Answers the API server's questions over HTTPS, within bounds of bytes, values and time.

Whatever reaches the port may ask. So a body has a bound before it is read, its values before they are decoded, the
event loop decodes little at a time, and what is under way shares a bounded room; beyond that the API server is asked to
try again. A question that is too large is refused by an answer and not by an HTTP error, which
``failurePolicy: Ignore`` would turn into a yes.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from contextlib import AsyncExitStack, asynccontextmanager
from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING, Final, Protocol, TypeVar

from aiohttp import web

from clusterstacks.domain.errors import ClusterStacksError
from clusterstacks.webhooks.listener import Listener
from clusterstacks.webhooks.reviews import (
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
    from collections.abc import AsyncIterator, Callable

    from clusterstacks.webhooks.answers import AdmissionResponse
    from clusterstacks.webhooks.reviews import Review

PATH: Final = "/validate"

MAX_BYTES: Final = 8 * 1024 * 1024
"""Largest question: an object and its predecessor, each at most 3 MiB as a request to the API server may be."""

SMALL_BYTES: Final = 128 * 1024
"""Question that needs no room for its bytes. aiohttp keeps as much of a request that nothing reads, and few Clusters
are larger."""

BYTES_AT_A_TIME: Final = 2 * MAX_BYTES
"""Bytes of larger questions at a time. Arbitrary: two of the largest, or 64 of 256 KiB."""

VALUES_AT_A_TIME: Final = 4 * MAX_VALUES
"""Values of all questions at a time, 100 bytes each. Arbitrary: four of the largest, or 400 Clusters of 500 values."""

WAITING: Final = 256
"""Questions that wait for room; beyond, the API server tries again later. As many as one address has connections."""

RETRY_SECONDS: Final = 1
"""When the API server tries again. The least that it understands; it does so within the time it gives an answer, up to
ten times (client-go's ``rest.Request``, for 429 and 5xx with Retry-After)."""

TURN_BYTES: Final = 256 * 1024
"""Bytes decoded between two turns of the event loop: 20 ms at most, measured. One at a time would be slow where the
turns are long, as while a hundred connections begin."""

QUICK_BYTES: Final = 8 * 1024
"""Question that is decoded without a turn: 0.6 ms at most, measured."""

DEADLINE: Final = timedelta(seconds=4.5)
"""How long an answer may take, the arrival of the question included; the API server waits 5 s for it where Clusters are
concerned."""

STOP_SECONDS: Final = 2
"""How long questions under way may take when the server stops. Arbitrary: an answer takes milliseconds."""

T = TypeVar("T")

log = logging.getLogger(__name__)


class Judging(Protocol):
    """Who answers."""

    async def judge(self, review: Review) -> AdmissionResponse:
        """Answer a question.

        Raises:
            ClusterStacksError: What is needed for the answer cannot be had.
        """
        ...


class TooManyQuestions(Exception):
    """There is no room for a question, and enough others wait for it."""


class Room:
    """An amount that questions share; who comes first is served first.

    Args:
        size: The amount.
        waiting: How many may wait.
    """

    def __init__(self, size: int, waiting: int = WAITING) -> None:
        self._free = size
        self._waiting = waiting
        self._queue: deque[tuple[int, asyncio.Future[None]]] = deque()

    @asynccontextmanager
    async def taken(self, amount: int) -> AsyncIterator[None]:
        """Hold a part for a while, as ``take`` and ``give`` do."""
        await self.take(amount)
        try:
            yield
        finally:
            self.give(amount)

    async def take(self, amount: int) -> None:
        """Take a part; ``amount`` is at most the size.

        Raises:
            TooManyQuestions: Too many others wait.
        """
        if self._queue or self._free < amount:
            await self._wait(amount)
        else:
            self._free -= amount

    def give(self, amount: int) -> None:
        """Give a part back, and to those who wait for it."""
        self._free += amount
        while self._queue and self._queue[0][0] <= self._free:
            taken, turn = self._queue.popleft()
            if not turn.done():  # one that is cancelled is still here until its task runs
                self._free -= taken
                turn.set_result(None)

    async def _wait(self, amount: int) -> None:
        if len(self._queue) >= self._waiting:
            raise TooManyQuestions
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
    """The server.

    Args:
        host: Address to listen at; empty means all.
        port: 0 takes a free one; ``port`` tells which once ``started``.
        context: Has the certificate; a new one counts for connections that begin later.
        judging: Who answers.
    """

    def __init__(self, host: str, port: int, context: ssl.SSLContext, judging: Judging) -> None:
        self.host = host
        self.port = port
        self.started = asyncio.Event()
        self._judging = judging
        self._listener = Listener(context, self._respond, stop_seconds=STOP_SECONDS)
        self._bytes = Room(BYTES_AT_A_TIME)
        self._values = Room(VALUES_AT_A_TIME)
        self._turn = Room(TURN_BYTES)

    async def run(self) -> None:
        """Serve until cancelled.

        Raises:
            OSError: The address cannot be listened at.
        """
        await self._listener.run(self.host, self.port, self._listens)

    def _listens(self, port: int) -> None:
        self.port = port
        self.started.set()

    async def _respond(self, request: web.BaseRequest) -> web.Response:
        """Answer; what goes wrong is the API server's matter, by the failurePolicy it was told."""
        if (request.method, request.path) != ("POST", PATH):
            return _closing(web.Response(status=404, text=f"questions are posted to {PATH}"))
        body = bytearray()
        try:
            async with asyncio.timeout(DEADLINE.total_seconds()), AsyncExitStack() as held:
                await self._read(request, body, held)
                return await self._answer(body, held)
        except (OutOfBounds, InvalidReview) as error:
            return _refused(body, error)
        except (ClusterStacksError, TimeoutError, TooManyQuestions) as error:
            return _failed(error)
        except (ConnectionError, web.RequestPayloadError):
            raise  # the client is gone; aiohttp ends the connection
        except Exception:
            log.exception("Unexpected failure while a question of the API server was answered, please report it")
            return web.Response(status=500, text="unexpected failure; the operator's log says more")

    async def _read(self, request: web.BaseRequest, body: bytearray, held: AsyncExitStack) -> None:
        """Read the question into ``body``; of one that is too large, the beginning."""
        length = request.content_length or 0
        most = MAX_BYTES if length <= MAX_BYTES else HEAD_BYTES
        has_room = False
        while chunk := await request.content.readany():
            body += chunk
            if len(body) > most:
                raise OutOfBounds(f"it and its predecessor have more than {MAX_BYTES >> 20} MiB; make it smaller")
            if len(body) > SMALL_BYTES and not has_room:
                await held.enter_async_context(self._bytes.taken(length or MAX_BYTES))
                has_room = True

    async def _answer(self, body: bytearray, held: AsyncExitStack) -> web.Response:
        values = count_values(body) if len(body) <= SMALL_BYTES else await self._in_turn(count_values, body)
        await held.enter_async_context(self._values.taken(values))
        review = await self._in_turn(partial(parse_review, values=values), body)
        answer = await self._judging.judge(review)
        return _answered(answer_document(review.uid, answer))

    async def _in_turn(self, work: Callable[[bytearray], T], body: bytearray) -> T:
        """Work on a body, on so many bytes between two turns of the event loop; a larger body has one alone.

        Nothing is waited for after the work: what is decoded is soon judged and dropped, or collecting garbage costs
        more than all the rest.
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


def _failed(error: ClusterStacksError | TimeoutError | TooManyQuestions) -> web.Response:
    match error:
        case TooManyQuestions():
            retry = {"Retry-After": str(RETRY_SECONDS)}
            return web.Response(status=429, text="too many questions at a time, try again", headers=retry)
        case TimeoutError():
            return _closing(web.Response(status=504, text=f"no answer within {DEADLINE.total_seconds()} s"))
        case ClusterStacksError():
            log.warning("A question of the API server cannot be answered: %s", error)
            return web.Response(status=503, text=error.message)


def _closing(response: web.Response) -> web.Response:
    """End the connection with the answer: the API server does not ask so, or its question is not read to the end."""
    response.force_close()
    return response
