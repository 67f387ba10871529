"""``csctl uninstall``: remove the operator from a management cluster."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from datetime import timedelta

import click

from clusterstacks.csctl.shared import output
from clusterstacks.csctl.shared.cluster_options import ManagementCluster, connection_options
from clusterstacks.csctl.verbs.install import namespace_option, timeout_option


@click.command(short_help="Remove the operator from a management cluster.")
@namespace_option
@click.option(
    "--delete-crds",
    is_flag=True,
    help="Also delete all ClusterStacks with their releases and classes, and the CustomResourceDefinitions. Refused "
    "while Clusters or other operators use them, or CompatibilityRules exist.",
)
@click.option(
    "--delete-namespace",
    is_flag=True,
    help="Also delete the namespace with everything in it. Refused while it contains Clusters or objects of our kinds, "
    "or if the operator is not installed there.",
)
@click.option(
    "--release-upgrades",
    is_flag=True,
    help="Only release the upgrades of the Clusters that a deleted operator held, as 'helm uninstall' does.",
)
@click.option("--watch-namespace", default="", help="With --release-upgrades: only Clusters of this namespace.")
@click.option("--watch-filter", default="", help="With --release-upgrades: only Clusters with this watch filter.")
@click.option("--dry-run", is_flag=True, help="Print what would be deleted, or why it is refused; delete nothing.")
@timeout_option
@connection_options
def uninstall(  # noqa: PLR0913 - one for each option
    *,
    namespace: str,
    delete_crds: bool,
    delete_namespace: bool,
    release_upgrades: bool,
    watch_namespace: str,
    watch_filter: str,
    dry_run: bool,
    timeout: float,
    management: ManagementCluster,
) -> None:
    """Remove the operator that 'csctl install' or 'install.yaml' installed, and everything it created for itself.

    The CustomResourceDefinitions, all objects of their kinds, ClusterClasses, the objects in workload clusters and the
    namespace are kept unless you ask for their deletion. Once the operator has stopped, Cluster API may upgrade the
    Clusters that it held. With --delete-crds, ClusterStacks are deleted first, while the operator runs, because only
    the operator deletes their releases and classes. Everything is checked before the first deletion. What Helm or
    clusterctl installed is left to them.
    """
    if release_upgrades and (delete_crds or delete_namespace):
        raise click.UsageError("--release-upgrades cannot be combined with --delete-crds or --delete-namespace")
    if (watch_namespace or watch_filter) and not release_upgrades:
        raise click.UsageError("--watch-namespace and --watch-filter need --release-upgrades")
    if release_upgrades:
        asyncio.run(_release(management, watch_namespace, watch_filter, dry_run=dry_run))
        return
    asyncio.run(
        _uninstall(
            management,
            namespace,
            Choices(timedelta(seconds=timeout), crds=delete_crds, namespace=delete_namespace, dry_run=dry_run),
        )
    )


@dataclass(frozen=True, slots=True)
class Choices:
    """Options of the command line; ``timeout`` is that of each step that waits."""

    timeout: timedelta
    crds: bool
    namespace: bool
    dry_run: bool


async def _release(management: ManagementCluster, namespace: str, watch_filter: str, *, dry_run: bool) -> None:
    from clusterstacks.plan.clusters.hold_annotation import drop_holds, held_clusters
    from clusterstacks.runtime.cache import key_of

    async with management.connected() as client:
        held = await held_clusters(client, namespace, watch_filter)
        if not dry_run:
            await drop_holds(client, held, output.say)
            return
        for cluster in held:
            output.say(f"would release the upgrades of Cluster {key_of(cluster)}")


async def _uninstall(management: ManagementCluster, namespace: str, choices: Choices) -> None:
    from clusterstacks.csctl.install import removal

    async with management.connected() as client:
        plan = await removal.plan_removal(
            client, namespace, with_definitions=choices.crds, with_namespace=choices.namespace
        )
        if choices.dry_run:
            for one in plan.objects:
                output.say(f"would delete {one}")
            for one, reason in plan.kept.items():
                output.say(f"would keep {one}: {reason}")
            for cluster in plan.held:
                output.say(f"would release the upgrades of Cluster {cluster}")
        else:
            await removal.remove(client, plan, choices.timeout, output.progress())
        if not plan.is_installed:
            output.say(f"Nothing is installed in namespace {namespace}.")
        elif not choices.dry_run:
            output.say(f"The operator is removed from namespace {namespace}.")
        kept = [] if choices.dry_run and choices.crds else await removal.remaining(client)
    if kept:
        output.say(f"Kept: {', '.join(f'{count} {kind}' for kind, count in kept)}.")
        output.note(
            "Objects in workload clusters are never deleted. ClusterStacks can only be deleted while an operator"
        )
        output.note("runs: install it again before you run 'csctl uninstall --delete-crds'.")
