"""Serves the page of ``csctl ui`` on loopback: its files, JSON documents, and server-sent events."""

from __future__ import annotations

import asyncio
import json
import logging
import socket
from contextlib import asynccontextmanager, suppress
from datetime import UTC, datetime
from importlib import resources
from typing import TYPE_CHECKING, Any, Final, cast

from aiohttp import web

from clusterstacks.csctl.ui.page_access import HEADERS, METHODS, PageAccess
from clusterstacks.csctl.ui.page_documents import bounded, cluster_document, fleet_document
from clusterstacks.model.errors import ClusterStacksError, SpecError
from clusterstacks.model.objects import ObjectKey
from clusterstacks.plan.clusters.cluster_tree import Snapshot
from clusterstacks.plan.compat.support_facts import support_ends

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Mapping

    from clusterstacks.model.objects import Manifest

    Question = Callable[[Mapping[str, str]], Awaitable[Manifest]]

FILES: Final = {
    "index.html": "text/html",
    "app.js": "text/javascript",
    "address.js": "text/javascript",
    "cluster.js": "text/javascript",
    "elements.js": "text/javascript",
    "fleet.js": "text/javascript",
    "frame.js": "text/javascript",
    "graph.js": "text/javascript",
    "icon.svg": "image/svg+xml",
    "style.css": "text/css",
    "vendor/preact.mjs": "text/javascript",
    "vendor/htm.module.js": "text/javascript",
}
"""Files of the page and their types; no other file is served."""

MAX_CLIENTS: Final = 16
"""Open event streams. Arbitrary: more tabs than a person watches."""

MAX_WAITING: Final = 8
"""Waiting requests of a question, because one is answered at a time: a plan may take seconds of processor time.
Arbitrary."""

KEPT_DOCUMENTS: Final = 64
"""Documents that are kept until the next change (arbitrary: more clusters than a person watches)."""

HEARTBEAT_SECONDS: Final = 15.0
"""Interval of comments in an event stream, by which closed connections are found (arbitrary)."""

STOP_SECONDS: Final = 0.5
"""Timeout of requests under way when the server stops; event streams never end by themselves."""

ENTRY: Final = """<!doctype html>
<html lang="en">
<head><meta charset="utf-8"><meta http-equiv="refresh" content="0;url=/"><title>csctl ui</title></head>
<body><a href="/">Continue</a></body>
</html>
"""
"""Answers an address with a token. The page itself is then opened by this document and not by a link of another
application, so that the browser sends the cookie although it is SameSite=Strict."""

NO_COOKIE: Final = "open the address that 'csctl ui' printed: it contains the token of this server\n"

log = logging.getLogger(__name__)

_quiet = logging.getLogger(f"{__name__}.http")
_quiet.setLevel(logging.CRITICAL)  # a trace for each malformed request of any local program


class ContextState:
    """The last snapshot of one management cluster, and what is missing in it."""

    def __init__(self, changed: Callable[[], None], name: str, namespace: str) -> None:
        self.snapshot = Snapshot()
        self._changed = changed
        self._about: Manifest = {"context": name, "namespace": namespace, "notices": [], "outage": None}

    def show(self, snapshot: Snapshot) -> None:
        """Replace the snapshot."""
        self.snapshot = snapshot
        self._changed()

    def warn(self, notices: list[str]) -> None:
        """Set the causes of objects that the next snapshots do not have."""
        self._about["notices"] = notices

    def report_outage(self, outage: Manifest | None) -> None:
        """Set what cannot be read, why, and since when, so that the snapshot is outdated; None after its end."""
        if outage != self._about["outage"]:
            self._about["outage"] = outage
            self._changed()

    def document(self) -> Manifest:
        """Return its context, the namespace of its Clusters (empty for all), and what is missing."""
        return cast("Manifest", bounded(self._about))


