"""Sends reads over one connection without waiting for the responses in between.

A server answers them in their order (RFC 9112, section 9.3.2). One write and a few reads of the socket serve all of
them, and aiohttp builds no request and response objects, so a read costs about a fifth of the CPU time of one that is
sent alone. The connections are those of aiohttp's session, and its parser reads the responses.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

import aiohttp
from yarl import URL

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, AsyncIterator, Iterable, Sequence

    from clusterstacks.net.kube.auth import RequestCredentials

_PATH: Final = re.compile(r"[!-~]+")
_CONTROL: Final = re.compile(r"[\x00-\x08\x0a-\x1f\x7f]")
"""Paths contain names that the server chose, and headers those of a kubeconfig: neither may end a line."""

_NO_TIMEOUT: Final = aiohttp.ClientTimeout(total=None)


async def answers(
    session: aiohttp.ClientSession,
    server: str,
    reads: Sequence[tuple[str, str]],
    *,
    user_agent: str,
    credentials: RequestCredentials,
    server_name: str,
) -> AsyncGenerator[tuple[int, AsyncIterator[bytes]], None]:
    """Send reads (escaped path with query, and Accept header); yield status and body of each response, in order.

    The caller reads each body before the next response. There are fewer responses if the server closes the connection.
    Raises aiohttp.ClientError or OSError if the connection fails, and HttpProcessingError if the server does not speak
    HTTP.
    """
    url = URL(server, encoded=True)
    address = aiohttp.ClientRequest(
        "GET",
        url,
        headers=[*credentials.headers, ("Accept-Encoding", "identity"), ("User-Agent", user_agent)],
        skip_auto_headers=("Accept",),
        session=session,
        ssl=credentials.context,
        server_hostname=server_name or None,
    )
    text = _written(url.raw_path.rstrip("/"), address.headers.items(), reads)
    connector = session.connector
    if not text or connector is None:
        return
    connection = await connector.connect(address, [], _NO_TIMEOUT)
    done = False
    try:
        protocol, transport = connection.protocol, connection.transport
        if protocol is None or transport is None:
            return
        protocol.set_response_params(read_until_eof=True, auto_decompress=False)
        transport.write(text.encode())
        for _ in reads:
            message, payload = await protocol.read()
            while 100 <= message.code < 200:
                message, payload = await protocol.read()
            yield message.code, payload.iter_any()
            if message.should_close:
                return
        done = True
    finally:
        (connection.release if done else connection.close)()


def _written(prefix: str, headers: Iterable[tuple[str, str]], reads: Sequence[tuple[str, str]]) -> str:
    """Write the requests; empty if a text in them would end a line."""
    lines = [f"{name}: {value}" for name, value in headers]
    if any(map(_CONTROL.search, lines)) or not all(_PATH.fullmatch(prefix + path) for path, _ in reads):
        return ""
    shared = "".join(f"{line}\r\n" for line in lines)
    return "".join(f"GET {prefix}{path} HTTP/1.1\r\n{shared}Accept: {accept}\r\n\r\n" for path, accept in reads)
