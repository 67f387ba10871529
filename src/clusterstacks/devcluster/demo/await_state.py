"""Where a story of the demo plays: it waits until something is true in the clusters, and shows the way there."""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass, field
from datetime import timedelta
from typing import TYPE_CHECKING

from clusterstacks.devcluster.demo.observations import read_back, snapshot
from clusterstacks.devcluster.demo.view import picture
from clusterstacks.domain.errors import DependencyError
from clusterstacks.kube.client import Client
from clusterstacks.kube.kubeconfig import load_kubeconfig

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from clusterstacks.devcluster.demo.observations import LiveObject
    from clusterstacks.devcluster.demo.view import Snapshot, ViewNode
    from clusterstacks.devcluster.state_directory import StateDirectory
    from clusterstacks.domain.objects import ObjectId, ObjectKey
    from clusterstacks.kube.transport import Pool

POLL_SECONDS = 0.25
PATIENCE = timedelta(minutes=3)
"""For one step of the demo; the longest takes a few seconds. Arbitrary."""


@dataclass(slots=True)
class Scene:
    """A running environment in which one cluster is looked at.

    Args:
        state: The environment.
        cluster: The cluster; there is no other in its namespace.
        say: Called with a sentence at the beginning of each step.
        show: Called with the picture whenever it may have changed.
        seconds: Time of each step, by its name.
    """

    state: StateDirectory
    cluster: ObjectKey
    say: Callable[[str], None]
    show: Callable[[Sequence[ViewNode]], None]
    seconds: dict[str, float] = field(default_factory=dict)

    def management(self, pool: Pool) -> Client:
        """Give a client of the management cluster."""
        return Client(load_kubeconfig([self.state.kubeconfig]), pool)

    def workload(self, pool: Pool) -> Client:
        """Give a client of the cluster."""
        return Client(load_kubeconfig([self.state.cluster_kubeconfig(*self.cluster)]), pool)

    async def until(self, client: Client, step: str, happened: Callable[[Snapshot], bool]) -> None:
        """Show the picture until something is true.

        Raises:
            DependencyError: It did not become true in time; the message says what is not done.
        """
        began = time.monotonic()
        while True:
            seen = await snapshot(client, self.cluster.namespace)
            drawn = picture(seen)
            self.show(drawn)
            if happened(seen):
                self.seconds[step] = time.monotonic() - began
                return
            if time.monotonic() - began > PATIENCE.total_seconds():
                raise DependencyError("DemoStuck", _stuck(step, drawn))
            await asyncio.sleep(POLL_SECONDS)

    async def read_back(self, client: Client, pool: Pool) -> dict[ObjectId, LiveObject]:
        """Read every object of the addons from the API server of the cluster.

        Raises:
            DependencyError: One is not there.
        """
        seen = await snapshot(client, self.cluster.namespace)
        found = await read_back(self.workload(pool), seen.addons[0])
        missing = [str(identity) for identity, live in found.items() if live is None]
        if missing:
            raise DependencyError("ObjectsMissing", f"the workload cluster has no {', '.join(missing)}")
        return {identity: live for identity, live in found.items() if live is not None}


def _stuck(step: str, drawn: Sequence[ViewNode]) -> str:
    unfinished = [node for root in drawn for _, node in root.lines() if node.state.value != "done"]
    lines = [f"  {node.title}: {node.detail}" for node in unfinished]
    return "\n".join([f"'{step}' did not happen within {PATIENCE}; not done yet:", *lines])
