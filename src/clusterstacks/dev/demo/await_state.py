"""Reads the clusters of the demo and waits until a step is done, showing the progress."""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass, field
from datetime import timedelta
from typing import TYPE_CHECKING

from clusterstacks.model.documents import listed, mappings, text
from clusterstacks.model.errors import DependencyError
from clusterstacks.model.kinds.names import CLUSTER_API_GROUP, CLUSTER_CLASS_KIND, CLUSTER_KIND, GROUP, Kind
from clusterstacks.model.objects import ObjectId
from clusterstacks.net.kube.client import Client
from clusterstacks.net.kube.kubeconfig import load_kubeconfig
from clusterstacks.plan.clusters.cluster_tree import Snapshot, picture

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from clusterstacks.dev.state_directory import StateDirectory
    from clusterstacks.model.objects import Manifest, ObjectKey
    from clusterstacks.net.pool import Pool
    from clusterstacks.plan.clusters.cluster_tree import ViewNode

POLL_SECONDS = 0.25
TIMEOUT = timedelta(minutes=3)
"""Timeout of one step; the longest takes a few seconds. Arbitrary."""


@dataclass(slots=True)
class Scene:
    """A running environment with one observed cluster, the only one in its namespace."""

    state: StateDirectory
    cluster: ObjectKey
    say: Callable[[str], None]
    """Called with a sentence at the start of each step."""
    show: Callable[[Sequence[ViewNode]], None]
    """Called with the tree when it may have changed."""
    seconds: dict[str, float] = field(default_factory=dict)
    """Duration of each step by its name."""

    def management(self, pool: Pool) -> Client:
        """Yield a client of the management cluster."""
        return Client(load_kubeconfig([self.state.kubeconfig]), pool)

    def workload(self, pool: Pool) -> Client:
        """Yield a client of the workload cluster."""
        return Client(load_kubeconfig([self.state.cluster_kubeconfig(*self.cluster)]), pool)

    async def until(self, client: Client, step: str, happened: Callable[[Snapshot], bool]) -> None:
        """Show the tree until the step is done; a DependencyError lists what is missing if it was not done in time."""
        began = time.monotonic()
        while True:
            seen = await snapshot(client, self.cluster.namespace)
            drawn = picture(seen)
            self.show(drawn)
            if happened(seen):
                self.seconds[step] = time.monotonic() - began
                return
            if time.monotonic() - began > TIMEOUT.total_seconds():
                raise DependencyError("DemoStuck", _stuck(step, drawn))
            await asyncio.sleep(POLL_SECONDS)

    async def read_back(self, client: Client, pool: Pool) -> dict[ObjectId, LiveObject]:
        """Read every addon object from the workload API server."""
        seen = await snapshot(client, self.cluster.namespace)
        found = await read_back(self.workload(pool), seen.addons[0])
        missing = [str(identity) for identity, live in found.items() if live is None]
        if missing:
            raise DependencyError("ObjectsMissing", f"the workload cluster has no {', '.join(missing)}")
        return {identity: live for identity, live in found.items() if live is not None}


def _stuck(step: str, drawn: Sequence[ViewNode]) -> str:
    unfinished = [node for root in drawn for _, node in root.lines() if node.state.value != "done"]
    lines = [f"  {node.title}: {node.detail}" for node in unfinished]
    return listed(f"'{step}' did not happen within {TIMEOUT}; not done yet:", lines)


_KINDS = {
    "stacks": (GROUP, Kind.CLUSTER_STACK),
    "releases": (GROUP, Kind.CLUSTER_STACK_RELEASE),
    "classes": (CLUSTER_API_GROUP, CLUSTER_CLASS_KIND),
    "clusters": (CLUSTER_API_GROUP, CLUSTER_KIND),
    "addons": (GROUP, Kind.CLUSTER_ADDON),
    "pools": (CLUSTER_API_GROUP, "MachineDeployment"),
    "machines": (CLUSTER_API_GROUP, "Machine"),
}


@dataclass(frozen=True, slots=True)
class LiveObject:
    """An object in the workload API server; ``revision`` changes with every write."""

    uid: str
    revision: str


async def snapshot(client: Client, namespace: str) -> Snapshot:
    """Read the objects that the tree shows."""
    found: dict[str, list[Manifest]] = {}
    for name, (group, kind) in _KINDS.items():
        found[name] = (await client.list(await client.resource(group, kind), namespace)).items
    return Snapshot(**found)


async def read_back(workload: Client, addon: Manifest) -> dict[ObjectId, LiveObject | None]:
    """Read every object in a ClusterAddon's status; None for a missing one."""
    found: dict[ObjectId, LiveObject | None] = {}
    for resource in mappings(addon, "status", "resources"):
        identity = ObjectId(
            text(resource, "group"), text(resource, "kind"), text(resource, "namespace"), text(resource, "name")
        )
        served = await workload.resource(identity.group, identity.kind, text(resource, "version"))
        live = await workload.find(served, identity.name, identity.namespace)
        found[identity] = (
            LiveObject(text(live, "metadata", "uid"), text(live, "metadata", "resourceVersion")) if live else None
        )
    return found