class PageState:
    """The management clusters by context, and the clients of the page that wait for a change.

    A client only gets the message that there is something new, and then requests what it shows. Nothing is queued for a
    client that misses changes.
    """

    def __init__(self) -> None:
        self.revision = 0
        self._contexts: dict[str, ContextState] = {}
        self._clients: set[asyncio.Event] = set()
        self._kept: dict[tuple[str, ObjectKey] | None, Manifest | None] = {}

    def add(self, context: str, namespace: str = "") -> ContextState:
        """Add a management cluster, with the Clusters of a namespace; empty for all."""
        self._contexts[context] = ContextState(self._changed, context, namespace)
        return self._contexts[context]

    def fleet(self) -> Manifest:
        """Return the document of the Clusters of all contexts."""
        if None not in self._kept:
            snapshots = {name: context.snapshot for name, context in self._contexts.items()}
            self._kept[None] = bounded(fleet_document(snapshots, support_ends(), datetime.now(UTC).date()))
        return {**(self._kept[None] or {}), "about": [context.document() for context in self._contexts.values()]}

    def cluster(self, context: str, key: ObjectKey) -> Manifest | None:
        """Return the document of a Cluster; None if the context (the first one if empty) has none with this name."""
        context = context or next(iter(self._contexts), "")
        if context not in self._contexts:
            return None
        if (context, key) not in self._kept:
            if len(self._kept) >= KEPT_DOCUMENTS:
                self._kept.clear()
            self._kept[context, key] = bounded(cluster_document(self._contexts[context].snapshot, key))
        kept = self._kept[context, key]
        return None if kept is None else {**kept, "about": [self._contexts[context].document()]}

    @asynccontextmanager
    async def client(self) -> AsyncIterator[asyncio.Event | None]:
        """Yield an event that is set after each change; None if there are too many clients."""
        if len(self._clients) >= MAX_CLIENTS:
            yield None
            return
        news = asyncio.Event()
        self._clients.add(news)
        try:
            yield news
        finally:
            self._clients.discard(news)

    def _changed(self) -> None:
        self._kept.clear()
        self.revision += 1
        for news in self._clients:
            news.set()


