"""Allowlist of hosts and paths: the values of ``--chart-repositories`` and ``--allowed-sources``.

Patterns::

    charts.example.com            everything on that host, at the default port of the scheme
    charts.example.com:8443       at this port; ``*`` for any
    *.k8s.io                      every host below k8s.io, at any depth, but not k8s.io itself
    *                             every host
    ghcr.io/org                   the path /org and everything below it, not /organisation
    ghcr.io/org/*-charts          the same for every such path; ``*`` never matches a slash
    [2001:db8::1]:5000            an address, in its usual short form

Patterns contain no scheme; the client refuses plain HTTP where it is not allowed.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from urllib.parse import unquote, urlsplit

from clusterstacks.model.documents import shown
from clusterstacks.model.errors import SpecError

_LABEL = r"[a-z0-9_](?:[a-z0-9_-]*[a-z0-9_])?"
_HOST = rf"\*|(?:\*\.)?{_LABEL}(?:\.{_LABEL})*|\[[0-9a-f:.]+\]"
_PATTERN = re.compile(rf"(?P<host>{_HOST})(?::(?P<port>[0-9]{{1,5}}|\*))?(?P<path>(?:/[A-Za-z0-9._~*+@-]+)*)/?")
_PORTS = {"http": 80, "https": 443, "oci": 443}


@dataclass(frozen=True, slots=True)
class _Pattern:
    host: str
    port: str
    path: tuple[str, ...]

    @classmethod
    def parse(cls, text: str) -> _Pattern:
        host, slash, path = text.partition("/")
        match = _PATTERN.fullmatch(f"{host.lower()}{slash}{path}")
        if match is None or {".", ".."} & set(match["path"].split("/")):
            raise SpecError(
                "InvalidPattern",
                f"{shown(text)} is not a valid host pattern (expected for example charts.example.com, *.k8s.io or "
                "ghcr.io/org/*)",
            )
        return cls(match["host"], match["port"] or "", tuple(match["path"].split("/")[1:]))

    def allows(self, place: _AllowedPlace) -> bool:
        return self._allows_host(place.host) and self._allows_port(place) and self._allows_path(place.path)

    def _allows_host(self, host: str) -> bool:
        if self.host.startswith("*."):
            return host.endswith(self.host[1:]) and host != self.host[1:]
        return self.host in ("*", host)

    def _allows_port(self, place: _AllowedPlace) -> bool:
        return self.port == "*" or place.port == (int(self.port) if self.port else place.usual_port)

    def _allows_path(self, path: tuple[str, ...]) -> bool:
        # An empty part counts: to many servers //team is not the same path as /team.
        return len(path) >= len(self.path) and all(
            part and re.fullmatch(re.escape(wanted).replace(r"\*", ".*"), part, re.DOTALL)
            for wanted, part in zip(self.path, path, strict=False)
        )


@dataclass(frozen=True, slots=True)
class _AllowedPlace:
    host: str
    port: int
    usual_port: int
    path: tuple[str, ...]

    @classmethod
    def of(cls, url: str) -> _AllowedPlace | None:
        """Parse a URL; None for one that programs could interpret differently."""
        try:
            parts = urlsplit(url)
            port = parts.port
        except ValueError:
            return None
        usual = _PORTS.get(parts.scheme)
        if usual is None or not parts.hostname or parts.username is not None or "\\" in url or not url.isprintable():
            return None
        host = f"[{parts.hostname}]" if ":" in parts.hostname else parts.hostname.removesuffix(".")
        path = tuple(unquote(part) for part in parts.path.removeprefix("/").removesuffix("/").split("/"))
        if any(map(_leads_elsewhere, path)):
            return None
        return cls(host, usual if port is None else port, usual, path)


def _leads_elsewhere(part: str) -> bool:
    """Return whether some server reads a part of a path, decoded once, as several parts or as a parent directory.

    A chain of proxies decodes several times, and some servers cut off parameters, which begin with a semicolon.
    """
    decoded = unquote(part)
    while decoded != part:
        part, decoded = decoded, unquote(decoded)
    return part.partition(";")[0] in (".", "..") or "/" in part or "\\" in part


@dataclass(frozen=True, slots=True)
class AllowedHosts:
    """A list of patterns, any of which allows a URL; the empty list allows nothing."""

    patterns: tuple[_Pattern, ...] = ()

    @classmethod
    def parse(cls, text: str) -> AllowedHosts:
        """Read patterns separated by commas, with optional blanks; raise SpecError for an invalid one."""
        return cls(tuple(_Pattern.parse(part.strip()) for part in text.split(",") if part.strip()))

    def allows(self, url: str) -> bool:
        """Return whether an ``http://``, ``https://`` or ``oci://`` URL is allowed; any other URL is not."""
        place = _AllowedPlace.of(url)
        return place is not None and any(pattern.allows(place) for pattern in self.patterns)


def host_of(url: str) -> str:
    """Return host and port of a URL in the form of a pattern, for messages; empty for an invalid URL."""
    place = _AllowedPlace.of(url)
    if place is None:
        return ""
    return place.host if place.port == place.usual_port else f"{place.host}:{place.port}"
