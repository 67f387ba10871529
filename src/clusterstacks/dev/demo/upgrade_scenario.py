"""The demo of upgrades: a cluster with two workers goes two minors, and each time Cluster API waits for a backup."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING

from clusterstacks.csctl.building.discover import discover_stacks
from clusterstacks.csctl.building.release_builder import ReleaseBuilder
from clusterstacks.dev.demo.scenario import examples, release_ready, stacks
from clusterstacks.dev.installation import apply_in_order, read_manifests
from clusterstacks.model.documents import at, mappings, text
from clusterstacks.model.files.metadata import Metadata
from clusterstacks.model.kinds.clusterapi import cluster_view
from clusterstacks.model.kinds.names import PENDING_HOOKS_ANNOTATION
from clusterstacks.model.objects import ObjectKey
from clusterstacks.model.versions import StackVersion
from clusterstacks.net.pool import Pool

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
    from pathlib import Path

    from clusterstacks.dev.demo.await_state import Scene
    from clusterstacks.model.kinds.clusterapi import ClusterView
    from clusterstacks.model.names import ReleaseName
    from clusterstacks.model.objects import Manifest
    from clusterstacks.net.kube.client import Client
    from clusterstacks.plan.clusters.cluster_tree import Snapshot

CLUSTER = ObjectKey("default", "upgraded")
"""The Cluster of examples/upgrade/cluster.yaml."""
REPORT = "backup-report"
"""The ConfigMap that the stage before an upgrade waits for."""


@dataclass(frozen=True, slots=True)
class UpgradeStory:
    """Result of the demo of upgrades."""

    versions: tuple[str, ...]
    """The Kubernetes versions of the cluster, in order."""
    served: str
    """The Kubernetes minor of the cluster's API server at the end."""
    nodes: Mapping[str, str]
    """The kubelet version of each Node at the end, by its name."""
    seconds: Mapping[str, float]
    """Duration of each step by its name."""


@dataclass(frozen=True, slots=True)
class Offer:
    """A release and its Kubernetes version."""

    release: ReleaseName
    version: str


@dataclass(frozen=True, slots=True)
class UpgradeScenario:
    """Runs the demo in a running environment; ``explain`` prints what an upgrade waits for."""

    scene: Scene
    releases: Path
    explain: Callable[[Client], Awaitable[None]]
    plan: Callable[[Client, str], Awaitable[None]]
    """Prints the plan of the upgrade to a Kubernetes version, as ``csctl upgrade`` does before it asks."""
    upgrade: Callable[[Client, str], Coroutine[None, None, None]]
    """Upgrades the Cluster to a Kubernetes version, as ``csctl upgrade`` does."""

    async def play(self) -> UpgradeStory:
        """Play all steps; an error names the step that was not done in time, and the reason."""
        async with Pool() as pool:
            client = self.scene.management(pool)
            first, *others = await self._offer(client)
            await self._create_cluster(client, first)
            goal = others[-1].version
            self.scene.say(f"The user asks for Kubernetes {goal}: csctl upgrade {CLUSTER} --to {goal} --yes")
            await self.plan(client, goal)
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(self.upgrade(client, goal))
                for before, offer in zip((first, *others), others, strict=False):
                    await self._follow(client, pool, before, offer)
                # Only now: between two steps this is true for a moment, which a reader may miss.
                await self.scene.until(
                    client, f"addons {goal}", lambda seen: _delivered(seen, others[-1]) and not _has_pending_hooks(seen)
                )
            workload = self.scene.workload(pool)
            served = (await workload.version()).minor
            nodes = (await workload.list(await workload.resource("", "Node"))).items
        kubelets = {text(one, "metadata", "name"): text(one, "status", "nodeInfo", "kubeletVersion") for one in nodes}
        versions = tuple(one.version for one in (first, *others))
        return UpgradeStory(versions, f"v{served}", kubelets, self.scene.seconds)

    async def _offer(self, client: Client) -> list[Offer]:
        file = "examples/upgrade/clusterstacks.yaml"
        self.scene.say(f"A provider offers releases for three Kubernetes minors: kubectl apply -f {file}")
        offers = await build_upgrade(self.releases)
        await apply_in_order(client, read_manifests(examples() / "upgrade/clusterstacks.yaml"))
        await self.scene.until(
            client, "releases ready", lambda seen: all(release_ready(seen, one.release) for one in offers)
        )
        return offers

    async def _create_cluster(self, client: Client, offer: Offer) -> None:
        self.scene.say("A user creates a Cluster with two workers: kubectl apply -f examples/upgrade/cluster.yaml")
        await apply_in_order(client, read_manifests(examples() / "upgrade/cluster.yaml"))
        await self.scene.until(client, "cluster with addons", lambda seen: _delivered(seen, offer))
        await self.scene.until(client, "workers", lambda seen: _has_workers(seen, offer.version))

    async def _follow(self, client: Client, pool: Pool, before: Offer, offer: Offer) -> None:
        scene, version = self.scene, offer.version
        await scene.until(client, f"{version} held", lambda seen: _is_held(seen, before, offer))
        scene.say(f"Cluster API waits: csctl why {CLUSTER} {version}")
        await self.explain(client)
        kubectl = f"csctl dev kubectl --cluster {CLUSTER}"
        scene.say(
            f"The backup program of the cluster reports its backup: {kubectl} create configmap -n kube-system {REPORT} "
            f"--from-literal=version={version} --dry-run=client -o yaml | {kubectl} apply -f -"
        )
        await report_backup(scene.workload(pool), version)
        await scene.until(client, f"control plane {version}", lambda seen: _has_control_plane(seen, version))
        await scene.until(client, f"workers {version}", lambda seen: _has_workers(seen, version))


