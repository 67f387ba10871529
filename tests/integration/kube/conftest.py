"""Clients of the tests' API servers."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from clusterstacks.net.kube.client import Client
from clusterstacks.net.kube.kubeconfig import parse_kubeconfig
from clusterstacks.net.pool import Pool

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from clusterstacks.dev.apiserver import ApiServer
    from clusterstacks.model.objects import Manifest


@pytest.fixture
def answers() -> list[tuple[str, int]]:
    """Collect the method and status of every answer the pool gets."""
    return []


@pytest.fixture
async def pool(answers: list[tuple[str, int]]) -> AsyncIterator[Pool]:
    async with Pool(on_answer=lambda method, status: answers.append((method, status))) as pool:
        yield pool


@pytest.fixture
def api_kubeconfig(api_server: ApiServer) -> Manifest:
    return api_server.kubeconfig


@pytest.fixture
def client(api_kubeconfig: Manifest, pool: Pool) -> Client:
    return Client(parse_kubeconfig(api_kubeconfig, base=None), pool)
