"""The page of csctl ui for in-memory management clusters, in this process."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING, Any

from clusterstacks.csctl.shared.cluster_options import ListScope, ManagementCluster
from clusterstacks.csctl.ui.page_server import listen
from clusterstacks.csctl.verbs.ui import ShownContext, serve_page

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from clusterstacks.csctl.ui.page_access import PageAccess
    from clusterstacks.net.kube.client import Client

SECONDS = 60
"""Deadline of everything; a busy machine may start slowly."""


@asynccontextmanager
async def served_page(client: Client, **others: Client) -> AsyncIterator[PageAccess]:
    """Serve the page of a management cluster and of others by context, and yield its secrets once it has content."""
    contexts = [
        ShownContext(name, one, ManagementCluster(context=name), ListScope())
        for name, one in {"example": client, **others}.items()
    ]
    started: asyncio.Future[PageAccess] = asyncio.get_running_loop().create_future()
    serving = asyncio.create_task(serve_page(contexts, listen(0), started.set_result))
    try:
        either: list[asyncio.Future[Any]] = [started, serving]
        done, _ = await asyncio.wait(either, timeout=SECONDS, return_when=asyncio.FIRST_COMPLETED)
        if serving in done:
            await serving
        yield await asyncio.wait_for(started, SECONDS)
    finally:
        serving.cancel()
        with suppress(asyncio.CancelledError):
            await serving
