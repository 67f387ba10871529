"""An operator of this process that dies between two writes, and the requests that it sent."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from clusterstacks.net.kube.errors import Unreachable
from clusterstacks.net.kube.transport import Transport
from tests.support.running.mortal_operator import UNCOUNTED, WRITES

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    import pytest

    from clusterstacks.net.kube.transport import Call
    from tests.support.running.world import World

_in_operator = ContextVar("in_operator", default=False)
_send = Transport.send


@dataclass
class MortalClients:
    """The clients of one operator after the other, to all servers.

    No answer comes back after the last write of a life, as after a SIGKILL; the test then ends the operator.
    """

    calls: list[Call] = field(default_factory=list)
    lives: int = 0
    left: int = 0
    """Writes until the death; 0 for none."""
    dead: asyncio.Event = field(default_factory=asyncio.Event)
    _buried: asyncio.Event = field(default_factory=asyncio.Event)

    @classmethod
    def installed(cls, monkeypatch: pytest.MonkeyPatch) -> MortalClients:
        clients = cls()

        async def send(self: Transport, call: Call) -> bytes:
            return await clients._send(self, call) if _in_operator.get() else await _send(self, call)

        monkeypatch.setattr(Transport, "send", send)
        return clients

    @asynccontextmanager
    async def operator(self, world: World, writes: int = 0) -> AsyncIterator[None]:
        """Run an operator that dies after its ``writes``-th write; 0 for one that lives."""
        self.left, self.dead, self._buried = writes, asyncio.Event(), asyncio.Event()
        self.lives += 1
        token = _in_operator.set(True)
        try:
            running = world.operator()
            async with running:
                _in_operator.reset(token)
                yield
                self._buried.set()
        finally:
            self._buried.set()

    async def _send(self, transport: Transport, call: Call) -> bytes:
        if not self.dead.is_set():
            self.calls.append(call)
            answer = await _send(transport, call)
            is_write = call.method in WRITES and not any(part in call.path for part in UNCOUNTED)
            if not (is_write and self.left):
                return answer
            self.left -= 1
            if self.left:
                return answer
            self.dead.set()
        await self._buried.wait()
        raise Unreachable("the operator is dead")
