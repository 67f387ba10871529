"""TLS contexts that behave like the ones of Go's Kubernetes clients, without keys on disk."""

from __future__ import annotations

import os
import ssl
from typing import Final

_NO_PASSWORD: Final = ""


def client_context(ca: bytes, certificate: bytes, key: bytes, *, verify: bool) -> ssl.SSLContext:
    """Build a context; 0.3 ms and 17 KB with a CA, 20 ms and 825 KB without one (DEPENDENCIES section 1).

    Args:
        ca: PEM certificates that are trusted, instead of the system's; empty for the system's.
        certificate: PEM chain to present; empty for none.
        key: Its PEM key, not encrypted.
        verify: False accepts any server.

    Raises:
        ssl.SSLError: What is no certificate or key, or a key that does not fit; never quotes the content.
        ValueError: The CA is no text.
    """
    if verify:
        context = ssl.create_default_context(cadata=ca.decode("ascii") if ca else None)
    else:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    # As Go: any certificate of the CA bundle is an anchor, and a CA without key identifiers is one too.
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    context.verify_flags &= ~ssl.VERIFY_X509_STRICT
    context.hostname_checks_common_name = False
    if certificate:
        _load_pair(context, certificate, key)
    return context


def server_context() -> ssl.SSLContext:
    """Build the context of a server without a certificate; :func:`serve_with` gives it one."""
    return ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)


def serve_with(context: ssl.SSLContext, certificate: bytes, key: bytes) -> None:
    """Have connections that begin from now on see this certificate; those under way go on with the one they have.

    Args:
        context: Of the server, in use or not.
        certificate: PEM chain.
        key: Its PEM key, not encrypted.

    Raises:
        ssl.SSLError: These are no certificate and its key.
    """
    _load_pair(context, certificate, key)


def _load_pair(context: ssl.SSLContext, certificate: bytes, key: bytes) -> None:
    """Load a certificate and its key; ``ssl`` takes paths only, so they go through a file in memory."""
    descriptor = os.memfd_create("certificate", os.MFD_CLOEXEC)
    try:
        with os.fdopen(descriptor, "wb", closefd=False) as memory:
            memory.write(certificate + b"\n" + key)
        context.load_cert_chain(f"/proc/self/fd/{descriptor}", password=_NO_PASSWORD)
    finally:
        os.close(descriptor)


def check_authority(ca: bytes) -> None:
    """Raise ValueError or ssl.SSLError when ``ca`` is no PEM bundle of certificates."""
    ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT).load_verify_locations(cadata=ca.decode("ascii"))


def check_pair(certificate: bytes, key: bytes) -> None:
    """Raise ssl.SSLError when these are no certificate and its key."""
    _load_pair(ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT), certificate, key)
