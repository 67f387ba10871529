"""Serves /healthz, /readyz, /observed and /metrics over plain HTTP."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Final, TypeAlias

from aiohttp import web

if TYPE_CHECKING:
    from clusterstacks.operator.observation import Observation
    from clusterstacks.runtime.component_health import ProbeAnswer, Probes
    from clusterstacks.runtime.metrics import Metrics

Handler: TypeAlias = Callable[[web.Request], Awaitable[web.Response]]

METRICS_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"
"""Source: Prometheus' text format."""


class ProbesServer:
    """Answers probes and scrapes on one address; two servers serve them on two addresses.

    An empty ``host`` means all addresses, ``port`` 0 a free port, which attribute ``port`` has once ``started`` is set.
    """

    def __init__(
        self,
        host: str,
        port: int,
        *,
        probes: Probes | None = None,
        metrics: Metrics | None = None,
        observation: Observation | None = None,
    ) -> None:
        self.host = host
        self.port = port
        self.started = asyncio.Event()
        self._application = web.Application()
        if probes is not None:
            self._application.router.add_get("/healthz", _probe(probes.alive))
            self._application.router.add_get("/readyz", _probe(probes.ready))
        if observation is not None:
            self._application.router.add_get("/observed", _report(observation))
        if metrics is not None:
            self._application.router.add_get("/metrics", _scrape(metrics))

    async def run(self) -> None:
        """Serve until cancelled; raises OSError if the server cannot listen on the address."""
        # Probes are answered at once or not at all, so there are no requests to wait for at the end.
        runner = web.AppRunner(self._application, access_log=None, shutdown_timeout=0)
        await runner.setup()
        try:
            await web.TCPSite(runner, self.host or None, self.port).start()
            self.port = runner.addresses[0][1]
            self.started.set()
            await asyncio.Event().wait()
        finally:
            await runner.cleanup()


def _probe(ask: Callable[[], ProbeAnswer]) -> Handler:
    async def respond(_: web.Request) -> web.Response:
        answer = ask()
        return web.Response(text=answer.text, status=200 if answer.passed else 503)

    return respond


def _report(observation: Observation) -> Handler:
    async def respond(_: web.Request) -> web.Response:
        return web.json_response(observation.observed().document())

    return respond


def _scrape(metrics: Metrics) -> Handler:
    async def answer(_: web.Request) -> web.Response:
        metrics.measure()
        # Thousands of series take hundreds of milliseconds, too long for the event loop.
        body = await asyncio.to_thread(metrics.expose)
        return web.Response(body=body, headers={"Content-Type": METRICS_TYPE})

    return answer
