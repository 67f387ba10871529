"""Readiness questions to processes on the loopback address, by plain blocking HTTP: one request, one short deadline."""

from __future__ import annotations

import http.client
import ssl
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

if TYPE_CHECKING:
    from pathlib import Path

DEADLINE_SECONDS = 5.0
"""For one request; a process that is stopped or starved does not answer at all."""


def request(url: str, *, context: ssl.SSLContext | None = None, body: bytes | None = None) -> tuple[int, bytes]:
    """Send one GET (or a POST, when there is a body) and return status and body.

    Raises:
        OSError: nobody answers, or not in time (``TimeoutError``, ``ConnectionRefusedError``, ``ssl.SSLError``).
        http.client.HTTPException: the answer is no HTTP.
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
    """Tell whether a GET is answered with status 200."""
    try:
        status, _ = request(url, context=context)
    except (OSError, http.client.HTTPException):
        return False
    return status == http.client.OK


def client_context(authority: Path, certificate: Path, key: Path) -> ssl.SSLContext:
    """Make the TLS settings to reach a server of ``authority`` with a client certificate."""
    context = ssl.create_default_context(cafile=str(authority))
    context.load_cert_chain(certificate, key)
    return context
