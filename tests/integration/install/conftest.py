"""The chart of the operator, rendered and installed."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from clusterstacks.deliver.render.renderer import Renderer
from tests.support.running.kubectl import Kubectl
from tests.support.running.world import world
from tests.support.servers.api_servers import started_api_server

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

    from clusterstacks.dev.apiserver import ApiServer
    from clusterstacks.dev.etcd import Etcd

__all__ = ["world"]


@pytest.fixture
async def renderer() -> AsyncIterator[Renderer]:
    renderer = Renderer(workers=1)
    yield renderer
    await renderer.close()


@pytest.fixture
def server(etcd: Etcd, tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> Iterator[ApiServer]:
    """A management cluster without anything, as each test installs the same cluster-wide objects."""
    yield from started_api_server(request.node.name.replace("_", "-"), etcd, tmp_path_factory)


@pytest.fixture
def kubectl(server: ApiServer) -> Kubectl:
    return Kubectl(server.kubeconfig_path, "cluster-stack-system")
