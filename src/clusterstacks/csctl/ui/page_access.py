"""Decides which requests the page server answers: address, method, host, origin and token.

Other users of the machine can connect to a loopback port, and every web page that the viewer opens can send requests
to it. So a request needs the cookie of this server, must name a loopback host (a page of another host could otherwise
reach the server by DNS rebinding), and must not come from a page of another origin.
"""

from __future__ import annotations

import hmac
import secrets
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Mapping

METHODS: Final = ("GET", "HEAD")

TOKEN_BYTES: Final = 32

OWN_FETCHES: Final = ("same-origin", "none", "")
"""Values of Sec-Fetch-Site of the page itself and of a typed address; empty in clients that do not send it. Pages of
other loopback ports send ``same-site``, and their requests have the cookie."""

HEADERS: Final = {
    "Cache-Control": "no-store",
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self'; "
        "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    ),
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "Server": "csctl",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
}
"""Headers of every response."""


def _token() -> str:
    return secrets.token_urlsafe(TOKEN_BYTES)


@dataclass(slots=True)
class PageAccess:
    """The token and the cookie of one server."""

    port: int
    token: str = field(default_factory=_token)
    """The token of the address; valid as long as the server."""
    cookie: str = field(default_factory=_token)
    """The value of the cookie that replaces the token."""

    @property
    def cookie_name(self) -> str:
        """The name of the cookie; browsers send cookies to all ports of a host."""
        return f"csctl-ui-{self.port}"

    @property
    def address(self) -> str:
        """The address of the page with the token: never in arguments of a process, which all users can read."""
        return f"http://127.0.0.1:{self.port}/?token={self.token}"

    def is_valid(self, token: str) -> bool:
        """Return whether a request has the token."""
        return _same(token, self.token)

    def refusal(self, method: str, host: str, headers: Mapping[str, str]) -> tuple[int, str] | None:
        """Return status and message of a request that is refused whatever it asks for; None for others."""
        if method not in METHODS:
            return 405, "the page is read-only: use GET or HEAD"
        hosts = [f"{name}:{self.port}" for name in ("127.0.0.1", "localhost", "[::1]")]
        if host not in hosts:
            return 421, f"this server is only reached as {hosts[0]}"
        if headers.get("Sec-Fetch-Site", "") not in OWN_FETCHES and headers.get("Sec-Fetch-Mode") != "navigate":
            return 403, "requests of other pages are refused"
        return None

    def allows(self, cookies: Mapping[str, str]) -> bool:
        """Return whether a request has the cookie."""
        return _same(cookies.get(self.cookie_name, ""), self.cookie)


def _same(given: str, expected: str) -> bool:
    return hmac.compare_digest(given.encode(), expected.encode())
