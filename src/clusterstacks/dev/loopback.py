"""Servers on the loopback address: free ports and blocking HTTP probes."""

from __future__ import annotations

import errno
import http.client
import random
import socket
import ssl
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from clusterstacks.model.errors import DependencyError

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

LOOPBACK = "127.0.0.1"
LOWEST, HIGHEST = 20_000, 32_767
"""Below the range the kernel gives to outgoing connections (net.ipv4.ip_local_port_range starts at 32768), so that
nothing takes a port by accident between finding it free and the process binding it."""
ATTEMPTS = 200
"""Number of ports that are tried; arbitrary."""

_handed_out: set[int] = set()


def free_port(is_free: Callable[[int], bool] | None = None) -> int:
    """Find a free port; the same process never gets the same port twice.

    Another program may take it before it is used: then the caller tries another port.
    """
    check = is_free or can_bind
    for _ in range(ATTEMPTS):
        port = random.randint(LOWEST, HIGHEST)  # noqa: S311 - a port number is no secret
        if port not in _handed_out and check(port):
            _handed_out.add(port)
            return port
    raise DependencyError(
        "NoFreePort",
        f"no free port on {LOOPBACK} between {LOWEST} and {HIGHEST} after {ATTEMPTS} attempts; "
        "stop what listens there ('ss -ltn' shows it)",
    )


def can_bind(port: int) -> bool:
    """Return whether a server could listen on ``port`` now, on the loopback address and on all interfaces."""
    for address in (LOOPBACK, ""):
        with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
            # As Go's net package does, so that a port with connections in TIME_WAIT can be used.
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind((address, port))
            except OSError as error:
                if error.errno in {errno.EADDRINUSE, errno.EACCES}:
                    return False
                raise
    return True


DEADLINE_SECONDS = 5.0
"""Timeout of one request; a stopped process does not answer at all."""


def request(url: str, *, context: ssl.SSLContext | None = None, body: bytes | None = None) -> tuple[int, bytes]:
    """Send one GET (or a POST, when there is a body) and return status and body.

    Raises:
        OSError: No answer, or not in time (``TimeoutError``, ``ConnectionRefusedError``, ``ssl.SSLError``).
        http.client.HTTPException: The answer is not HTTP.
    """
    parts = urlsplit(url)
    host, port = parts.hostname or "", parts.port
    connection: http.client.HTTPConnection
    if parts.scheme == "https":
        connection = http.client.HTTPSConnection(host, port, timeout=DEADLINE_SECONDS, context=context)
    else:
        connection = http.client.HTTPConnection(host, port, timeout=DEADLINE_SECONDS)
    try:
        connection.request("GET" if body is None else "POST", parts.path or "/", body=body)
        answer = connection.getresponse()
        return answer.status, answer.read()
    finally:
        connection.close()


def answers_ok(url: str, *, context: ssl.SSLContext | None = None) -> bool:
    """Return whether a GET is answered with status 200."""
    try:
        status, _ = request(url, context=context)
    except (OSError, http.client.HTTPException):
        return False
    return status == http.client.OK


def client_context(authority: Path, certificate: Path, key: Path) -> ssl.SSLContext:
    """Create the TLS context for a server of ``authority`` with a client certificate."""
    context = ssl.create_default_context(cafile=str(authority))
    context.load_cert_chain(certificate, key)
    return context