async def build_upgrade(releases: Path) -> list[Offer]:
    """Build the releases of the example stack for upgrades, one for each Kubernetes minor, the oldest first."""
    found = await discover_stacks(stacks() / "upgrade", releases, kubernetes="", all_minors=True, newest=None)
    builder, first = ReleaseBuilder(into=releases), StackVersion.parse("v1")
    offers = []
    for stack in sorted(found, key=lambda one: one.settings.kubernetes):
        version = stack.settings.kubernetes
        built = await builder.build(stack, Metadata(first, version, first, first))
        offers.append(Offer(built.name, version.text))
    return offers


async def report_backup(workload: Client, version: str) -> None:
    """Write the report that the stage before an upgrade waits for."""
    report: Manifest = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": REPORT, "namespace": "kube-system"},
        "data": {"version": version},
    }
    await workload.apply(await workload.resource("", "ConfigMap"), report, manager="backup", force=True)


def _is_held(seen: Snapshot, before: Offer, offer: Offer) -> bool:
    """Return whether the operator has noted the hold and reported its cause, and the control plane has not moved."""
    noted = any(
        text(addon, "status", "upgradeHold", "state") == "Held"
        and text(addon, "status", "upgradeHold", "version") == offer.version
        and any(text(stage, "phase") == "waitingForPostCondition" for stage in mappings(addon, "status", "stages"))
        for addon in seen.addons
    )
    return noted and _has_control_plane(seen, before.version)


def _has_control_plane(seen: Snapshot, version: str) -> bool:
    return any(view.control_plane_versions == (version,) for view in _views(seen))


def _has_workers(seen: Snapshot, version: str) -> bool:
    return any(view.worker_versions == (version,) for view in _views(seen)) and all(
        at(pool, "status", "availableReplicas") == at(pool, "spec", "replicas") for pool in seen.pools
    )


def _delivered(seen: Snapshot, offer: Offer) -> bool:
    return any(
        text(addon, "spec", "clusterStack") == offer.release.class_name and at(addon, "status", "ready") is True
        for addon in seen.addons
    )


def _has_pending_hooks(seen: Snapshot) -> bool:
    """Return whether Cluster API refuses a further version, because it has not called the hooks after an upgrade."""
    return any(view.annotations.get(PENDING_HOOKS_ANNOTATION) for view in _views(seen))


def _views(seen: Snapshot) -> Sequence[ClusterView]:
    return [cluster_view(one) for one in seen.clusters]
