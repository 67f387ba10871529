"""The page of csctl ui while the API server of the management cluster is down, in a real browser."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import pytest

from clusterstacks.model.kinds.crd_manifests import all_crds
from clusterstacks.model.kinds.names import CLUSTER_API_GROUP, CLUSTER_KIND
from clusterstacks.net.kube.client import Client
from clusterstacks.net.kube.kubeconfig import parse_kubeconfig
from clusterstacks.net.pool import Pool
from tests.support.running.chromium import open_page
from tests.support.running.page import served_page
from tests.support.running.world import cluster_manifest, finished_status, foreign_crds, install
from tests.support.servers.api_servers import AT_ONCE, started_api_server

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator
    from pathlib import Path

    from clusterstacks.dev.apiserver import ApiServer
    from clusterstacks.dev.etcd import Etcd
    from clusterstacks.model.objects import Manifest

CLASS = "openstack-scs-1-35-v1"


@pytest.fixture
def stopped_server(etcd: Etcd, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ApiServer]:
    """An API server that the test stops."""
    yield from started_api_server("stopped", etcd, tmp_path_factory)


@pytest.fixture
async def client(stopped_server: ApiServer) -> AsyncIterator[Client]:
    """A client of the server, which has Cluster ``default/one`` with an event."""
    async with Pool() as pool:
        client = Client(parse_kubeconfig(stopped_server.kubeconfig, base=None), pool)
        await install(client, [*all_crds(), *foreign_crds()])
        clusters = await client.resource(CLUSTER_API_GROUP, CLUSTER_KIND)
        await client.create(clusters, cluster_manifest("default", "one", CLASS))
        await client.merge_patch(clusters, "one", {"status": finished_status()}, "default", subresource="status")
        await report(client, "TopologyReconciled")
        yield client


async def report(client: Client, reason: str) -> None:
    """Create an event of the Cluster."""
    event: Manifest = {
        "metadata": {"name": f"one.{reason.lower()}", "namespace": "default"},
        "involvedObject": {"kind": CLUSTER_KIND, "name": "one", "namespace": "default"},
        "lastTimestamp": datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
        "type": "Normal",
        "reason": reason,
    }
    await client.create(await client.resource("", "Event", "v1"), event)


async def test_banner_names_an_outage_and_the_page_recovers_by_itself(
    stopped_server: ApiServer, client: Client, chromium: list[str], tmp_path: Path
) -> None:
    async with served_page(client) as access, open_page(chromium, tmp_path) as page:
        await page.goto(access.address)
        await page.until("document.querySelector('#clusters tbody tr')")
        await page.value("location.hash = '#/cluster/default/one'")
        await page.until("document.querySelector('#events-list')")
        assert await page.value("document.querySelector('main').className") == ""
        before = await page.text("main svg")

        began = datetime.now(UTC).timestamp()
        await asyncio.to_thread(stopped_server.stop, AT_ONCE)
        await page.until("document.querySelector('.outage')?.textContent.includes('the management cluster')")
        banner = await page.text(".outage")
        host = stopped_server.url.removeprefix("https://")
        assert "the management cluster cannot be read since " in banner
        assert host in banner
        since = await page.value("Date.parse(document.querySelector('.outage time').dateTime)") / 1000
        assert int(began) <= since <= datetime.now(UTC).timestamp()
        assert await page.text("main svg") == before, "the last known state stays"
        assert "TopologyReconciled" in await page.text("#events-list")
        assert await page.value("document.querySelector('main').className") == "old"
        assert "last known state" in await page.text("header")
        await page.value("location.hash = '#/'")
        await page.until("document.querySelector('#clusters')?.textContent.includes('default/one')")
        assert "the management cluster" in await page.text(".outage"), "other views have the banner"
        await page.value("location.hash = '#/cluster/default/one'")
        await page.until("document.querySelector('svg')")

        await asyncio.to_thread(stopped_server.launch)
        clusters = await client.resource(CLUSTER_API_GROUP, CLUSTER_KIND)
        status = {"controlPlane": {"versions": [{"version": "v1.35.9"}]}}
        await client.merge_patch(clusters, "one", {"status": status}, "default", subresource="status")
        await report(client, "Recovered")
        await page.until("!document.querySelector('.outage')")
        await page.until("document.querySelector('.facts').textContent.includes('v1.35.9')")
        await page.until("document.querySelector('#events-list')?.textContent.includes('Recovered')")
        assert await page.value("document.querySelector('main').className") == ""
        assert "live" in await page.text("header")
        # A request for events may have been under way when the server stopped.
        assert all("502" in one for one in page.complaints), page.complaints
