"""A workload cluster for deliveries that counts requests."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any

import pytest

from clusterstacks.deliver.apply.delivery import RECORD_NAMESPACE
from clusterstacks.deliver.apply.record_store import RECORD_LABEL, SECRETS
from clusterstacks.net.kube.client import Client
from clusterstacks.net.kube.kubeconfig import parse_kubeconfig
from clusterstacks.net.pool import Pool
from tests.support.observing.client_requests import Recorder

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from clusterstacks.dev.apiserver import ApiServer

_numbers = itertools.count(1)


class Cluster:
    """One API server: ``client`` is the operator's, ``user`` another user's; ``authority`` is a certificate."""

    def __init__(self, kubeconfig: dict[str, Any], pool: Pool) -> None:
        self._connection = parse_kubeconfig(kubeconfig, base=None)
        self._pool = pool
        self.authority: str = kubeconfig["clusters"][0]["cluster"]["certificate-authority-data"]
        self.user = self.new_client()
        self.client = self.new_client()
        self.requests = Recorder.on(self.client)

    def new_client(self, **settings: Any) -> Client:
        return Client(self._connection, self._pool, **settings)

    async def live(self, kind: str, name: str, namespace: str = "", group: str = "") -> dict[str, Any] | None:
        return await self.user.find(await self.user.resource(group, kind), name, namespace)


@pytest.fixture
def unique() -> str:
    """Return a word that no other test uses: the API server serves all tests of a run."""
    return f"t{next(_numbers)}"


@pytest.fixture
async def cluster(workload_server: ApiServer) -> AsyncIterator[Cluster]:
    async with Pool() as pool:
        cluster = Cluster(workload_server.kubeconfig, pool)
        yield cluster
        for secret in (await cluster.user.list(SECRETS, RECORD_NAMESPACE, labels=RECORD_LABEL)).items:
            await cluster.user.delete(SECRETS, secret["metadata"]["name"], RECORD_NAMESPACE)
