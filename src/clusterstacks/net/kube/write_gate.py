"""Write gate: refuses writes at the moment of sending, unless they are allowed at that time.

aiohttp waits for a connection (DNS, TCP, TLS) and starts another task before it sends a request, and a process can be
stopped for minutes at each of these points. A check before the call is therefore not sufficient. Instead, the body of
the request checks the gate: ``GuardedBody`` runs check and write in one step, without ``await`` between them.

A late request is still possible after the check: in the instructions up to the system call ``send``; in bytes that the
connection could not send because the server did not read (at most ``PIECE_BYTES`` and 128 KiB of buffers;
``WriteGate.close`` drops them, but a process that is stopped at that moment may send them when it continues); and in
the buffers of kernels and network. Only the server can refuse such a request, by its resource version or uid.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final

import aiohttp
from aiohttp.http import StreamWriter

from clusterstacks.model.errors import DependencyError

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable

    from aiohttp.abc import AbstractStreamWriter

PIECE_BYTES: Final = 64 * 1024
"""Maximum part of a body that is sent after one check. Source: from this size, aiohttp waits for a slow connection to
drain (``StreamWriter.write``)."""


class WriteGate:
    """Decides whether writes may be sent; closed until it is opened for a limited time.

    ``now`` is a clock in seconds that advances while the process or machine is suspended.
    """

    def __init__(self, now: Callable[[], float]) -> None:
        self._now = now
        self._until = -math.inf
        self._pending: set[asyncio.Transport] = set()

    @property
    def is_open(self) -> bool:
        """True if a write may be sent now."""
        return self._now() < self._until

    def open_until(self, moment: float) -> None:
        """Allow writes until this time of the local clock."""
        self._until = moment

    def close(self) -> None:
        """Refuse further writes, and abort the connections of writes without a response.

        An API server abandons a request when its connection breaks, but the write may still succeed.
        """
        self._until = -math.inf
        for connection in self._pending:
            connection.abort()
        self._pending.clear()

    def check(self, about: str) -> None:
        """Raise DependencyError unless a write may be sent now."""
        if not self.is_open:
            raise DependencyError("WriteRefused", f"{about}: this process does not hold its lease, so it may not write")

    def sent(self, connection: asyncio.Transport) -> None:
        """Register a connection whose write waits for a response."""
        self._pending.add(connection)

    def answered(self, connection: asyncio.Transport) -> None:
        """Unregister the connection of a finished write."""
        self._pending.discard(connection)


class GuardedBody(aiohttp.Payload):
    """Body of a write, sent in pieces; the gate is checked in the same step as each piece is sent. It may be empty."""

    _autoclose = True  # there is nothing to close

    def __init__(self, content: bytes, about: str, gate: WriteGate | None) -> None:
        super().__init__(content)
        self._size = len(content)
        self._about = about
        self._gate = gate
        self._connection: asyncio.Transport | None = None

    def decode(self, encoding: str = "utf-8", errors: str = "strict") -> str:
        """Return the content as text, as aiohttp requires of a payload."""
        return str(self._value, encoding, errors)

    async def write(self, writer: AbstractStreamWriter) -> None:
        """Send the whole content, as ``write_with_length``."""
        await self.write_with_length(writer, None)

    async def write_with_length(self, writer: AbstractStreamWriter, content_length: int | None) -> None:
        """Send the content, at most ``content_length`` bytes of it, while the gate is open."""
        content: bytes = self._value[:content_length]
        for start in range(0, max(len(content), 1), PIECE_BYTES):
            piece = content[start : start + PIECE_BYTES]
            if self._gate is not None:
                self._gate.check(self._about)
                self._track(self._gate, writer)
            # The first piece is sent together with the headers. aiohttp passes both to the connection before it waits;
            # tests/unit/net/kube/test_write_gate.py fails if a later version does not.
            await writer.write(piece)

    def ended(self) -> None:
        """Report the end of the request, with or without a response."""
        if self._gate is not None and self._connection is not None:
            self._gate.answered(self._connection)

    def _track(self, gate: WriteGate, writer: AbstractStreamWriter) -> None:
        if self._connection is None and isinstance(writer, StreamWriter) and writer.transport is not None:
            self._connection = writer.transport
            gate.sent(self._connection)
