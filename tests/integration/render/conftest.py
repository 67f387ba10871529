from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from clusterstacks.deliver.render.renderer import Renderer

if TYPE_CHECKING:
    from collections.abc import AsyncIterator


@pytest.fixture
async def renderer() -> AsyncIterator[Renderer]:
    renderer = Renderer()
    yield renderer
    await renderer.close()
