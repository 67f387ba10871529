"""The demo, step by step; each step ends when the clusters show its result."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from clusterstacks.csctl.building.release_builder import build_release
from clusterstacks.dev.installation import apply_in_order, read_manifests
from clusterstacks.model.documents import at, text
from clusterstacks.model.kinds.names import CLUSTER_API_GROUP, CLUSTER_KIND
from clusterstacks.model.objects import ObjectKey
from clusterstacks.net.pool import Pool

if TYPE_CHECKING:
    from clusterstacks.dev.demo.await_state import LiveObject, Scene
    from clusterstacks.model.names import ReleaseName
    from clusterstacks.model.objects import Manifest, ObjectId
    from clusterstacks.net.kube.client import Client
    from clusterstacks.plan.clusters.cluster_tree import Snapshot

CLUSTER = ObjectKey("default", "first")
"""The Cluster of examples/cluster.yaml."""


@dataclass(frozen=True, slots=True)
class Changes:
    """Effect of an upgrade on the addon objects in the workload cluster."""

    created: tuple[ObjectId, ...]
    changed: tuple[ObjectId, ...]
    removed: tuple[ObjectId, ...]
    untouched: tuple[ObjectId, ...]


@dataclass(frozen=True, slots=True)
class DemoResult:
    """Result of the demo."""

    objects: int
    """Addon objects read back from the workload API server before the upgrade."""
    first: str
    """Class of the cluster at the start."""
    second: str
    """Class after the upgrade."""
    changes: Changes
    """Effect of the upgrade."""
    seconds: dict[str, float]
    """Duration of each step by its name."""


@dataclass(frozen=True, slots=True)
class Scenario:
    """Runs the demo in a running environment; ``releases`` is the directory of the operator's releases."""

    scene: Scene
    releases: Path

    async def play(self) -> DemoResult:
        """Play all steps; an error names the step that was not done in time, and the reason."""
        scene = self.scene
        async with Pool() as pool:
            client = scene.management(pool)
            first = await self._offer(client)
            await self._create_cluster(client, first)
            before = await scene.read_back(client, pool)
            second = await self._offer_next(client)
            await self._upgrade(client, second)
            after = await scene.read_back(client, pool)
        return DemoResult(len(before), first.class_name, second.class_name, compare(before, after), scene.seconds)

    async def _offer(self, client: Client) -> ReleaseName:
        self.scene.say("A provider offers a stack: kubectl apply -f examples/clusterstack.yaml")
        first = build_first(self.releases)
        await apply_in_order(client, read_manifests(examples() / "clusterstack.yaml"))
        await self.scene.until(client, "release ready", lambda seen: release_ready(seen, first))
        return first

    async def _create_cluster(self, client: Client, release: ReleaseName) -> None:
        self.scene.say("A user creates one object: kubectl apply -f examples/cluster.yaml")
        await apply_in_order(client, read_manifests(examples() / "cluster.yaml"))
        await self.scene.until(client, "cluster with addons", lambda seen: _delivered(seen, release))
        await self.scene.until(client, "workers", _has_workers)

    async def _offer_next(self, client: Client) -> ReleaseName:
        self.scene.say("The stack's authors publish a second release for the same Kubernetes minor")
        second = build_second(self.releases)
        await self.scene.until(client, "second release ready", lambda seen: release_ready(seen, second))
        return second

    async def _upgrade(self, client: Client, release: ReleaseName) -> None:
        patch = {"spec": {"topology": {"classRef": {"name": release.class_name}}}}
        self.scene.say(f"The user names it in the Cluster: spec.topology.classRef.name: {release.class_name}")
        clusters = await client.resource(CLUSTER_API_GROUP, CLUSTER_KIND)
        await client.merge_patch(clusters, CLUSTER.name, patch, CLUSTER.namespace)
        await self.scene.until(client, "upgrade", lambda seen: _delivered(seen, release))


def compare(before: dict[ObjectId, LiveObject], after: dict[ObjectId, LiveObject]) -> Changes:
    """Compare two snapshots of the addon objects; an object with another uid was recreated."""
    same = {one for one in after if one in before and before[one].uid == after[one].uid}
    return Changes(
        created=tuple(sorted(after.keys() - same)),
        changed=tuple(sorted(one for one in same if before[one] != after[one])),
        removed=tuple(sorted(before.keys() - after.keys())),
        untouched=tuple(sorted(one for one in same if before[one] == after[one])),
    )


def build_first(releases: Path) -> ReleaseName:
    """Build the first release of the example stack."""
    return build_release(stacks() / "demo/1-35", releases, cluster_stack="v1", cluster_addon="v1", node_image="v1")


def build_second(releases: Path) -> ReleaseName:
    """Build the second release for the same Kubernetes minor with another network addon."""
    return build_release(
        stacks() / "demo/1-35",
        releases,
        cluster_stack="v2",
        cluster_addon="v2",
        node_image="v1",
        changes=stacks() / "demo-next/1-35",
    )


def examples() -> Path:
    """The examples directory, beside the installed package or in the checkout."""
    here = Path(__file__).resolve()
    installed = here.parents[1] / "examples"
    return installed if installed.is_dir() else here.parents[4] / "examples"


def stacks() -> Path:
    """Return the directory of the example stacks of the local provider."""
    return examples() / "stacks" / "local"


def release_ready(seen: Snapshot, release: ReleaseName) -> bool:
    """Return whether clusters can use a release."""
    return any(
        text(found, "metadata", "name") == release.release and at(found, "status", "ready") is True
        for found in seen.releases
    )


def _has_workers(seen: Snapshot) -> bool:
    return bool(seen.pools) and all(
        at(pool, "status", "availableReplicas") == at(pool, "spec", "replicas") for pool in seen.pools
    )


def _delivered(seen: Snapshot, release: ReleaseName) -> bool:
    return any(_has(addon, release) for addon in seen.addons)


def _has(addon: Manifest, release: ReleaseName) -> bool:
    return (
        text(addon, "spec", "clusterRef", "name") == CLUSTER.name
        and text(addon, "spec", "clusterStack") == release.class_name
        and at(addon, "status", "ready") is True
    )
