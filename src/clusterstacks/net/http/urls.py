"""Rules for URLs: the proxy of a host, and the redirects that are followed.

A URL that a server sends is not trusted: it may come from anyone.
"""

from __future__ import annotations

import ipaddress
import socket
from typing import TYPE_CHECKING

from yarl import URL

from clusterstacks.model.errors import SpecError

if TYPE_CHECKING:
    from collections.abc import Mapping


def proxy_for(url: URL, environ: Mapping[str, str]) -> URL | None:
    """Find the proxy for a URL, None for a direct connection; raise SpecError if the variable is not a proxy URL.

    ``HTTPS_PROXY``, ``HTTP_PROXY`` and ``NO_PROXY``, also in lower case, mean the same as to Go programs
    (golang.org/x/net ``httpproxy``): ``NO_PROXY`` lists names (with their sub-domains; only these after a leading dot),
    addresses, networks and ``*``, each with an optional port. This machine itself is never reached through a proxy.
    Messages do not show a value, which may contain a password.
    """
    variable = f"{url.scheme.upper()}_PROXY"
    text = _read(environ, variable)
    if not text or is_loopback(url) or _is_excepted(url, _read(environ, "NO_PROXY")):
        return None
    try:
        proxy = URL(text if "://" in text else f"http://{text}")
        if proxy.host and proxy.port and proxy.scheme in {"http", "https"}:
            return proxy
    except ValueError:
        pass
    raise SpecError("ProxyInvalid", f"{variable} is not a valid proxy (expected http://<host>:<port>)")


def is_loopback(url: URL) -> bool:
    """Return whether a URL names this machine, by address or as localhost."""
    address = address_of(url)
    if address is None:
        return (url.host or "").rstrip(".").lower() == "localhost"
    return address.is_loopback or address.is_unspecified


def address_of(url: URL) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    """Return the IP address in a URL, in every spelling that the system accepts; None for a host name."""
    host = url.host or ""
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        try:
            # 127.1, 2130706433 and 0x7f000001 are addresses to the C library.
            address = ipaddress.IPv4Address(socket.inet_aton(host))
        except (OSError, ValueError):
            return None
    return getattr(address, "ipv4_mapped", None) or address


def _read(environ: Mapping[str, str], variable: str) -> str:
    return (environ.get(variable) or environ.get(variable.lower()) or "").strip()


def _is_excepted(url: URL, exceptions: str) -> bool:
    return any(_covers(entry.strip().lower(), url) for entry in exceptions.split(",") if entry.strip())


def _covers(entry: str, url: URL) -> bool:
    if entry == "*":
        return True
    address = address_of(url)
    if "/" in entry:
        return address is not None and _is_within(address, entry)
    name, colon, port = entry.rpartition(":")
    if colon and port.isdigit() and (":" not in name or name.startswith("[")):
        if int(port) != url.port:
            return False
        entry = name
    host = (url.host or "").lower()
    if address is not None:
        return entry.strip("[]") == host
    return (host == entry and not entry.startswith(".")) or host.endswith(f".{entry.removeprefix('*').lstrip('.')}")


def _is_within(address: ipaddress.IPv4Address | ipaddress.IPv6Address, network: str) -> bool:
    try:
        return address in ipaddress.ip_network(network, strict=False)
    except ValueError:
        return False


def read_url(text: str) -> URL:
    """Read a URL without normalizing it, which would break a signature in it; raise ValueError if it is none."""
    return URL(text, encoded=text.isascii() and text.isprintable() and " " not in text)


def resolve(source: URL, text: str) -> URL | None:
    """Resolve a URL that a server sends against its own URL; None when it is not valid."""
    try:
        return source.join(read_url(text))
    except ValueError:
        return None


def may_follow(source: URL, target: URL) -> bool:
    """Return whether a server may redirect its client to a URL.

    It may not redirect from TLS to plain HTTP, nor from another machine to this one, nor to a link-local address, and
    the target must not contain credentials.
    """
    address = address_of(target)
    # The metadata services of clouds have link-local addresses, and return credentials.
    inward = (is_loopback(target) and not is_loopback(source)) or (address is not None and address.is_link_local)
    weaker = source.scheme == "https" and target.scheme != "https"
    whole = target.scheme in {"http", "https"} and bool(target.host) and target.user is None
    return whole and not weaker and not inward


def follow(source: URL, text: str) -> URL | None:
    """Resolve a URL that a server sends; None when it must not be followed."""
    target = resolve(source, text)
    return target if target is not None and may_follow(source, target) else None
