"""A proxy between the operator and an API server, with TLS on both sides, that injects planned faults."""

from __future__ import annotations

import asyncio
import copy
import json
import math
import ssl
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from http import HTTPStatus
from typing import TYPE_CHECKING, Any

import aiohttp
from aiohttp import hdrs, web
from yarl import URL

from clusterstacks.dev.private_files import write_private
from clusterstacks.net.kube.pki import Authority
from clusterstacks.net.kube.transport import Call
from clusterstacks.net.kube.watch import lines
from clusterstacks.net.pool import Pool
from clusterstacks.net.retry import RequestBroken
from tests.support.builders.fault_schedules import Fault
from tests.support.observing.request_recorder import request_of

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterable
    from pathlib import Path

    from clusterstacks.dev.apiserver import ApiServer
    from tests.support.builders.fault_schedules import PlannedFault

HOLD_SECONDS = 3.0
"""Duration of a fault that lasts: then the proxy resets the connection or passes the answer on."""
EXPIRED_SECONDS = 0.5
"""Time in which the proxy presents an expired certificate, if the next plan does not end it earlier."""
POLL_SECONDS = 0.05
LONGEST_WATCH = timedelta(minutes=10)
MAX_EVENT_BYTES = 16 * 1024 * 1024
AGENT = "fault-proxy"
"""First word of the user agent of all forwarded requests, by which an audit log tells them from those of the test."""

_REFUSALS = {
    Fault.CONFLICT: (HTTPStatus.CONFLICT, "Conflict", "the object has been modified; please apply your changes again"),
    Fault.GONE: (HTTPStatus.GONE, "Expired", "too old resource version: 1 (2)"),
    Fault.TOO_MANY: (HTTPStatus.TOO_MANY_REQUESTS, "TooManyRequests", "too many requests, please try again later"),
    Fault.TOO_MANY_WAIT: (HTTPStatus.TOO_MANY_REQUESTS, "TooManyRequests", "too many requests, please wait"),
    Fault.INTERNAL_ERROR: (HTTPStatus.INTERNAL_SERVER_ERROR, "InternalError", "etcdserver: leader changed"),
    Fault.UNAVAILABLE: (HTTPStatus.SERVICE_UNAVAILABLE, "ServiceUnavailable", "the server is shutting down"),
}
_HOP_BY_HOP = frozenset({hdrs.HOST, hdrs.CONNECTION, hdrs.CONTENT_LENGTH, hdrs.TRANSFER_ENCODING, hdrs.USER_AGENT})


@dataclass(frozen=True, slots=True)
class Answer:
    """A complete response of the API server."""

    status: int
    headers: dict[str, str]
    body: bytes


@dataclass(slots=True)
class _Pending:
    """A planned fault and the number of matching requests so far."""

    planned: PlannedFault
    seen: int = 0


