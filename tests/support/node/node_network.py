"""The network between host and node: a pair of interfaces, and routes to pods and Services.

The kernel removes the pair with the node's network namespace, and the routes with the pair.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import time
from dataclasses import dataclass
from ipaddress import ip_network

from clusterstacks.model.errors import DependencyError

FIRST, LAST = 200, 254
"""Range of the second number of a node's addresses; arbitrary, rarely used by others."""
TIMEOUT_SECONDS = 30.0
"""Timeout for the kernel to remove the namespace of a node that has ended; it takes less than a second."""
POLL_SECONDS = 0.05


@dataclass(frozen=True, slots=True)
class NodeNetwork:
    """The addresses of a node, all in ``10.<number>.0.0/16``."""

    number: int

    @property
    def link(self) -> str:
        """Name of the host's interface."""
        return f"csnode{self.number}"

    @property
    def peer(self) -> str:
        """Name of the node's interface."""
        return f"cspeer{self.number}"

    @property
    def host(self) -> str:
        """Address of the host: API servers listen on it."""
        return f"10.{self.number}.0.254"

    @property
    def node(self) -> str:
        """Address of the node."""
        return f"10.{self.number}.0.1"

    @property
    def pods(self) -> str:
        """Range of the pods."""
        return f"10.{self.number}.1.0/24"

    @property
    def services(self) -> str:
        """Range of the Services."""
        return f"10.{self.number}.2.0/24"


def claim() -> NodeNetwork:
    """Choose unused addresses and create the pair; the pair reserves them.

    Raises:
        DependencyError: All addresses are used, or the pair cannot be created.
    """
    used = [
        ip_network(route["dst"])
        for route in json.loads(_ip("-4", "-json", "route", "show", "table", "all"))
        if "/" in route["dst"]
    ]
    for number in range(FIRST, LAST + 1):
        network = NodeNetwork(number)
        if not any(ip_network(f"10.{number}.0.0/16").overlaps(route) for route in used) and _create(network):
            return network
    raise DependencyError(
        "NoFreeNetwork", f"no free network 10.N.0.0/16 with N from {FIRST} to {LAST}: 'ip route' shows the used ones"
    )


def restore(network: NodeNetwork) -> None:
    """Create the pair again after its node ended.

    Raises:
        DependencyError: The pair cannot be created.
    """
    end = time.monotonic() + TIMEOUT_SECONDS
    remove(network)
    while not _create(network):
        if time.monotonic() > end:
            raise DependencyError("InterfaceLeft", f"interface {network.link} cannot be removed")
        time.sleep(POLL_SECONDS)
        remove(network)


def connect(network: NodeNetwork, pid: int) -> None:
    """Move the node's interface into the network namespace of a process, and add the routes.

    Raises:
        DependencyError: The kernel refuses.
    """
    _ip("link", "set", network.peer, "netns", str(pid))
    for target in (network.pods, network.services):
        _ip("route", "replace", target, "via", network.node, "dev", network.link, "onlink")


def remove(network: NodeNetwork) -> None:
    """Remove the pair, and so the routes, if they exist."""
    _try("link", "delete", network.link)


def interfaces() -> set[str]:
    """Return the names of the interfaces of this machine."""
    return {link["ifname"] for link in json.loads(_ip("-json", "link", "show"))}


def _create(network: NodeNetwork) -> bool:
    """Create the pair; False when it exists."""
    done = _try("link", "add", network.link, "type", "veth", "peer", "name", network.peer)
    if done.returncode:
        if "File exists" in done.stderr:
            return False
        raise DependencyError("NetworkFailed", f"cannot create interface {network.link}: {done.stderr.strip()}")
    try:
        _ip("address", "add", f"{network.host}/24", "dev", network.link)
        _ip("link", "set", network.link, "up")
    except BaseException:
        _try("link", "delete", network.link)
        raise
    return True


def _ip(*arguments: str) -> str:
    done = _try(*arguments)
    if done.returncode:
        raise DependencyError("NetworkFailed", f"ip {' '.join(arguments)} failed: {done.stderr.strip()}")
    return done.stdout


def _try(*arguments: str) -> subprocess.CompletedProcess[str]:
    program = shutil.which("ip") or "ip"
    return subprocess.run([program, *arguments], capture_output=True, text=True, check=False)
