"""Requests of a client to its API server, and a client that is killed during one."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Sequence

    from clusterstacks.net.kube.client import Client
    from clusterstacks.net.kube.transport import Call

READING = frozenset({"get", "list", "watch"})


class Killed(BaseException):
    """The process is gone: no code may catch this."""


@dataclass
class Recorder:
    """Records requests between a client and its transport.

    Args:
        inner: The real transport.
        kill_at: Number of the request (from 1) that does not come back; 0 kills nobody.
        kill_after: The server still got that request.
        calls: Verb and object of every request.
    """

    inner: Any
    kill_at: int = 0
    kill_after: bool = False
    calls: list[str] = field(default_factory=list)

    @classmethod
    def on(cls, client: Client, **how: Any) -> Recorder:
        recorder = cls(client._transport, **how)
        client._transport = recorder  # type: ignore[assignment]  # a transport by its methods
        return recorder

    @property
    def writes(self) -> list[str]:
        return [call for call in self.calls if call.split()[0] not in READING]

    async def send(self, call: Call) -> bytes:
        self._count(call)
        answer: bytes = await self.inner.send(call)
        if self.kill_at and len(self.calls) >= self.kill_at:
            raise Killed
        return answer

    async def send_together(self, reads: Sequence[Call]) -> list[bytes | None]:
        for read in reads:
            self._count(read)
        answers: list[bytes | None] = await self.inner.send_together(reads)
        return answers

    async def open(self, call: Call) -> Any:
        self._count(call)
        if self.kill_at and len(self.calls) >= self.kill_at:
            raise Killed
        return await self.inner.open(call)

    def _count(self, call: Call) -> None:
        self.calls.append(call.about)
        if self.kill_at and len(self.calls) >= self.kill_at + (1 if self.kill_after else 0):
            raise Killed

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inner, name)