@dataclass
class FaultProxy:
    """Forwards requests as an administrator of ``server``; each planned fault happens once.

    ``kubeconfig`` leads to the proxy. ``happened`` has the faults of all plans so far, in their order.
    """

    server: ApiServer
    hold_seconds: float = HOLD_SECONDS
    expired_seconds: float = EXPIRED_SECONDS
    kubeconfig: dict[str, Any] = field(init=False)
    happened: list[PlannedFault] = field(init=False, default_factory=list)
    _pool: Pool = field(init=False, default_factory=Pool)
    _listener: web.Server = field(init=False)
    _pending: list[_Pending] = field(init=False, default_factory=list)
    _answers: dict[tuple[str, str], tuple[Answer, Answer]] = field(init=False, default_factory=dict)
    """For each read the last answer, and the last one that differs from it."""
    _tasks: set[asyncio.Task[Any]] = field(init=False, default_factory=set)
    _dark_until: float = field(init=False, default=0.0)
    _expired_until: float = field(init=False, default=0.0)

    @classmethod
    @asynccontextmanager
    async def started(cls, server: ApiServer, directory: Path) -> AsyncIterator[FaultProxy]:
        """Run a proxy whose certificate has the authority of the server; ``directory`` is for its keys."""
        proxy = cls(server)
        proxy._listener = web.Server(proxy._serve, access_log=None, handler_cancellation=True)
        runner = web.ServerRunner(proxy._listener, shutdown_timeout=0.1)
        async with proxy._pool:
            await runner.setup()
            site = web.TCPSite(runner, "127.0.0.1", 0, ssl_context=proxy._contexts(directory))
            await site.start()
            host, port = runner.addresses[0][:2]
            proxy.kubeconfig = copy.deepcopy(server.kubeconfig)
            proxy.kubeconfig["clusters"][0]["cluster"]["server"] = f"https://{host}:{port}"
            try:
                yield proxy
            finally:
                await runner.cleanup()
                # aiohttp cancels its tasks, but does not wait for them to close their connections.
                await asyncio.gather(*proxy._tasks, return_exceptions=True)

    def plan(self, faults: Iterable[PlannedFault]) -> None:
        """Replace the faults that have not happened, count requests from here on, and end those that last."""
        self._pending = [_Pending(planned) for planned in faults]
        self._dark_until = self._expired_until = 0.0

    def swallow(self) -> None:
        """Be a black hole until the next plan."""
        self._dark_until = math.inf

    # TLS

    def _contexts(self, directory: Path) -> ssl.SSLContext:
        """Return a context that presents the expired certificate while that fault lasts."""
        authority = Authority(self.server.keys.authority.read())
        valid = _context(authority, directory / "valid", timedelta(days=1))
        expired = _context(authority, directory / "expired", timedelta(minutes=-1))

        def choose(connection: ssl.SSLObject, _name: str | None, _context: ssl.SSLContext) -> None:
            if self._now() < self._expired_until:
                connection.context = expired

        valid.sni_callback = choose  # also called for clients that send no name
        return valid

    def _now(self) -> float:
        return asyncio.get_running_loop().time()

    # Requests

    async def _serve(self, request: web.BaseRequest) -> web.StreamResponse:
        if (task := asyncio.current_task()) is not None:
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
        body = await request.content.read()
        wanted = request_of(Call("", request.method, request.raw_path))
        fault = self._next_fault(wanted.verb, wanted.resource)
        if fault is Fault.BLACK_HOLE:
            self._dark_until = self._now() + self.hold_seconds
        elif fault is Fault.EXPIRED_CERTIFICATE:
            self._expired_until = self._now() + self.expired_seconds
            for connection in self._listener.connections:
                _abort(connection.transport)
        elif fault is Fault.RESET_BEFORE:
            _abort(request.transport)
        if request.transport is None or request.transport.is_closing() or await self._swallowed(request):
            return web.Response()
        if fault in _REFUSALS and not (fault is Fault.GONE and wanted.verb == "watch"):
            return _refusal(fault)
        try:
            if wanted.verb == "watch":
                return await self._watch(request, fault)
            return await self._respond(request, await self._answer(request, body, fault), fault)
        except (aiohttp.ClientError, OSError, RequestBroken):
            _abort(request.transport)
            return web.Response()

    def _next_fault(self, verb: str, resource: str) -> Fault | None:
        """Count a request; return the fault planned for it."""
        due = None
        for pending in self._pending:
            if pending.planned.matches(verb, resource):
                pending.seen += 1
                if due is None and pending.seen >= pending.planned.number:
                    due = pending
        if due is None:
            return None
        self._pending.remove(due)
        self.happened.append(due.planned)
        return due.planned.fault

    async def _swallowed(self, request: web.BaseRequest) -> bool:
        """Hold a request as long as the black hole lasts; return whether it was lost."""
        lost = self._now() < self._dark_until
        while self._now() < self._dark_until:  # noqa: ASYNC110  # the next plan may end it earlier
            await asyncio.sleep(POLL_SECONDS)
        if lost:
            _abort(request.transport)
        return lost

    def _forward(self, request: web.BaseRequest, body: bytes = b"") -> Any:  # a private type of aiohttp
        headers = {name: value for name, value in request.headers.items() if name.title() not in _HOP_BY_HOP}
        headers[hdrs.USER_AGENT] = f"{AGENT} {request.headers.get(hdrs.USER_AGENT, '')}"
        url = URL(f"{self.server.url}{request.raw_path}", encoded=True)
        context = self.server.context
        return self._pool.session.request(request.method, url, data=body or None, headers=headers, ssl=context)

    async def _answer(self, request: web.BaseRequest, body: bytes, fault: Fault | None) -> Answer:
        async with self._forward(request, body) as response:
            answer = Answer(
                response.status,
                {
                    name: response.headers[name]
                    for name in (hdrs.CONTENT_TYPE, hdrs.RETRY_AFTER)
                    if name in response.headers
                },
                await response.read(),
            )
        if request.method != hdrs.METH_GET:
            return answer
        read = (request.raw_path, request.headers.get(hdrs.ACCEPT, ""))
        last, older = self._answers.get(read, (answer, answer))
        self._answers[read] = (answer, last if last.body != answer.body else older)
        return self._answers[read][1] if fault is Fault.STALE else answer

    async def _respond(self, request: web.BaseRequest, answer: Answer, fault: Fault | None) -> web.StreamResponse:
        if fault is Fault.RESET_AFTER:
            _abort(request.transport)
        if fault is Fault.LATE:
            await asyncio.sleep(self.hold_seconds)
        if fault not in {Fault.RESET_IN_BODY, Fault.TRUNCATED, Fault.SLOW_BODY}:
            return web.Response(status=answer.status, headers=answer.headers, body=answer.body)
        response = web.StreamResponse(status=answer.status, headers=answer.headers)
        response.content_length = len(answer.body)
        await response.prepare(request)
        if fault is Fault.SLOW_BODY:
            for position in range(min(int(self.hold_seconds), len(answer.body))):
                await response.write(answer.body[position : position + 1])
                await asyncio.sleep(1)
        else:
            await response.write(answer.body[: len(answer.body) // 2])
        _end(request, fault)
        return response

    async def _watch(self, request: web.BaseRequest, fault: Fault | None) -> web.StreamResponse:
        async with self._forward(request) as upstream:
            response = web.StreamResponse(status=upstream.status, headers={hdrs.CONTENT_TYPE: "application/json"})
            await response.prepare(request)
            if fault is Fault.GONE:
                status = json.dumps({"type": "ERROR", "object": _status(fault)})
                await response.write(f"{status}\n".encode())
                return response
            if fault is Fault.STALLED_WATCH:
                await asyncio.sleep(self.hold_seconds)
                _abort(request.transport)
                return response
            async for event in lines(upstream.content, LONGEST_WATCH, MAX_EVENT_BYTES):
                line = (event or b"") + b"\n"
                if await self._swallowed(request):
                    return response
                if fault in {Fault.RESET_IN_BODY, Fault.TRUNCATED}:
                    await response.write(line[: len(line) // 2])
                    _end(request, fault)
                    return response
                await response.write(line * 2 if fault is Fault.DUPLICATED_EVENTS else line)
            return response


def _context(authority: Authority, directory: Path, lifetime: timedelta) -> ssl.SSLContext:
    pair = authority.issue("fault-proxy", addresses=("127.0.0.1",), lifetime=lifetime)
    write_private(directory / "tls.crt", pair.certificate)
    write_private(directory / "tls.key", pair.key)
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(directory / "tls.crt", directory / "tls.key")
    return context


def _status(fault: Fault) -> dict[str, Any]:
    code, reason, message = _REFUSALS[fault]
    return {
        "apiVersion": "v1",
        "kind": "Status",
        "status": "Failure",
        "code": int(code),
        "reason": reason,
        "message": message,
    }


def _refusal(fault: Fault) -> web.Response:
    headers = {hdrs.RETRY_AFTER: "1"} if fault is Fault.TOO_MANY_WAIT else {}
    return web.json_response(_status(fault), status=_REFUSALS[fault][0], headers=headers)


def _end(request: web.BaseRequest, fault: Fault) -> None:
    """End a connection in the middle of a response: in order if the body is truncated, else with a reset."""
    if fault is Fault.TRUNCATED and request.transport is not None:
        request.transport.close()
    else:
        _abort(request.transport)


def _abort(transport: asyncio.BaseTransport | None) -> None:
    if isinstance(transport, asyncio.WriteTransport):
        transport.abort()