class PageServer:
    """The server of one page.

    ``questions`` compute the documents of other paths from the query of the request. They may take seconds; each
    question has one answer computed at a time.
    """

    def __init__(self, access: PageAccess, state: PageState, questions: Mapping[str, Question]) -> None:
        self._access = access
        self._state = state
        self._questions = questions
        self._turns = {name: asyncio.Lock() for name in questions}
        self._waiting = dict.fromkeys(questions, 0)
        page = resources.files(__package__) / "page"
        self._files = {name: (page / name).read_bytes() for name in FILES}

    async def run(self, listening: list[socket.socket]) -> None:
        """Serve on sockets until cancelled."""
        runner = web.ServerRunner(
            web.Server(self._answer, access_log=None, logger=_quiet), shutdown_timeout=STOP_SECONDS
        )
        await runner.setup()
        try:
            for listener in listening:
                await web.SockSite(runner, listener).start()
            await asyncio.Event().wait()
        finally:
            await runner.cleanup()

    async def _answer(self, request: web.BaseRequest) -> web.StreamResponse:
        refusal = self._access.refusal(request.method, request.headers.get("Host", ""), request.headers)
        if refusal is not None:
            status, message = refusal
            allow = {"Allow": ", ".join(METHODS)} if status == 405 else {}
            return _text(f"{message}\n", status, allow)
        if request.path == "/" and "token" in request.query:
            return self._enter(request)
        if not self._access.allows(request.cookies):
            return _text(NO_COOKIE, 401)
        return await self._serve(request)

    async def _serve(self, request: web.BaseRequest) -> web.StreamResponse:
        if request.path == "/events":
            return await self._events(request)
        if request.path.startswith("/api/"):
            return await self._document(request)
        name = request.path.removeprefix("/page/") if request.path != "/" else "index.html"
        if name not in self._files:
            return _text("there is no such page\n", 404)
        return web.Response(body=self._files[name], content_type=FILES[name], charset="utf-8", headers=HEADERS)

    def _enter(self, request: web.BaseRequest) -> web.Response:
        """Replace the token by a cookie."""
        if not self._access.is_valid(request.query["token"]):
            return _text(NO_COOKIE, 401)
        response = web.Response(text=ENTRY, content_type="text/html", headers=HEADERS)
        access = self._access
        response.set_cookie(access.cookie_name, access.cookie, httponly=True, samesite="Strict", path="/")
        return response

    async def _document(self, request: web.BaseRequest) -> web.Response:
        query = request.query
        try:
            if request.path == "/api/fleet":
                return _json(self._state.fleet())
            if request.path == "/api/cluster":
                document = self._state.cluster(query.get("context", ""), cluster_key(query))
                return (
                    _json(document) if document is not None else _problem("this Cluster does not exist (any more)", 404)
                )
            name = request.path.removeprefix("/api/")
            known = name in self._questions
            return await self._ask(name, query) if known else _problem("there is no such document", 404)
        except SpecError as error:
            return _problem(error.message, 422)
        except ClusterStacksError as error:
            return _problem(error.message, 502)
        except Exception:
            log.exception("Unexpected failure of the page, please report it")
            return _problem("csctl failed unexpectedly: its output has the details", 500)

    async def _ask(self, name: str, query: Mapping[str, str]) -> web.Response:
        if self._waiting[name] >= MAX_WAITING:
            return _problem("too many questions wait for an answer: try again", 503)
        self._waiting[name] += 1
        try:
            async with self._turns[name]:
                return _json(bounded(await self._questions[name](query)))
        finally:
            self._waiting[name] -= 1

    async def _events(self, request: web.BaseRequest) -> web.StreamResponse:
        async with self._state.client() as news:
            if news is None:
                return _text("too many pages are open: close one\n", 503)
            response = web.StreamResponse(headers={**HEADERS, "Content-Type": "text/event-stream"})
            await response.prepare(request)
            if request.method == "HEAD":
                return response
            with suppress(ConnectionError):
                while True:
                    news.clear()
                    await response.write(f"data: {self._state.revision}\n\n".encode())
                    while not await _set_within(news, HEARTBEAT_SECONDS):
                        await response.write(b": alive\n\n")
            return response


def listen(port: int) -> list[socket.socket]:
    """Listen on a port of 127.0.0.1 (0 for a free one), and on the same port of ::1 if there is one."""
    try:
        first = socket.create_server(("127.0.0.1", port))
    except OSError as error:
        message = f"127.0.0.1:{port} cannot be used: {error.strerror}; choose another port, or leave out --port"
        raise SpecError("PortInUse", message) from None
    sockets = [first]
    with suppress(OSError):
        sockets.append(socket.create_server(("::1", first.getsockname()[1]), family=socket.AF_INET6))
    return sockets


def cluster_key(query: Mapping[str, str]) -> ObjectKey:
    """Return the Cluster that the query of a request names; empty names if it names none."""
    return ObjectKey(query.get("namespace", ""), query.get("name", ""))


async def _set_within(event: asyncio.Event, seconds: float) -> bool:
    try:
        async with asyncio.timeout(seconds):
            return await event.wait()
    except TimeoutError:
        return False


def _json(document: Any, status: int = 200) -> web.Response:  # noqa: ANN401 - JSON
    body = json.dumps(document, separators=(",", ":")).encode()
    return web.Response(body=body, content_type="application/json", status=status, headers=HEADERS)


def _problem(message: str, status: int) -> web.Response:
    return _json({"error": bounded(message)}, status)


def _text(message: str, status: int, headers: Mapping[str, str] | None = None) -> web.Response:
    return web.Response(text=message, status=status, headers={**HEADERS, **(headers or {})})
