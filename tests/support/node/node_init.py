"""First process of a node: ``python node_init.py FILE``.

It runs in new namespaces and cgroups. It mounts the node's file systems, configures its network, starts containerd,
imports images, and starts kubelet and kube-proxy. When one of them ends, or it is killed, the kernel ends all others.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

ROOT = Path("/mnt")
"""The state directory of the environment inside the node: a short path, which sockets need."""
HIDDEN = (ROOT, Path("/run"), Path("/var"))
"""Directories of this machine that the node does not see: it has others there."""
SOCKET = Path("/run/containerd/containerd.sock")
TIMEOUT_SECONDS = 120.0
"""Timeout for the interface and for containerd, which take less than a second on a quiet machine; arbitrary."""
POLL_SECONDS = 0.05
CGROUPS = Path("/sys/fs/cgroup")
FORWARD = Path("/proc/sys/net/ipv4/ip_forward")
CTR = ("ctr", "--address", str(SOCKET), "--namespace", "k8s.io")


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeSettings:
    """Settings of the first process, which are passed in a file.

    Args:
        name: Name of the node.
        state: State directory of the environment.
        interface: Name of the node's interface, which the host moves here.
        address: Address of the node with its prefix length.
        gateway: Address of the host.
        programs: Command lines of containerd, kubelet and kube-proxy, by name, with paths below ``ROOT``.
    """

    name: str
    state: str
    interface: str
    address: str
    gateway: str
    programs: dict[str, list[str]]

    def to_json(self) -> bytes:
        """Write the settings."""
        return json.dumps(asdict(self)).encode()


def main() -> None:
    """Run the node until one of its programs ends."""
    settings = NodeSettings(**json.loads(Path(sys.argv[1]).read_bytes()))
    _run("hostname", settings.name)
    _mount(settings)
    _configure_network(settings)
    containerd = _start(settings, "containerd")
    _wait("containerd", lambda: _succeeds(*CTR, "version"))
    for archive in sorted((ROOT / "node" / "images").glob("*.tar")):
        _run(*CTR, "images", "import", str(archive))
    programs = {containerd: "containerd"}
    for name in settings.programs:
        if name != "containerd":
            programs[_start(settings, name)] = name
    while True:
        ended, status = os.wait()  # also reaps the children of programs that have ended
        if ended in programs:
            sys.exit(f"{programs[ended]} ended with code {os.waitstatus_to_exitcode(status)}")


def _mount(settings: NodeSettings) -> None:
    _run("mount", "--make-rprivate", "/")
    _run("mount", "--bind", settings.state, str(ROOT))
    for path in HIDDEN[1:]:  # programs write to fixed paths there
        _run("mount", "-t", "tmpfs", "-o", "mode=755", "tmpfs", str(path))
    for directory in (SOCKET.parent, Path("/run/netns"), Path("/var/lib"), Path("/var/log")):
        directory.mkdir(parents=True)
    Path("/var/run").symlink_to("/run")
    hierarchies, links = cgroup_layout(CGROUPS)
    _run("mount", "-t", "sysfs", "sysfs", "/sys")
    _run("mount", "-t", "tmpfs", "-o", "mode=755", "tmpfs", str(CGROUPS))
    for name in hierarchies:
        (CGROUPS / name).mkdir()
        options = "none,name=systemd" if name == "systemd" else name
        _run("mount", "-t", "cgroup", "-o", options, "cgroup", str(CGROUPS / name))
    for name, target in links.items():
        (CGROUPS / name).symlink_to(target)
    _run("mount", "--make-rshared", "/")


def cgroup_layout(root: Path) -> tuple[list[str], dict[str, str]]:
    """Return the hierarchies of cgroup v1 below ``root``, and the links to them.

    systemd mounts some controllers together, and links each of them: ``cpu`` to ``cpu,cpuacct``.
    """
    found = [path for path in root.iterdir() if (path / "cgroup.clone_children").exists()]
    links = {path.name: path.resolve().name for path in found if path.is_symlink()}
    return [path.name for path in found if not path.is_symlink()], links


def _configure_network(settings: NodeSettings) -> None:
    _wait(settings.interface, lambda: _succeeds("ip", "link", "show", settings.interface))
    _run("ip", "link", "set", "lo", "up")
    _run("ip", "address", "add", settings.address, "dev", settings.interface)
    _run("ip", "link", "set", settings.interface, "up")
    _run("ip", "route", "add", "default", "via", settings.gateway)
    FORWARD.write_text("1")


def _start(settings: NodeSettings, name: str) -> int:
    with (ROOT / "logs" / f"{name}.log").open("ab") as log:
        return subprocess.Popen(settings.programs[name], stdin=subprocess.DEVNULL, stdout=log, stderr=log).pid


def _run(*command: str) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(f"{' '.join(command)} failed: {done.stderr.strip()}")


def _succeeds(*command: str) -> bool:
    return subprocess.run(command, capture_output=True, check=False).returncode == 0


def _wait(what: str, ready: Callable[[], bool]) -> None:
    end = time.monotonic() + TIMEOUT_SECONDS
    while not ready():
        if time.monotonic() > end:
            sys.exit(f"{what} was not ready after {TIMEOUT_SECONDS:g} s")
        time.sleep(POLL_SECONDS)


if __name__ == "__main__":
    main()
