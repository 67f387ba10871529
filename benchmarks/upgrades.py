"""Release of held upgrades: from the last write that a stage waits for to the patch that lets Cluster API begin.

Real Cluster API core manager, one cluster, the operator as its own process. Each upgrade changes the patch version of
Kubernetes. Half of them wait for the health of a Deployment, whose status this program writes, the others for a
ConfigMap. The times are those of the audit logs of both API servers: from the end of the write in the workload cluster
to the end of the patch of the Cluster.

``python -m benchmarks.upgrades --before ../other/checkout`` measures the operator of another checkout.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import shutil
import sys
import tempfile
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from statistics import quantiles
from typing import TYPE_CHECKING

import uvloop

from benchmarks.fleet import FLEET, Bench, release_ready, until
from benchmarks.report import Figure, show
from clusterstacks.csctl.building.release_builder import build_release
from clusterstacks.dev.demo.scenario import stacks
from clusterstacks.model.documents import at, mapping, mappings, text
from clusterstacks.model.kinds.names import CLUSTER_API_GROUP, CLUSTER_KIND, UPGRADE_HOLD_ANNOTATION
from clusterstacks.net.kube.client import Client
from clusterstacks.net.kube.errors import NotFound, Unreachable
from clusterstacks.net.kube.kubeconfig import load_kubeconfig
from clusterstacks.net.pool import Pool
from tests.support.builders.e2e_objects import addon_of, cluster, create, delivered, namespace, set_topology, stack
from tests.support.builders.manifests import config_map, deployment
from tests.support.builders.stacks import stage
from tests.support.observing.request_audit import RequestAudit
from tests.support.running.local_environment import AUDIT_LOG, local_environment

if TYPE_CHECKING:
    from collections.abc import Sequence

    from clusterstacks.model.names import ReleaseName
    from tests.support.running.local_environment import Local

UPGRADES = 24
FIRST_PATCH = 3
NAME, HOME, ADDON = "subject", "kube-system", "network"
SETTLE_SECONDS = 1
"""Pause between the report of the wait and the awaited write."""
RELEASE = f"/metadata/annotations/{UPGRADE_HOLD_ANNOTATION.replace('/', '~1')}"
WAITS = {"waitingForHealth", "waitingForPostCondition"}
GATE = {"key": "gate", "apiVersion": "v1", "kind": "ConfigMap", "name": "gate", "namespace": HOME}
STAGES = {
    "AfterControlPlaneInitialized": [stage(ADDON)],
    "BeforeClusterUpgrade": [
        stage(
            ADDON, waitFor="Healthy", waitForPostCondition={"objects": [GATE], "conditions": 'gate.data.open == "yes"'}
        )
    ],
}


def build(scratch: Path, releases: Path) -> ReleaseName:
    """Build a release with one Deployment; the class is the demo's."""
    source = scratch / "source"
    shutil.copytree(stacks() / "demo/1-36", source, ignore=shutil.ignore_patterns("cluster-addon", "clusteraddon.yaml"))
    chart = source / "cluster-addon" / ADDON
    (chart / "templates").mkdir(parents=True)
    (chart / "Chart.yaml").write_text(f"apiVersion: v2\nname: {ADDON}\nversion: 1.0.0\n")
    (chart / "templates/all.yaml").write_text(json.dumps(deployment(ADDON, HOME)))
    config = {
        "apiVersion": "clusteraddonconfig.x-k8s.io/v1alpha1",
        "clusterAddonVersion": "clusteraddons.clusterstack.x-k8s.io/v1alpha1",
        "addonStages": STAGES,
    }
    (source / "clusteraddon.yaml").write_text(json.dumps(config))
    return build_release(source, releases, cluster_stack="v1", cluster_addon="v1", node_image="v1")


