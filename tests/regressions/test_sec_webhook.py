"""SEC-6: whoever reaches the port of the webhooks stops neither the operator nor the API server's questions."""

from __future__ import annotations

import asyncio
import json
import re
import ssl
import time
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

import aiohttp
import pytest
import uvloop

from clusterstacks.admission.certificates import made
from clusterstacks.admission.server import PATH, WebhookServer
from clusterstacks.domain.admission.answers import ALLOWED
from clusterstacks.kube.tls import serve_with, server_context
from tests.support.flooding import BODIES, flood

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from clusterstacks.admission.reviews import Review
    from clusterstacks.domain.admission.answers import Answer

MIB = 1024 * 1024
STALL_SECONDS = 0.1
GROWTH = 64 * MIB
REVIEW = {
    "apiVersion": "admission.k8s.io/v1",
    "kind": "AdmissionReview",
    "request": {"uid": "u1", "operation": "CREATE", "kind": {"group": "", "kind": "Any"}, "object": {}},
}


class Allows:
    """Allows everything."""

    async def judge(self, review: Review) -> Answer:
        assert review.uid == "u1"
        return ALLOWED


class Beat:
    """Notes how much CPU time the process takes between two turns of the event loop, at most."""

    longest = 0.0

    async def run(self) -> None:
        last = time.process_time()
        while True:
            await asyncio.sleep(0)
            now = time.process_time()
            self.longest, last = max(self.longest, now - last), now


@asynccontextmanager
async def serving() -> AsyncIterator[tuple[WebhookServer, ssl.SSLContext]]:
    pair = made(["127.0.0.1"], timedelta(hours=1), datetime.now(UTC))
    context = server_context()
    serve_with(context, pair.certificate, pair.key)
    server = WebhookServer("127.0.0.1", 0, context, Allows())
    task = asyncio.create_task(server.run())
    await server.started.wait()
    try:
        yield server, ssl.create_default_context(cadata=pair.authorities.decode())
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


def peak() -> int:
    """The most memory the process had since ``forget_peak``, in bytes."""
    found = re.search(r"VmHWM:\s+(\d+) kB", Path("/proc/self/status").read_text())
    assert found is not None
    return int(found[1]) * 1024


def forget_peak() -> None:
    Path("/proc/self/clear_refs").write_text("5")


async def _attack(kind: str) -> tuple[list[int], list[int], float, int]:
    """Flood a server; returns the answers of the flood, those of others, the longest stall and the memory grown."""
    async with serving() as (server, trusting), aiohttp.ClientSession() as session:
        url = f"https://127.0.0.1:{server.port}{PATH}"

        async def ask() -> int:
            async with session.post(url, json=REVIEW, ssl=trusting) as answer:
                return answer.status

        assert await ask() == 200
        forget_peak()
        before, beat = peak(), Beat()
        beating = asyncio.create_task(beat.run())
        flooding = asyncio.create_task(flood(server.port, PATH, kind, size=8 * MIB - 16, times=8))
        others = []
        while not flooding.done():
            others.append(await ask())
            await asyncio.sleep(0.02)
        beating.cancel()
        return [status for status, _ in await flooding], others, beat.longest, peak() - before


@pytest.mark.parametrize("kind", BODIES)
def test_sec_6_bodies_of_strangers_stop_nobody(kind: str) -> None:
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        flooded, others, stall, growth = runner.run(_attack(kind))

    print(f"{kind}: {flooded}, {len(others)} others, stall {stall * 1000:.0f} ms, growth {growth / MIB:.0f} MiB")
    assert set(flooded) <= {400, 413, 429, 504, 0}
    assert set(others) == {200}
    assert stall < STALL_SECONDS
    assert growth < GROWTH
