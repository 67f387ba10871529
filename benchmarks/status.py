"""``csctl status`` of 300 Clusters of one API server, against ``kubectl get clusters`` of the same ones."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks.deliveries import api_server
from benchmarks.processes import interleaved
from benchmarks.report import Figure, show
from clusterstacks.dev.binaries import resolve
from clusterstacks.model.kinds.crd_manifests import all_crds
from clusterstacks.model.kinds.names import CLUSTER_API_GROUP, CLUSTER_KIND, GROUP, Kind, addon_name
from clusterstacks.net.kube.client import Client
from clusterstacks.net.kube.kubeconfig import parse_kubeconfig
from clusterstacks.net.pool import Pool
from tests.support.builders.fleets import ADDONS, OLD, conditions, delivery
from tests.support.running.world import cluster_manifest, finished_status, foreign_crds, install

if TYPE_CHECKING:
    from collections.abc import Sequence

    from clusterstacks.model.objects import Manifest

CLUSTERS = 300
RUNS = 7
KUBECTL = "kubectl get clusters"


async def fill(kubeconfig: Manifest) -> None:
    """Create Clusters and ClusterAddons with the status of complete ones."""
    async with Pool() as pool:
        client = Client(parse_kubeconfig(kubeconfig, base=None), pool)
        await install(client, [*all_crds(), *foreign_crds()])
        clusters = await client.resource(CLUSTER_API_GROUP, CLUSTER_KIND)
        addons = await client.resource(GROUP, Kind.CLUSTER_ADDON)
        delivered = [{"name": one, "release": OLD, "version": version, "objects": 9} for one, version in ADDONS.items()]
        status = {"ready": True, "addons": delivered, "conditions": conditions(), "history": [delivery()]}
        for number in range(CLUSTERS):
            name = f"cluster-{number:03}"
            await client.create(clusters, cluster_manifest("default", name, OLD))
            await client.merge_patch(clusters, name, {"status": finished_status()}, "default", subresource="status")
            addon: dict[str, Any] = {
                "apiVersion": addons.api_version,
                "kind": addons.kind,
                "metadata": {"name": addon_name(name), "namespace": "default"},
                "spec": {"clusterRef": {"kind": CLUSTER_KIND, "name": name}, "clusterStack": OLD},
            }
            await client.create(addons, addon)
            await client.merge_patch(addons, addon_name(name), {"status": status}, "default", subresource="status")


def main() -> None:
    """Print the figures."""
    with api_server() as server:
        asyncio.run(fill(server.kubeconfig))
        config = f"--kubeconfig={server.kubeconfig_path}"
        kubectl, csctl = resolve(["kubectl"])["kubectl"].path, Path(sys.executable).with_name("csctl")
        commands: dict[str, Sequence[str | Path]] = {
            KUBECTL: [kubectl, "get", "clusters", "-A", config],
            "csctl status": [csctl, "status", config],
            "csctl status --group-by namespace": [csctl, "status", "--group-by", "namespace", config],
        }
        spent = interleaved(commands, RUNS)
    figures = []
    for name, found in spent.items():
        figures.append(Figure(f"{name}: time", [1000 * one.seconds for one in found], "ms"))
        figures.append(Figure(f"{name}: CPU", [1000 * one.cpu for one in found], "ms"))
    both = [*zip(spent["csctl status"], spent[KUBECTL], strict=True)]
    for field in ("seconds", "cpu"):
        more = [1000 * (getattr(ours, field) - getattr(theirs, field)) for ours, theirs in both]
        figures.append(Figure(f"csctl status, more {field} than {KUBECTL}", more, "ms"))
    show(f"Status of {CLUSTERS} Clusters", figures)


if __name__ == "__main__":
    main()
