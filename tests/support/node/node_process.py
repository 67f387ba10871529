"""The process of a node: its start in new namespaces and cgroups."""

from __future__ import annotations

import http.client
import json
import os
import shutil
import sys
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

from clusterstacks.dev.loopback import request
from clusterstacks.dev.processes import POLL_SECONDS, READY_TIMEOUT, Command, Process, ProcessError
from tests.support.node import cgroups, node_files, node_init, node_network

if TYPE_CHECKING:
    from collections.abc import Sequence

    from clusterstacks.model.objects import Manifest
    from tests.support.node.node_files import NodeParts

NEW_NAMESPACES = ("--mount", "--pid", "--uts", "--ipc", "--net", "--cgroup")
ENTER = 'while [ "$1" != -- ]; do echo $$ > "$1/cgroup.procs" || exit 1; shift; done; shift; exec "$@"'
"""Shell program that moves itself into the cgroups given before ``--``, and executes the rest."""


class NodeProcess(Process):
    """A node before, during and after its run. Each start begins with an empty disk, like a new machine.

    Args:
        parts: What it uses of the environment and of this machine.
        groups: Its cgroups.
    """

    def __init__(self, parts: NodeParts, groups: Sequence[Path]) -> None:
        self._parts = parts
        self._cgroups = groups
        self._started = datetime.now(UTC)
        super().__init__(
            Command(
                name=node_files.NAME,
                argv=(
                    *("sh", "-c", ENTER, "sh", *map(str, groups), "--"),
                    *("unshare", *NEW_NAMESPACES, "--fork", "--mount-proc", "--kill-child=SIGKILL"),
                    *(sys.executable, node_init.__file__, str(node_files.settings_file(parts.state))),
                ),
                log=parts.state.log(node_files.NAME),
                ready=self._is_ready,
                environment=parts.environment,
            )
        )

    def start(self) -> None:
        """Start it with an empty disk, and connect its network.

        Raises:
            ClusterStacksError: It cannot be started or connected.
        """
        network = self._parts.network
        if self.pid:  # its interfaces ended with the earlier run
            cgroups.remove_children(self._cgroups)
            node_network.restore(network)
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
        end = time.monotonic() + READY_TIMEOUT.total_seconds()
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
