"""``csctl demo``: show a cluster, its addons and an upgrade in a local environment."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import click

from clusterstacks.csctl.shared import output

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from clusterstacks.csctl.shared.live_view import LiveView
    from clusterstacks.dev.demo.openstack_scenario import OpenStackStory
    from clusterstacks.dev.demo.ranges_scenario import RangesStory
    from clusterstacks.dev.demo.scenario import Changes, DemoResult
    from clusterstacks.dev.demo.upgrade_scenario import UpgradeStory
    from clusterstacks.dev.state_directory import StateDirectory
    from clusterstacks.model.names import ReleaseName
    from clusterstacks.model.objects import Manifest
    from clusterstacks.net.kube.client import Client

    Summary = Callable[[], None]

ENVIRONMENT = "demo"
"""Name of the environment of the demo; other environments are not changed."""


@click.command(short_help="Show releases, clusters and upgrades in a local environment.")
@click.option("--keep", is_flag=True, help="Keep the environment running at the end.")
@click.option("--ranges", is_flag=True, help="Show a refused upgrade, its solution, and a plan step by step instead.")
@click.option("--upgrade", is_flag=True, help="Show two upgrades of Kubernetes, which wait for a stage, instead.")
@click.option("--openstack", is_flag=True, help="Show a release that waits for its node images in Glance, instead.")
def demo(*, keep: bool, ranges: bool, upgrade: bool, openstack: bool) -> None:
    """Start an environment, create a cluster with addons from a release, upgrade it, and remove everything.

    etcd, the API servers, the core manager of Cluster API and the operator are real. The cluster has two workers, whose
    Nodes have no kubelet, so no pods run.
    """
    if ranges + upgrade + openstack > 1:
        raise click.UsageError("--ranges, --upgrade and --openstack cannot be combined")
    from clusterstacks.csctl.shared.live_view import LiveView
    from clusterstacks.dev import supervisor, teardown
    from clusterstacks.dev.environment import EnvironmentSettings
    from clusterstacks.dev.state_directory import state_directory

    stories = (
        (ranges, _play_ranges, "ranged"),
        (upgrade, _play_upgrade, "upgraded"),
        (openstack, _play_openstack, "imaged"),
        (True, _play, "first"),
    )
    play, cluster = next((play, cluster) for chosen, play, cluster in stories if chosen)
    state = state_directory(ENVIRONMENT)
    report = output.progress()
    with output.counting():
        report("starting the local environment")
        supervisor.detach(EnvironmentSettings(state=state, openstack=openstack), report)
    try:
        with LiveView(counts=True) as picture:
            summarise = play(state, picture)
        summarise()
    finally:
        if not keep:
            teardown.down(state, report)
    if keep:
        _say_what_next(cluster)
    else:
        output.say_lines("", "Everything is removed; 'csctl demo --keep' keeps the environment running.")


def _play(state: StateDirectory, picture: LiveView) -> Summary:
    import asyncio

    from clusterstacks.dev.demo.await_state import Scene
    from clusterstacks.dev.demo.scenario import CLUSTER, Scenario

    scene = Scene(state, CLUSTER, picture.say, picture.show)
    return partial(_summarise, asyncio.run(Scenario(scene, state.releases).play()))


def _play_ranges(state: StateDirectory, picture: LiveView) -> Summary:
    import asyncio

    from clusterstacks.dev.demo.await_state import Scene
    from clusterstacks.dev.demo.ranges_scenario import CLUSTER, Kubectl, RangesScenario

    scene = Scene(state, CLUSTER, picture.say, picture.show)
    plan = partial(_planned, state, picture)
    scenario = RangesScenario(scene, state.releases, Kubectl(state.kubeconfig), plan)
    return partial(_summarise_ranges, asyncio.run(scenario.play()))


def _play_upgrade(state: StateDirectory, picture: LiveView) -> Summary:
    import asyncio

    from clusterstacks.dev.demo.await_state import Scene
    from clusterstacks.dev.demo.upgrade_scenario import CLUSTER, UpgradeScenario

    scene = Scene(state, CLUSTER, picture.say, picture.show)
    plan, explain = (partial(printed, state, picture) for printed in (_planned_upgrade, _explained))
    scenario = UpgradeScenario(scene, state.releases, explain, plan, partial(_upgrade, picture))
    return partial(_summarise_upgrade, asyncio.run(scenario.play()))


def _play_openstack(state: StateDirectory, picture: LiveView) -> Summary:
    import asyncio

    from clusterstacks.dev.demo.await_state import Scene
    from clusterstacks.dev.demo.openstack_scenario import CLUSTER, OpenStackScenario

    scene = Scene(state, CLUSTER, picture.say, picture.show)
    return partial(_summarise_openstack, state, asyncio.run(OpenStackScenario(scene, state.releases).play()))


async def _explained(state: StateDirectory, picture: LiveView, client: Client) -> None:
    """Print what the upgrade waits for as ``csctl why`` does."""
    from clusterstacks.csctl.shared.cluster_options import ManagementCluster, read_cluster_context
    from clusterstacks.csctl.shared.plan_output import print_upgrade, running_upgrade
    from clusterstacks.dev.demo.upgrade_scenario import CLUSTER

    context = await read_cluster_context(client, CLUSTER, state.releases)
    with picture.aside():
        print_upgrade(running_upgrade(context, ManagementCluster()))


async def _planned_upgrade(state: StateDirectory, picture: LiveView, client: Client, version: str) -> None:
    """Print the plan of the upgrade with its impact as ``csctl upgrade`` does."""
    from clusterstacks.csctl.shared.cluster_options import ManagementCluster
    from clusterstacks.csctl.shared.upgrade_walk import UpgradeWalk
    from clusterstacks.csctl.verbs.upgrade import print_plan, read_plan
    from clusterstacks.dev.demo.upgrade_scenario import CLUSTER
    from clusterstacks.model.names import parse_target

    with picture.aside():
        walk = UpgradeWalk(CLUSTER, parse_target(version), state.releases)
        if (document := await read_plan(client, walk, ManagementCluster())) is not None:
            print_plan(document)


async def _upgrade(picture: LiveView, client: Client, version: str) -> None:
    """Upgrade the Cluster as ``csctl upgrade`` does: create a ClusterUpgrade, and follow it until it ends."""
    from clusterstacks.csctl.shared.upgrade_objects import UpgradeRequest
    from clusterstacks.csctl.shared.upgrade_run import begin, follow_upgrade, unfinished
    from clusterstacks.dev.demo.upgrade_scenario import CLUSTER
    from clusterstacks.model.documents import mappings, text
    from clusterstacks.model.errors import DependencyError
    from clusterstacks.model.kinds.names import UpgradePhase

    key = await begin(client, UpgradeRequest(namespace=CLUSTER.namespace, cluster=CLUSTER.name, to=version))
    told = ""

    def show(upgrade: Manifest, _: object) -> None:
        nonlocal told
        for entry in mappings(upgrade, "status", "clusters"):
            step = text(entry, "step")
            if step and step != told:
                told = step
                picture.say(f"ClusterUpgrade {key}, step {step}: {text(entry, 'doing')}")

    upgrade = await follow_upgrade(client, key, [], show)
    if upgrade is None or text(upgrade, "status", "phase") != UpgradePhase.DONE:
        why = "; ".join(unfinished(upgrade or {})) or "it was deleted"
        raise DependencyError("Blocked", f"ClusterUpgrade {key} has not reached {version}: {why}")


async def _planned(state: StateDirectory, picture: LiveView, client: Client, goal: ReleaseName) -> Sequence[Manifest]:
    """Print the plan as ``csctl plan`` does, and return its steps."""
    from clusterstacks.csctl.shared.cluster_options import ManagementCluster, read_cluster_context
    from clusterstacks.csctl.shared.plan_output import live_commands, print_steps, search_live_plan
    from clusterstacks.dev.demo.ranges_scenario import CLUSTER
    from clusterstacks.model.errors import DependencyError

    found = search_live_plan(await read_cluster_context(client, CLUSTER, state.releases, goal), goal)
    if found is None or not found[1]["steps"]:
        raise DependencyError("NoPlan", f"there is no plan to {goal}")
    document = found[1]
    with picture.aside():
        output.warn_all(document["warnings"])
        print_steps(document["steps"], live_commands(ManagementCluster(), CLUSTER))
    steps: Sequence[Manifest] = document["steps"]
    return steps


def _summarise(story: DemoResult) -> None:
    output.say_lines("", f"All {story.objects} addon objects were read back from the workload API server.")
    output.say(f"The upgrade from {story.first} to {story.second}:")
    _list_changes(story.changes)
    _say_times(story.seconds)


def _summarise_ranges(story: RangesStory) -> None:
    output.say_lines("", "Changes of each write to the objects of the addons, by uid and resourceVersion:")
    for passage in story.passages:
        output.say(passage.title)
        _list_changes(passage.changes)
    output.say(f"The cluster serves {story.served}; infrastructure and control plane are the same objects as before.")
    _say_times(story.seconds)


def _summarise_upgrade(story: UpgradeStory) -> None:
    output.say_lines("", f"The cluster went from {' to '.join(story.versions)}, and serves {story.served}. Its nodes:")
    for name, version in story.nodes.items():
        output.say(f"  {name}  {version}")
    _say_times(story.seconds)


def _summarise_openstack(state: StateDirectory, story: OpenStackStory) -> None:
    """Show what an administrator sees, with the programs of an administrator."""
    import os
    import subprocess
    import sys
    from pathlib import Path

    from clusterstacks.dev import binaries, openstack

    client, clouds = openstack.client(state)
    environment = {
        "KUBECONFIG": str(state.kubeconfig),
        "OS_CLIENT_CONFIG_FILE": str(clouds),
        "OS_CLOUD": openstack.CLOUD,
    }
    programs = {
        "kubectl": binaries.resolve(["kubectl"])["kubectl"].path,
        "csctl": Path(sys.executable).with_name("csctl"),
        "openstack": client,
    }
    for command in (
        "kubectl get cskr,images.openstack.k-orc.cloud",
        "csctl status",
        "openstack image list",
        f"openstack image show {story.built} -c name -c status -c size -c properties --fit-width",
    ):
        name, *arguments = command.split()
        output.say_lines("", f"$ {command}")
        done = subprocess.run(
            [programs[name], *arguments],
            env={**os.environ, **environment},
            stdout=subprocess.PIPE,
            text=True,
            check=False,
        )
        output.say_lines(*done.stdout.rstrip().splitlines())
    output.say_lines(
        "",
        "Keystone, Glance and ORC are real. The machines of the Cluster are simulated: servers and networks of",
        "OpenStack need Nova and Neutron, which do not run here. The images were never booted.",
    )
    _say_times(story.seconds)


def _list_changes(changes: Changes) -> None:
    for title, objects in (
        ("created", changes.created),
        ("changed", changes.changed),
        ("removed", changes.removed),
    ):
        for line, text in enumerate([str(identity) for identity in objects] or ["nothing"]):
            output.say(f"  {'' if line else title:8} {text}")
    output.say(f"  {'left':8} {len(changes.untouched)} objects exactly as they were")


def _say_times(seconds: Mapping[str, float]) -> None:
    output.say(f"Time: {', '.join(f'{name} {time:.1f} s' for name, time in seconds.items())}")


def _say_what_next(cluster: str) -> None:
    csctl, name = output.program(), f"--name {ENVIRONMENT}"
    output.say_lines(
        "",
        "Next commands:",
        f"  {csctl} dev kubectl {name} get clusterstacks,clusterstackreleases,clusters,clusteraddons",
        f"  {csctl} dev kubectl {name} describe clusteraddon cluster-addon-{cluster}",
        f"  {csctl} dev kubectl {name} --cluster default/{cluster} get all --all-namespaces",
        f"  {csctl} dev logs {name} operator",
        f"  {csctl} dev down {name}",
    )
