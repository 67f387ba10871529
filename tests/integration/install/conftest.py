"""The chart of the operator, rendered and installed."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from clusterstacks.deliver.render.renderer import Renderer
from tests.support.running.kubectl import Kubectl
from tests.support.running.world import world

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from clusterstacks.dev.apiserver import ApiServer

__all__ = ["world"]


@pytest.fixture
async def renderer() -> AsyncIterator[Renderer]:
    renderer = Renderer(workers=1)
    yield renderer
    await renderer.close()


@pytest.fixture
def kubectl(server: ApiServer) -> Kubectl:
    return Kubectl(server.kubeconfig_path, "cluster-stack-system")
