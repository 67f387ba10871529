from __future__ import annotations

import asyncio
import json
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import aiohttp
import pytest

from clusterstacks.operator.observation import Observation, ObservingGate
from clusterstacks.operator.probes_server import ProbesServer
from clusterstacks.runtime.component_health import Probes
from clusterstacks.runtime.metrics import Metrics

if TYPE_CHECKING:
    from collections.abc import AsyncIterator


@asynccontextmanager
async def serving(
    probes: Probes | None = None, metrics: Metrics | None = None, observation: Observation | None = None
) -> AsyncIterator[str]:
    """Run a server at a free port of the loopback; yields its URL."""
    server = ProbesServer("127.0.0.1", 0, probes=probes, metrics=metrics, observation=observation)
    task = asyncio.create_task(server.run())
    await server.started.wait()
    try:
        yield f"http://127.0.0.1:{server.port}"
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def read(url: str) -> tuple[int, str]:
    async with aiohttp.ClientSession() as session, session.get(url) as response:
        return response.status, await response.text()


async def test_status_code_follows_the_checks() -> None:
    problem = "not synced"
    probes = Probes()
    probes.add_ready("caches", lambda: problem)
    async with serving(probes) as url:
        assert await read(f"{url}/readyz") == (503, "[-]caches failed: not synced\ncheck failed\n")
        assert await read(f"{url}/healthz") == (200, "check passed\n")
        problem = ""
        assert await read(f"{url}/readyz") == (200, "[+]caches ok\ncheck passed\n")


async def test_metrics_are_served_in_text_format() -> None:
    metrics = Metrics()
    metrics.count_request("management", "GET", 200)
    async with serving(metrics=metrics) as url:
        status, text = await read(f"{url}/metrics")

    assert status == 200
    assert 'clusterstacks_api_requests_total{code="200",method="GET",target="management"} 1.0' in text


async def test_what_would_be_written_is_served_as_json() -> None:
    gate = ObservingGate()
    gate.writes["clusteraddon a/one"] = "apply Secret b/c"
    async with serving(observation=Observation(gate, [], lambda: True)) as url:
        status, text = await read(f"{url}/observed")

    assert status == 200
    assert json.loads(text) == {
        "wouldWrite": [{"object": "clusteraddon a/one", "write": "apply Secret b/c"}],
        "clusters": 0,
        "notCompared": [],
    }


@pytest.mark.parametrize("path", ["/healthz", "/metrics", "/observed", "/"])
async def test_unknown_path_is_not_found(path: str) -> None:
    async with serving() as url:
        status, _ = await read(url + path)

    assert status == 404


async def test_port_in_use_is_an_error_at_once() -> None:
    async with serving() as url:
        second = ProbesServer("127.0.0.1", int(url.rpartition(":")[2]))
        with pytest.raises(OSError, match="address already in use"):
            await second.run()
