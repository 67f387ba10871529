"""Checks whether this machine can run a node, and finds the programs that it provides."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from clusterstacks.model.errors import SpecError
from tests.support.node.node_init import HIDDEN

if TYPE_CHECKING:
    from collections.abc import Iterable

CGROUPS = Path("/sys/fs/cgroup")
CONTROLLERS = ("blkio", "cpu", "cpuacct", "cpuset", "devices", "freezer", "memory", "pids")
"""Controllers of cgroup v1 that kubelet and runc use."""
PROGRAMS = ("containerd", "containerd-shim-runc-v2", "ctr", "runc", "ip", "mount", "nsenter", "unshare")
PLUGINS = ("bridge", "host-local", "loopback")
PLUGIN_DIRECTORIES = (Path("/usr/lib/cni"), Path("/opt/cni/bin"))
PROXY_MODES = {"nft": "nftables", "iptables": "iptables"}
"""Mode of kube-proxy for the program that it runs, the preferred one first."""
PACKAGES = "containerd runc containernetworking-plugins iproute2 nftables"
"""Packages of Debian and Ubuntu with these programs."""
PROBE = ("unshare", "--mount", "--pid", "--fork", "--net", "--uts", "--ipc", "--cgroup", "true")
PROBE_SECONDS = 30
"""Timeout of the probe, which takes milliseconds; arbitrary."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Host:
    """The parts of a node that this machine provides.

    Args:
        plugins: Directory of the CNI plugins.
        proxy_mode: Mode in which kube-proxy works here.
    """

    plugins: Path
    proxy_mode: str


def require_host(*used: Path) -> Host:
    """Find the parts of a node on this machine.

    Args:
        used: Files and directories that programs of the node use.

    Raises:
        SpecError: This machine cannot run a node; the message lists all reasons.
    """
    plugins = next((path for path in PLUGIN_DIRECTORIES if _has_plugins(path)), None)
    mode = next((mode for program, mode in PROXY_MODES.items() if shutil.which(program)), "")
    reasons = [*_rights(), *_cgroups(), *_programs(), *_hidden(used)]
    if plugins is None:
        reasons.append(f"the CNI plugins {', '.join(PLUGINS)} are not in {' or '.join(map(str, PLUGIN_DIRECTORIES))}")
    if not mode:
        reasons.append("neither nft nor iptables is on PATH")
    if not reasons and (refusal := _namespaces()):
        reasons.append(f"namespaces cannot be created: {refusal}")
    if reasons or plugins is None:
        raise SpecError(
            "NodeImpossible",
            f"this machine cannot run a node: {'; '.join(reasons)}. A node needs Linux with cgroup v1, root, and the "
            f"programs of these packages: {PACKAGES}",
        )
    return Host(plugins=plugins, proxy_mode=mode)


def _rights() -> list[str]:
    return [] if os.geteuid() == 0 else ["the tests do not run as root"]


def _cgroups() -> list[str]:
    missing = [name for name in CONTROLLERS if not os.access(CGROUPS / name / "cgroup.procs", os.W_OK)]
    return [f"no writable cgroup v1 hierarchy of {', '.join(missing)} below {CGROUPS}"] if missing else []


def _programs() -> list[str]:
    missing = [name for name in PROGRAMS if shutil.which(name) is None]
    return [f"not on PATH: {', '.join(missing)}"] if missing else []


def _hidden(used: Iterable[Path]) -> list[str]:
    python = (Path(sys.prefix), Path(sys.base_prefix), Path(__file__))
    unseen = [str(path) for path in (*used, *python) if {*HIDDEN} & {*path.resolve().parents}]
    own = ", ".join(map(str, HIDDEN))
    return [f"a node has directories of its own at {own}, and does not see {', '.join(unseen)}"] if unseen else []


def _has_plugins(directory: Path) -> bool:
    return all(os.access(directory / name, os.X_OK) for name in PLUGINS)


def _namespaces() -> str:
    """Return why namespaces cannot be created; empty when they can."""
    try:
        done = subprocess.run(PROBE, capture_output=True, text=True, timeout=PROBE_SECONDS, check=False)
    except subprocess.TimeoutExpired:
        return f"no answer within {PROBE_SECONDS} s"
    return (done.stderr.strip() or "unshare failed") if done.returncode else ""
