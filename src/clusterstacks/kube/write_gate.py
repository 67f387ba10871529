"""Refuses writes at the moment of sending, unless their owner has said until when they are allowed.

aiohttp waits for a connection (DNS, TCP, TLS) and starts another task before it sends a request, and a process can be
stopped for minutes at any of these points. A check before the call proves nothing about the moment of sending. So the
body of a request checks the gate: ``GuardedBody`` runs check and write in one step, with no ``await`` between them.

What remains after the check: the instructions up to the system call ``send``; bytes that the connection could not pass
on because the server did not read (at most ``PIECE_BYTES`` and 128 KiB of buffers; ``WriteGate.close`` drops them, but
a process that is stopped at that moment and continues later may pass them on first); and the buffers of the kernels and
the network on the way. Only the server can refuse such a late request, by a resource version or uid in it.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final

import aiohttp
from aiohttp.http import StreamWriter

from clusterstacks.kube.errors import WriteRefused

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable

    from aiohttp.abc import AbstractStreamWriter

PIECE_BYTES: Final = 64 * 1024
"""Largest part of a body that is sent after one check. Source: from here on aiohttp waits until a slow connection has
taken what it was given (``StreamWriter.write``)."""


class WriteGate:
    """Says whether writes may be sent now; closed until its owner opens it for some time.

    Args:
        now: The local clock in seconds; it must also count the time in which process or machine are suspended.
    """

    def __init__(self, now: Callable[[], float]) -> None:
        self._now = now
        self._until = -math.inf
        self._under_way: set[asyncio.Transport] = set()

    @property
    def is_open(self) -> bool:
        """Whether a write may be sent at this moment."""
        return self._now() < self._until

    def open_until(self, moment: float) -> None:
        """Let writes pass up to a moment of the local clock."""
        self._until = moment

    def close(self) -> None:
        """Refuse writes from now on, and break the connections of those that have no answer yet.

        An API server gives up a request whose connection breaks. It may be done all the same.
        """
        self._until = -math.inf
        for connection in self._under_way:
            connection.abort()
        self._under_way.clear()

    def check(self, about: str) -> None:
        """Return if a write may be sent at this moment.

        Raises:
            WriteRefused: It may not.
        """
        if not self.is_open:
            raise WriteRefused(f"{about}: this process does not hold its lease, so it may not write")

    def sent(self, connection: asyncio.Transport) -> None:
        """Remember a connection whose write waits for an answer."""
        self._under_way.add(connection)

    def answered(self, connection: asyncio.Transport) -> None:
        """Forget the connection of a write that came to an end."""
        self._under_way.discard(connection)


class GuardedBody(aiohttp.Payload):
    """The body of a write, sent in pieces with a look at the gate in the same step as each; may be empty.

    Args:
        content: The bytes.
        about: Verb and object for messages.
        gate: None lets everything pass.
    """

    _autoclose = True  # nothing to close; aiohttp asks

    def __init__(self, content: bytes, about: str, gate: WriteGate | None) -> None:
        super().__init__(content)
        self._size = len(content)
        self._about = about
        self._gate = gate
        self._connection: asyncio.Transport | None = None

    def decode(self, encoding: str = "utf-8", errors: str = "strict") -> str:
        """Return the content as text."""
        return str(self._value, encoding, errors)

    async def write(self, writer: AbstractStreamWriter) -> None:
        """Send the content."""
        await self.write_with_length(writer, None)

    async def write_with_length(self, writer: AbstractStreamWriter, content_length: int | None) -> None:
        """Send the content, at most ``content_length`` bytes of it.

        Raises:
            WriteRefused: The gate is closed.
        """
        content: bytes = self._value[:content_length]
        for start in range(0, max(len(content), 1), PIECE_BYTES):
            piece = content[start : start + PIECE_BYTES]
            if self._gate is not None:
                self._gate.check(self._about)
                self._track(self._gate, writer)
            # The first piece takes the headers along. aiohttp passes both on to the connection before it waits for
            # anything; tests/unit/kube/test_write_gate.py fails if a later version does not.
            await writer.write(piece)

    def ended(self) -> None:
        """Note that the request came to an end, with or without an answer."""
        if self._gate is not None and self._connection is not None:
            self._gate.answered(self._connection)

    def _track(self, gate: WriteGate, writer: AbstractStreamWriter) -> None:
        if self._connection is None and isinstance(writer, StreamWriter) and writer.transport is not None:
            self._connection = writer.transport
            gate.sent(self._connection)
