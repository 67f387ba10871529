"""What each write of a Cluster did to the addons' objects, and whether the cluster is still the same."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from clusterstacks.devcluster.demo.scenario import compare
from clusterstacks.devcluster.provider import kinds
from clusterstacks.domain.errors import DependencyError

if TYPE_CHECKING:
    from clusterstacks.devcluster.demo.await_state import Scene
    from clusterstacks.devcluster.demo.observations import LiveObject
    from clusterstacks.devcluster.demo.scenario import Changes
    from clusterstacks.domain.objects import ObjectId
    from clusterstacks.kube.client import Client
    from clusterstacks.kube.transport import Pool


@dataclass(frozen=True, slots=True)
class AddonChange:
    """One write of the Cluster, and what it did to the addons' objects in the workload cluster."""

    title: str
    changes: Changes


class Passages:
    """Compares what is there after every write with what was there before it.

    Args:
        scene: Where.
        client: Of the management cluster.
        pool: For the client of the workload cluster.
    """

    def __init__(self, scene: Scene, client: Client, pool: Pool) -> None:
        self._scene, self._client, self._pool = scene, client, pool
        self._objects: dict[ObjectId, LiveObject] = {}
        self._cluster: dict[str, str] = {}
        self.noted: list[AddonChange] = []

    async def begin(self) -> None:
        """Read what is there before the first write."""
        self._objects = await self._scene.read_back(self._client, self._pool)
        self._cluster = await self._uids()

    async def note(self, title: str) -> None:
        """Read what is there after a write.

        Raises:
            DependencyError: The cluster was replaced, or an object of an addon is missing.
        """
        objects = await self._scene.read_back(self._client, self._pool)
        if await self._uids() != self._cluster:
            raise DependencyError(
                "ClusterReplaced", f"{title}: infrastructure or control plane are not the same objects"
            )
        self.noted.append(AddonChange(title, compare(self._objects, objects)))
        self._objects = objects

    async def _uids(self) -> dict[str, str]:
        found = {}
        for kind in (kinds.CLUSTER, kinds.CONTROL_PLANE):
            resource = await self._client.resource(kinds.GROUP, kind)
            for one in (await self._client.list(resource, self._scene.cluster.namespace)).items:
                found[f"{kind} {one['metadata']['name']}"] = one["metadata"]["uid"]
        return found
