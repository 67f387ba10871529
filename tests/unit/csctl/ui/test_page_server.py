"""The server of csctl ui: who gets an answer, and bounds."""

from __future__ import annotations

import asyncio
import hashlib
import json
from contextlib import AsyncExitStack, asynccontextmanager
from importlib import resources
from typing import TYPE_CHECKING, Any

import aiohttp
import pytest

from clusterstacks.csctl.ui.page_access import HEADERS, PageAccess
from clusterstacks.csctl.ui.page_documents import MAX_CHILDREN, MAX_ITEMS, MAX_TEXT, bounded, cluster_document
from clusterstacks.csctl.ui.page_server import (
    FILES,
    MAX_CLIENTS,
    MAX_WAITING,
    ContextState,
    PageServer,
    PageState,
    listen,
)
from clusterstacks.model.errors import DependencyError, SpecError
from clusterstacks.model.objects import ObjectKey
from clusterstacks.plan.clusters.cluster_tree import Snapshot

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping

    from clusterstacks.csctl.ui.page_server import Question

SECONDS = 30


class Served:
    """A running server and a client with its cookie."""

    def __init__(self, access: PageAccess, here: ContextState, session: aiohttp.ClientSession) -> None:
        self.access = access
        self.here = here
        self.session = session
        self.address = f"http://127.0.0.1:{access.port}"
        self.cookie = {"Cookie": f"{access.cookie_name}={access.cookie}"}

    async def get(self, path: str, *, method: str = "GET", **headers: str) -> tuple[int, str, Mapping[str, str]]:
        async with self.session.request(method, self.address + path, headers={**self.cookie, **headers}) as answer:
            return answer.status, await answer.text(), answer.headers


@asynccontextmanager
async def served(**questions: Question) -> AsyncIterator[Served]:
    listening = listen(0)
    access, state = PageAccess(listening[0].getsockname()[1]), PageState()
    here = state.add("here")
    running = asyncio.create_task(PageServer(access, state, questions).run(listening))
    try:
        async with (
            asyncio.timeout(SECONDS),
            aiohttp.ClientSession(cookie_jar=aiohttp.DummyCookieJar()) as session,
        ):
            yield Served(access, here, session)
    finally:
        running.cancel()
        await asyncio.wait([running])


async def test_only_get_and_head_of_a_loopback_host_with_the_cookie_are_answered() -> None:
    async with served() as page:
        status, text, headers = await page.get("/")
        assert (status, headers["Content-Type"]) == (200, "text/html; charset=utf-8")
        assert "/page/app.js" in text
        assert (await page.get("/", method="HEAD"))[:2] == (200, "")
        for method in ("POST", "PUT", "PATCH", "DELETE", "OPTIONS"):
            status, _, headers = await page.get("/api/fleet", method=method)
            assert (status, headers["Allow"]) == (405, "GET, HEAD")
        for host in ("evil.example.org", f"evil.example.org:{page.access.port}", "127.0.0.1", "127.0.0.1:1"):
            assert (await page.get("/api/fleet", Host=host))[0] == 421
        assert (await page.get("/api/fleet", Host=f"localhost:{page.access.port}"))[0] == 200
        for path in ("/", "/api/fleet", "/events", "/page/app.js"):
            assert (await page.get(path, Cookie=""))[0] == 401
            assert (await page.get(path, Cookie=f"{page.access.cookie_name}=x"))[0] == 401
        for site in ("cross-site", "same-site"):
            assert (await page.get("/api/fleet", **{"Sec-Fetch-Site": site}))[0] == 403


async def test_every_answer_has_the_headers_of_security() -> None:
    async with served() as page:
        answers = [await page.get(path) for path in ("/", "/api/fleet", "/page/style.css", "/none", "/api/none")]
        answers += [await page.get("/", method="POST"), await page.get("/", Cookie="")]
        for _, _, headers in answers:
            assert {name: headers[name] for name in HEADERS} == HEADERS
        assert "unsafe" not in HEADERS["Content-Security-Policy"]


def test_every_file_of_the_page_is_served() -> None:
    page = resources.files("clusterstacks.csctl.ui") / "page"
    assert {one.name for one in page.iterdir() if one.is_file()} == {name for name in FILES if "/" not in name}


@pytest.mark.parametrize(
    "path", ["/page/../page_server.py", "/page/%2e%2e/page_server.py", "/page/vendor/manifest.json"]
)
async def test_only_the_files_of_the_page_are_served(path: str) -> None:
    async with served() as page:
        assert (await page.get(path))[0] == 404


async def test_token_becomes_a_cookie_that_scripts_and_other_sites_do_not_get() -> None:
    async with served() as page:
        status, _, headers = await page.get(f"/?token={page.access.token}", Cookie="")
        cookie = headers["Set-Cookie"]
        assert status == 200
        assert cookie.startswith(f"{page.access.cookie_name}={page.access.cookie};")
        assert "HttpOnly" in cookie
        assert "SameSite=Strict" in cookie
        assert (await page.get("/?token=guess", Cookie=""))[0] == 401


async def test_token_is_valid_again_after_a_look_at_the_headers() -> None:
    async with served() as page:
        address = f"/?token={page.access.token}"
        assert (await page.get(address, method="HEAD", Cookie=""))[0] == 200
        assert (await page.get(address, Cookie=""))[0] == 200
        assert (await page.get("/?token=", Cookie=""))[0] == 401


