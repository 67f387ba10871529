"""Free ports on the loopback address."""

from __future__ import annotations

import errno
import random
import socket
from typing import TYPE_CHECKING

from clusterstacks.domain.errors import DependencyError

if TYPE_CHECKING:
    from collections.abc import Callable

LOOPBACK = "127.0.0.1"
LOWEST, HIGHEST = 20_000, 32_767
"""Below the range the kernel gives to outgoing connections (net.ipv4.ip_local_port_range starts at 32768), so that
nothing takes a port by accident between finding it free and the process binding it."""
ATTEMPTS = 200
"""How many ports are tried before giving up; arbitrary."""

_handed_out: set[int] = set()


def free_port(is_free: Callable[[int], bool] | None = None) -> int:
    """Find a port nobody listens on; this process is never given the same one twice.

    Another program may still take it before it is used: whoever starts a server tries again with another port.

    Raises:
        DependencyError: every one of the ports tried is in use.
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
    """Tell whether a server could listen on ``port`` now, on the loopback address and on all interfaces."""
    for address in (LOOPBACK, ""):
        with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
            # As Go's net package does: a port whose last connection is still in TIME_WAIT can be listened on.
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind((address, port))
            except OSError as error:
                if error.errno in {errno.EADDRINUSE, errno.EACCES}:
                    return False
                raise
    return True
