"""The process of a node: its start in new namespaces and cgroups, and the removal of its traces."""

from __future__ import annotations

import http.client
import json
import os
import shutil
import sys
import time
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

from clusterstacks.dev.loopback import request
from clusterstacks.dev.node import cgroups, node_files, node_network
from clusterstacks.dev.node.node_network import NodeNetwork
from clusterstacks.dev.private_files import write_private
from clusterstacks.dev.processes import POLL_SECONDS, Command, Process, ProcessError

if TYPE_CHECKING:
    from clusterstacks.dev.node.node_files import NodeParts
    from clusterstacks.dev.state_directory import StateDirectory
    from clusterstacks.model.objects import Manifest

NEW_NAMESPACES = ("--mount", "--pid", "--uts", "--ipc", "--net", "--cgroup")
ENTER = 'while [ "$1" != -- ]; do echo $$ > "$1/cgroup.procs" || exit 1; shift; done; shift; exec "$@"'
"""Shell program that moves itself into the cgroups given before ``--``, and executes the rest."""
TIMEOUT = timedelta(seconds=300)
"""Time until the node is Ready, which takes 7 s on a quiet machine; arbitrary."""
TRACES = "traces.json"
"""File with the parts of a node outside of its process, in its directory."""


@dataclass(frozen=True, slots=True)
class Traces:
    """The parts of a node outside of its process."""

    network: NodeNetwork
    cgroups: tuple[Path, ...]


class NodeProcess(Process):
    """A node before, during and after its run. Each start begins with an empty disk, like a new machine."""

    def __init__(self, parts: NodeParts, traces: Traces) -> None:
        self._parts = parts
        self._traces = traces
        self._started = datetime.now(UTC)
        super().__init__(
            Command(
                name=node_files.NAME,
                argv=(
                    *("sh", "-c", ENTER, "sh", *map(str, traces.cgroups), "--"),
                    *("unshare", *NEW_NAMESPACES, "--fork", "--mount-proc", "--kill-child=SIGKILL"),
                    *(sys.executable, "-m", "clusterstacks.dev.node.node_init"),
                    str(node_files.settings_file(parts.state)),
                ),
                log=parts.state.log(node_files.NAME),
                ready=self._is_ready,
                environment=parts.environment,
                ready_timeout=TIMEOUT,
            )
        )

    def start(self) -> None:
        """Start it with an empty disk, and connect its network.

        Raises:
            ClusterStacksError: It cannot be started or connected.
        """
        network = self._traces.network
        if self.pid:  # its interfaces ended with the earlier run
            cgroups.remove_children(self._traces.cgroups)
            node_network.restore(network, str(self._parts.state.root))
        shutil.rmtree(node_files.disk(self._parts.state), ignore_errors=True)
        node_files.write(self._parts)
        self._started = datetime.now(UTC).replace(microsecond=0)
        super().start()
        self._await_namespace()
        node_network.connect(network, self.pid)

    def stop(self, grace: timedelta = timedelta(0)) -> None:
        """Kill it, and with it all processes and containers of the node; ``grace`` has no effect.

        The first process of a PID namespace ignores signals without a handler, and the disk is lost anyway.
        """
        del grace
        super().stop(timedelta(0))

    def _await_namespace(self) -> None:
        own = _network_namespace(os.getpid())
        end = time.monotonic() + self.command.ready_timeout.total_seconds()
        while _network_namespace(self.pid) in {own, ""}:
            if self.exit_code is not None or time.monotonic() > end:
                raise ProcessError(f"{self.name} cannot be started in namespaces of its own", self.tail())
            time.sleep(POLL_SECONDS)

    def _is_ready(self) -> bool:
        server = self._parts.server
        try:
            status, body = request(f"{server.url}/api/v1/nodes/{node_files.NAME}", context=server.context)
        except (OSError, http.client.HTTPException):
            return False
        return status == http.client.OK and is_ready_since(json.loads(body), self._started)


def claim(state: StateDirectory) -> Traces:
    """Create the network and the cgroups of a node, and remember them for ``remove_traces``.

    Raises:
        DependencyError: The network or a cgroup cannot be created; nothing is left.
    """
    network = node_network.claim(str(state.root))
    try:
        traces = Traces(network, tuple(cgroups.paths(network.link)))
        document = {"network": network.number, "cgroups": list(map(str, traces.cgroups))}
        write_private(state.node / TRACES, json.dumps(document).encode())
        cgroups.create(traces.cgroups)
    except BaseException:
        node_network.remove(network, str(state.root))
        remove_traces(state)
        raise
    return traces


def read_traces(state: StateDirectory) -> Traces | None:
    """Return the traces of an environment's node; None when it has none."""
    try:
        document = json.loads((state.node / TRACES).read_bytes())
    except FileNotFoundError:
        return None
    return Traces(NodeNetwork(document["network"]), tuple(Path(path) for path in document["cgroups"]))


def remove_traces(state: StateDirectory) -> None:
    """Remove the network and the cgroups of a node whose process has ended, if there are any.

    After a crash or a reboot they may be those of another environment, which has claimed the same number.

    Raises:
        DependencyError: A process of the node still runs.
    """
    traces = read_traces(state)
    if traces and node_network.remove(traces.network, str(state.root)):
        cgroups.remove(list(traces.cgroups))


def _network_namespace(pid: int) -> str:
    try:
        return str(Path(f"/proc/{pid}/ns/net").readlink())
    except OSError:
        return ""


def is_ready_since(node: Manifest, start: datetime) -> bool:
    """Return whether the kubelet has reported Ready after ``start``: the report of an earlier run stays for a while."""
    return any(
        found["type"] == "Ready"
        and found["status"] == "True"
        and datetime.fromisoformat(found["lastHeartbeatTime"]) >= start
        for found in node.get("status", {}).get("conditions") or []
    )