async def test_events_report_the_last_revision_once_and_clients_are_bounded() -> None:
    async with served() as page, AsyncExitStack() as stack:
        address = f"{page.address}/events"
        streams = [
            await stack.enter_async_context(page.session.get(address, headers=page.cookie)) for _ in range(MAX_CLIENTS)
        ]
        assert await streams[0].content.readline() == b"data: 0\n"
        assert (await page.get("/events"))[0] == 503
        for _ in range(1000):
            page.here.show(Snapshot())
        await streams[0].content.readline()
        assert await streams[0].content.readline() == b"data: 1000\n"


async def test_errors_of_questions_are_answers_and_waiting_questions_are_bounded() -> None:
    release = asyncio.Event()

    async def stalled(query: Mapping[str, str]) -> dict[str, Any]:
        raise SpecError("X", f"{query['name']} is wrong")

    async def unreachable(query: Mapping[str, str]) -> dict[str, Any]:  # noqa: ARG001
        raise DependencyError("X", "not now")

    async def slow(query: Mapping[str, str]) -> dict[str, Any]:  # noqa: ARG001
        await release.wait()
        return {}

    async with served(stalled=stalled, unreachable=unreachable, slow=slow) as page:
        assert (await page.get("/api/stalled?name=x"))[:2] == (422, '{"error":"x is wrong"}')
        assert (await page.get("/api/unreachable"))[:2] == (502, '{"error":"not now"}')
        asked = [asyncio.create_task(page.get("/api/slow")) for _ in range(MAX_WAITING + 1)]
        done, _ = await asyncio.wait(asked, return_when=asyncio.FIRST_COMPLETED)
        assert [one.result()[0] for one in done] == [503]
        assert (await page.get("/api/stalled?name=x"))[0] == 422, "other questions do not wait"
        release.set()
        assert sorted([one[0] for one in await asyncio.gather(*asked)]) == [*[200] * MAX_WAITING, 503]


async def test_missing_cluster_is_not_found_and_the_fleet_names_what_is_missing() -> None:
    async with served() as page:
        page.here.warn(["releases are not shown"])
        outage = {"what": "Cluster", "why": "\u202e", "since": "2026-11-23T10:00:00+00:00"}
        page.here.report_outage(outage)
        assert (await page.get("/api/cluster?namespace=a&name=b"))[0] == 404
        about = json.loads((await page.get("/api/fleet"))[1])["about"]
        assert about == [
            {
                "context": "here",
                "namespace": "",
                "notices": ["releases are not shown"],
                "outage": {**outage, "why": "\ufffd"},
            }
        ]


def test_port_in_use_is_named() -> None:
    taken = listen(0)
    port = taken[0].getsockname()[1]
    with pytest.raises(SpecError, match=f"127.0.0.1:{port} cannot be used"):
        listen(port)
    for one in taken:
        one.close()


def test_documents_are_bounded_and_without_control_characters() -> None:
    assert bounded({"a": "x" * (MAX_TEXT + 9)}) == {"a": f"{'x' * MAX_TEXT} …"}
    assert len(bounded(["x"] * (MAX_ITEMS + 1))) == MAX_ITEMS
    assert bounded("a\u202eb\x1b") == "a\ufffdb\ufffd"


def test_graph_has_a_bounded_number_of_children() -> None:
    cluster = {"metadata": {"namespace": "a", "name": "b"}, "spec": {"topology": {"classRef": {"name": "c"}}}}
    stages = [{"name": f"stage-{number}", "action": "apply"} for number in range(MAX_CHILDREN + 5)]
    addon = {
        "metadata": {"namespace": "a", "name": "cluster-addon-b"},
        "spec": {"clusterRef": {"name": "b"}},
        "status": {"stages": stages},
    }
    document = cluster_document(Snapshot(clusters=[cluster], addons=[addon]), ObjectKey("a", "b"))
    assert document is not None
    titles = [one["title"] for one in document["graph"]["nodes"]]
    assert titles[-1] == "and 5 more"
    assert len(titles) == MAX_CHILDREN + 4


def test_deliveries_of_a_cluster_have_states() -> None:
    results = ("Running", "Superseded", "RolledBack", "Delivered")
    addon = {
        "metadata": {"namespace": "a", "name": "cluster-addon-b"},
        "spec": {"clusterRef": {"name": "b"}},
        "status": {"history": [{"result": result} for result in results]},
    }
    cluster = {"metadata": {"namespace": "a", "name": "b"}}
    document = cluster_document(Snapshot(clusters=[cluster], addons=[addon]), ObjectKey("a", "b"))
    assert document is not None
    assert [(one["outcome"], one["state"]) for one in document["deliveries"]] == [
        ("running", "working"),
        ("superseded", ""),
        ("rolled back", "failed"),
        ("delivered", "done"),
    ]


def test_vendored_files_are_those_of_their_manifest() -> None:
    vendor = resources.files("clusterstacks.csctl.ui") / "page" / "vendor"
    packages = json.loads((vendor / "manifest.json").read_text())
    listed = {one["file"]: one["sha256"] for package in packages for one in package["files"]}
    found = {one.name: hashlib.sha256(one.read_bytes()).hexdigest() for one in vendor.iterdir()}
    del found["manifest.json"]
    assert found == listed
    assert all(any(one["file"].endswith("LICENSE") for one in package["files"]) for package in packages)