@dataclass(frozen=True)
class Subject:
    """The cluster that is upgraded."""

    client: Client
    workload: Client

    async def report(self, replicas: int) -> None:
        """Write the status of the Deployment."""
        resource = await self.workload.resource("apps", "Deployment")
        found = await self.workload.get(resource, ADDON, HOME)
        available = {"type": "Available", "status": "True" if replicas else "False", "reason": "Benchmark"}
        progressing = {"type": "Progressing", "status": "True", "reason": "NewReplicaSetAvailable"}
        counts = dict.fromkeys(("readyReplicas", "availableReplicas", "updatedReplicas"), replicas)
        status = {"observedGeneration": found["metadata"]["generation"], "replicas": 1, **counts}
        patch = {"status": {**status, "conditions": [available, progressing]}}
        await self.workload.merge_patch(resource, ADDON, patch, HOME, subresource="status")

    async def set_gate(self, word: str) -> None:
        resource = await self.workload.resource("", "ConfigMap")
        await self.workload.apply(resource, config_map("gate", HOME, open=word), manager="benchmark", force=True)

    async def waits(self, version: str) -> bool:
        """Return whether the stage waits for its object; the upgrade is held before."""
        status = mapping(await addon_of(self.client, FLEET, NAME) or {}, "status")
        phases = {text(one, "phase") for one in mappings(status, "stages")}
        return text(status, "targetKubernetesVersion") == version and bool(phases & WAITS)

    async def upgraded(self, class_name: str, version: str) -> bool:
        addon = await delivered(self.client, FLEET, NAME, class_name)
        found = await self.client.get(await self.client.resource(CLUSTER_API_GROUP, CLUSTER_KIND), NAME, FLEET)
        is_held = UPGRADE_HOLD_ANNOTATION in mapping(found, "metadata", "annotations")
        return is_held and at(addon, "status", "deliveredKubernetesVersion") == version

    async def answers(self) -> bool:
        try:
            await self.report(1)
            await self.set_gate("yes")
        except (NotFound, Unreachable):
            return False
        return True


async def measure(local: Local, checkout: Path | None) -> None:
    bench, release = Bench(local.scratch, local.state), build(local.scratch, local.releases)
    async with Pool() as pool:
        client = Client(load_kubeconfig([local.state.kubeconfig]), pool)
        with bench.operator(checkout):
            await create(client, namespace(FLEET))
            await create(client, stack(FLEET, "1.36", versions=["v1"], autoSubscribe=False))
            await until(lambda: release_ready(client, FLEET, release.release))
            await create(client, cluster(FLEET, NAME, release.class_name, f"v1.36.{FIRST_PATCH}"))
            await until(lambda: delivered(client, FLEET, NAME, release.class_name))
            subject = Subject(client, bench.workload(NAME, pool))
            await until(partial(subject.upgraded, release.class_name, f"v1.36.{FIRST_PATCH}"))
            for number in range(UPGRADES):
                await one_upgrade(
                    subject, release.class_name, f"v1.36.{FIRST_PATCH + 1 + number}", by_health=number % 2 == 0
                )
    show_latencies(local)


def show_latencies(local: Local) -> None:
    """Print the times between the last awaited write before each release and the release."""
    logs = (local.state.kubeconfig, local.state.cluster_kubeconfig(FLEET, NAME))
    management, workload = (RequestAudit(one.parent / AUDIT_LOG).since_last() for one in logs)
    seconds: dict[str, list[float]] = {"deployments/status": [], "configmaps": []}
    awaited = [one for one in workload if one.kind in seconds and one.name in {ADDON, "gate"} and one.code < 300]
    for released in management:
        if released.kind == "clusters" and released.code < 300 and RELEASE in json.dumps(released.content):
            last = [one for one in awaited if one.ended < released.ended][-1]
            seconds[last.kind].append((released.ended - last.ended).total_seconds())
    every = [one for found in seconds.values() for one in found]
    figures = [Figure(f"last write of {kind} to the release", found, "s") for kind, found in seconds.items()]
    show("Held upgrades", [*figures, Figure("all", every, "s")])
    percentiles = quantiles(every, n=20)
    print(f"\np50 {percentiles[9]:.3f} s, p95 {percentiles[18]:.3f} s, max {max(every):.3f} s")
    print(f"all: {' '.join(f'{one:.3f}' for one in sorted(every))}")


async def one_upgrade(subject: Subject, class_name: str, version: str, *, by_health: bool) -> None:
    """Upgrade the cluster, which waits for the health of the Deployment or for the ConfigMap."""
    await until(subject.answers)
    await (subject.report(0) if by_health else subject.set_gate("no"))
    await set_topology(subject.client, FLEET, NAME, class_name, version)
    await until(partial(subject.waits, version))
    await asyncio.sleep(SETTLE_SECONDS)
    await (subject.report(1) if by_health else subject.set_gate("yes"))
    await until(partial(subject.upgraded, class_name, version))


def main(arguments: Sequence[str] = ()) -> None:
    parser = argparse.ArgumentParser(description="Measure the release of held upgrades.")
    parser.add_argument("--before", type=Path, help="checkout whose operator is measured instead")
    asked = parser.parse_args(arguments)
    checkout = asked.before.resolve() if asked.before else None
    with (
        tempfile.TemporaryDirectory() as directory,
        local_environment(Path(directory)) as local,
        asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner,
    ):
        runner.run(measure(local, checkout))


if __name__ == "__main__":
    main(sys.argv[1:])
