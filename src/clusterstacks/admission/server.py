"""Answers the API server's questions over HTTPS."""

from __future__ import annotations

import asyncio
import logging
from datetime import timedelta
from typing import TYPE_CHECKING, Final, Protocol

from aiohttp import web

from clusterstacks.admission.reviews import InvalidReview, answer_document, parse_review
from clusterstacks.domain.errors import ClusterStacksError

if TYPE_CHECKING:
    import ssl

    from clusterstacks.admission.reviews import Review
    from clusterstacks.domain.admission.answers import Answer

PATH: Final = "/validate"

MAX_BYTES: Final = 8 * 1024 * 1024
"""Largest question: an object and its predecessor, each at most 3 MiB as a request to the API server may be."""

DEADLINE: Final = timedelta(seconds=4.5)
"""How long an answer may take; the API server waits 5 s for it where Clusters are concerned."""

GOODBYE_SECONDS: Final = 0.2
"""How long the TLS end of a connection may take. asyncio's 30 s would keep the sockets of an API server that does not
answer for as long; nothing is lost by a shorter one."""

STOP_SECONDS: Final = 2
"""How long questions under way may take when the server stops. Arbitrary: an answer takes milliseconds."""

log = logging.getLogger(__name__)


class Judging(Protocol):
    """Who answers."""

    async def judge(self, review: Review) -> Answer:
        """Answer a question.

        Raises:
            ClusterStacksError: What is needed for the answer cannot be had.
        """
        ...


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
        self._context = context
        self._judging = judging
        self._application = web.Application(client_max_size=MAX_BYTES)
        self._application.router.add_post(PATH, self._answer)

    async def run(self) -> None:
        """Serve until cancelled.

        Raises:
            OSError: The address cannot be listened at.
        """
        runner = web.AppRunner(self._application, access_log=None, shutdown_timeout=STOP_SECONDS)
        await runner.setup()
        try:
            await self._listen(runner)
        finally:
            await runner.cleanup()

    async def _listen(self, runner: web.AppRunner) -> None:
        handler = runner.server
        assert handler is not None  # noqa: S101 - the runner is set up
        # Not aiohttp's own site, which knows no bound for the TLS end of a connection.
        server = await asyncio.get_running_loop().create_server(
            handler, self.host or None, self.port, ssl=self._context, ssl_shutdown_timeout=GOODBYE_SECONDS
        )
        try:
            self.port = server.sockets[0].getsockname()[1]
            self.started.set()
            await asyncio.Event().wait()
        finally:
            server.close()

    async def _answer(self, request: web.Request) -> web.Response:
        """Answer; what goes wrong is the API server's matter, by the failurePolicy it was told."""
        try:
            async with asyncio.timeout(DEADLINE.total_seconds()):
                review = parse_review(await request.read())
                answer = await self._judging.judge(review)
        except InvalidReview as error:
            return web.Response(status=400, text=error.message)
        except TimeoutError:
            return web.Response(status=504, text=f"no answer within {DEADLINE.total_seconds()} s")
        except ClusterStacksError as error:
            log.warning("A question of the API server cannot be answered: %s", error)
            return web.Response(status=503, text=error.message)
        except web.HTTPException:
            raise
        except Exception:
            log.exception("Unexpected failure while a question of the API server was answered, please report it")
            return web.Response(status=500, text="unexpected failure; the operator's log says more")
        return web.Response(body=answer_document(review.uid, answer), content_type="application/json")
