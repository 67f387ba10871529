"""A Kubernetes client connected to a scripted server."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from clusterstacks.net.kube.client import Client
from clusterstacks.net.kube.connection import Connection
from clusterstacks.net.pool import Pool
from clusterstacks.net.retry import RetryPolicy
from tests.support.fakes.scripted_server import ScriptedServer

if TYPE_CHECKING:
    from collections.abc import AsyncIterator


@pytest.fixture
async def server() -> AsyncIterator[ScriptedServer]:
    async with ScriptedServer.started() as server:
        yield server


@pytest.fixture
async def pool() -> AsyncIterator[Pool]:
    async with Pool() as pool:
        yield pool


@pytest.fixture
def slept() -> list[float]:
    """The waits between attempts; no time passes."""
    return []


@pytest.fixture
def retries(slept: list[float]) -> RetryPolicy:
    async def sleep(seconds: float) -> None:
        slept.append(seconds)

    return RetryPolicy(sleep=sleep)


@pytest.fixture
def client(server: ScriptedServer, pool: Pool, retries: RetryPolicy) -> Client:
    return Client(Connection(server.url), pool, retries=retries)
