"""A TCP proxy that breaks connections after a number of bytes, or is slow."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import AsyncIterator


class CuttingProxy:
    """Forwards to ``target``; ``cuts`` sets after how many bytes each of the next connections breaks.

    A connection breaks when more bytes than its number went in one direction; without a number it is not cut.
    ``carried`` counts all forwarded bytes. With ``rate``, this many bytes a second go in each direction.
    """

    def __init__(self, target: str) -> None:
        self.cuts: list[int] = []
        self.broken = 0
        self.carried = 0
        self.rate = 0
        self.host = ""
        self._target = target.rsplit(":", 1)

    @classmethod
    @asynccontextmanager
    async def started(cls, target: str) -> AsyncIterator[CuttingProxy]:
        proxy = cls(target)
        server = await asyncio.start_server(proxy._serve, "127.0.0.1", 0)
        host, port = server.sockets[0].getsockname()
        proxy.host = f"{host}:{port}"
        try:
            yield proxy
        finally:
            server.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        ends = [writer]
        try:
            there, onward = await asyncio.open_connection(self._target[0], int(self._target[1]))
            ends.append(onward)
            pumps = [asyncio.create_task(self._pump(reader, onward)), asyncio.create_task(self._pump(there, writer))]
            await asyncio.wait(pumps, return_when=asyncio.FIRST_COMPLETED)
        finally:  # also when the event loop ends
            for end in ends:
                end.transport.abort()

    async def _pump(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        passed = 0
        with suppress(OSError):
            while piece := await reader.read(8192 if self.rate else 65536):
                passed += len(piece)
                # Only transfers are worth a cut: requests and small answers pass.
                if self.cuts and passed > self.cuts[0]:
                    del self.cuts[0]
                    self.broken += 1
                    return
                self.carried += len(piece)
                writer.write(piece)
                await writer.drain()
                if self.rate:
                    await asyncio.sleep(len(piece) / self.rate)
