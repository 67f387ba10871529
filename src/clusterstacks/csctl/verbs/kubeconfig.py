"""``csctl kubeconfig``: print the kubeconfig of a workload cluster."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import click

from clusterstacks.csctl.shared import output
from clusterstacks.csctl.shared.cluster_options import ClusterName, ManagementCluster, cluster_options
from clusterstacks.csctl.shared.management_objects import get_cluster

if TYPE_CHECKING:
    from clusterstacks.model.objects import ObjectKey


@click.command(short_help="Print the kubeconfig of a workload cluster.")
@click.argument("cluster", metavar="CLUSTER", type=ClusterName())
@cluster_options
def kubeconfig(cluster: ObjectKey, management: ManagementCluster) -> None:
    """Print the kubeconfig of a workload cluster; it contains the key of an administrator.

    Cluster API keeps it in the Secret CLUSTER-kubeconfig of the management cluster. A kubeconfig that would run a
    program on your machine, read a file of it or disable TLS is refused.
    """
    output.print_text(asyncio.run(_read(management, cluster)).decode(errors="replace"))


async def _read(management: ManagementCluster, cluster: ObjectKey) -> bytes:
    from clusterstacks.operator.controllers.workload_clients import kubeconfig_secret, usable_kubeconfig

    async with management.connected() as client:
        await get_cluster(client, cluster)
        content, _ = usable_kubeconfig(await kubeconfig_secret(client, cluster))
        return content
