"""ClusterUpgrades over two minors, a class for each and no ranges, and what goes wrong between their steps."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import TYPE_CHECKING

import yaml

from clusterstacks.model.kinds.names import CLUSTER_KIND, UPGRADE_STEP_ANNOTATION, Kind
from clusterstacks.operator.controllers.clusterupgrade import cluster_looks, schedule
from tests.integration.clusters.test_plans import csctl, nodes_roll
from tests.integration.controllers.test_cluster_upgrades import upgrade
from tests.support.builders.manifests import deployment
from tests.support.builders.stacks import config_map, stage, templates
from tests.support.running.admission import of_minor
from tests.support.running.kubectl import Kubectl
from tests.support.running.world import condition_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    import pytest

    from clusterstacks.model.names import ReleaseName
    from clusterstacks.model.objects import Manifest
    from tests.support.running.world import World

VERSIONS = {"1.34": "v1.34.2", "1.35": "v1.35.4", "1.36": "v1.36.1"}
FIRST = VERSIONS["1.34"]


def bundles(world: World, addons: Mapping[str, str] | None = None) -> list[ReleaseName]:
    """Publish a release without ranges for each minor; ``addons`` has templates of some."""
    names = []
    for minor, version in VERSIONS.items():
        stack = of_minor(world.stack, minor)
        more = {} if addons is None or minor not in addons else {"templates/more.yaml": addons[minor]}
        chart = templates(config_map(world.namespace, minor=minor), **more)
        chart["overwrite.yaml"] = "values: |\n  cluster: {{ .Cluster.metadata.name }}\n"
        checks = {"waitFor": "Healthy", "timeout": "1s", "rollback": "OnFailure"} if addons else {}
        hooks = {"AfterControlPlaneInitialized": [stage("app", **checks)]}
        names.append(stack.release("v1"))
        world.publish(names[-1], stack.files("v1", {"app": chart}, hooks=hooks, kubernetes=version))
    return names


async def offer(world: World, names: list[ReleaseName]) -> None:
    for name in names:
        await world.create(stack_of(world, name))
    for name in names:
        await world.release_ready(name)


def stack_of(world: World, name: ReleaseName) -> Manifest:
    stack = of_minor(world.stack, str(name.kubernetes)).manifest(world.namespace, "v1")
    stack["metadata"]["name"] += f"-{str(name.kubernetes).replace('.', '-')}"
    return stack


async def two_clusters(world: World, first: ReleaseName) -> None:
    """Create Clusters a and b; the management cluster plays the workload cluster of b."""
    await world.cluster("a", first.class_name, version=FIRST)
    own = yaml.safe_load(world.management_kubeconfig.read_text())
    await world.cluster("b", first.class_name, version=FIRST, kubeconfig=own)
    for name in "ab":
        await world.addons_ready(name, first.class_name)


async def says(world: World, upgrade_name: str, cluster: str, phase: str, words: str) -> Manifest:
    """Wait until an upgrade says something of a Cluster, and return the upgrade."""

    def has(found: Manifest) -> bool:
        entries = {one["name"]: one for one in (found.get("status") or {}).get("clusters") or []}
        entry = entries.get(cluster, {})
        told = f"{entry.get('step', '')} {entry.get('doing', '')} {entry.get('message', '')}"
        assert entry.get("phase") == phase, entries
        assert words in told, entries
        return True

    return await world.until(Kind.CLUSTER_UPGRADE, upgrade_name, has)


async def columns(world: World, name: str) -> list[str]:
    """Return what kubectl prints of an upgrade, without its age."""
    kubectl = Kubectl(world.management_kubeconfig, world.namespace)
    return (await asyncio.to_thread(kubectl, "get", "cupg", name, "--no-headers")).split()[:6]


async def version(world: World, cluster: str) -> str:
    return str((await world.get(CLUSTER_KIND, cluster))["spec"]["topology"]["version"])


async def test_after_a_failure_no_further_cluster_begins_and_the_one_that_has_begun_goes_on(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(schedule, "PATIENCE", timedelta())
    # Nothing runs in the cluster, so that the Deployment, which only Cluster a gets, never becomes healthy.
    unhealthy = yaml.safe_dump(deployment("tried", "kube-system"))
    names = bundles(world, {"1.35": f'{{{{ if eq .Values.cluster "a" }}}}\n{unhealthy}{{{{ end }}}}\n'})
    first, _, last = names
    name = f"ring-canary-{last}"
    async with world.operator():
        await offer(world, names)
        await two_clusters(world, first)
        for waiting in "cd":
            await world.cluster(waiting, first.class_name, version=FIRST)
        for cluster in "abcd":
            labels = {"metadata": {"labels": {"ring": "canary"}}}
            await world.patch(await world.get(CLUSTER_KIND, cluster), labels)
        selected = {"selector": {"matchLabels": {"ring": "canary"}}}
        await world.create(upgrade(world, last.release, name, selected, maxConcurrent=2, stopAfterFailures=1))
        await says(world, name, "b", "Running", "1/2")
        async with nodes_roll(world, "a"):
            await says(world, name, "a", "Failed", "an addon was rolled back: addon app of ")
        await says(world, name, "b", "Running", "1/2")
        stopped = "no further Cluster begins, because 1 failed (spec.stopAfterFailures)"
        async with nodes_roll(world, "b"):
            await says(world, name, "b", "Done", "")
            found = await says(world, name, "c", "Waiting", stopped)
        await says(world, name, "d", "Waiting", stopped)

        ready = condition_of(found, "Ready")
        assert (ready["status"], ready["reason"]) == ("False", "UpgradeStopped"), ready
        assert ready["message"].startswith("1/4 clusters have the target, 1 failed (a: an addon was rolled back: ")
        assert ready["message"].endswith(f", 2 waiting (c: {stopped})")
        assert await columns(world, name) == [name, last.release, "Stopped", "1/4", "0", "1"]
        code, told, err = await csctl(
            world, "upgrade", "-lring=canary", f"-n{world.namespace}", "--to", last.release, "--max", "2", "--yes"
        )
        assert code == 3, err
        assert f"ClusterUpgrade {world.namespace}/{name} is Stopped: 1/4 have {last}." in told
        assert "a: " in told
        assert "an addon was rolled back" in told
        assert [await version(world, cluster) for cluster in "abcd"] == ["v1.35.4", "v1.36.1", FIRST, FIRST]
        for waiting in "cd":
            annotations = (await world.get(CLUSTER_KIND, waiting))["metadata"].get("annotations", {})
            assert UPGRADE_STEP_ANNOTATION not in annotations


async def test_what_goes_away_between_two_steps_is_named_and_stops_nothing_else(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(schedule, "PATIENCE", timedelta())
    names = bundles(world)
    first, second, last = names
    spec: Manifest = {"clusters": {"names": ["a", "b"]}, "maxConcurrent": 2, "stopAfterFailures": 9}
    async with world.operator():
        await offer(world, names)
        await two_clusters(world, first)

        # A workload cluster that cannot be reached keeps its Cluster alone.
        await world.create(upgrade(world, last.release, **spec, stepLimit=1))
        await says(world, "up", "a", "Running", "1/2")
        gone = {**world.workload_kubeconfig}
        place = {**gone["clusters"][0]["cluster"], "server": "https://127.0.0.1:1"}
        gone["clusters"] = [{**gone["clusters"][0], "cluster": place}]
        await world.connect("a", gone)
        async with nodes_roll(world, "a"), nodes_roll(world, "b"):
            await says(world, "up", "b", "Running", "stopped after 1 of 2 steps: raise spec.stepLimit to continue")
            found = await says(world, "up", "a", "Running", f"API server of Cluster {world.namespace}/a")
            assert "127.0.0.1:1" in condition_of(found, "Ready")["message"]
            assert await columns(world, "up") == ["up", last.release, "Running", "0/2", "2", "0"]

            # The next release is withdrawn, and then its ClusterStack is deleted.
            stack = stack_of(world, last)
            other = of_minor(world.stack, "1.36")
            world.publish(other.release("v2"), other.files("v2", {}, kubernetes=VERSIONS["1.36"]))
            await world.patch(stack, {"spec": {"versions": ["v2"]}})
            await world.gone(Kind.CLUSTER_STACK_RELEASE, last.release)
            await world.patch(found, {"spec": {"stepLimit": 2}})
            unknown = f"release {last} is not among those that could be read: check its name; "
            offers = f"ClusterStack {world.namespace}/{stack['metadata']['name']}"
            await says(world, "up", "b", "Failed", f"add v1 to spec.versions of {offers} and wait until")
            assert await columns(world, "up") == ["up", last.release, "Running", "0/2", "1", "1"]
            await world.delete(stack)
            await world.gone(Kind.CLUSTER_STACK, stack["metadata"]["name"])
            none = f"no ClusterStack in namespace {world.namespace} offers release {last}: first create one there"
            await says(world, "up", "b", "Failed", f"{unknown}{none}")
            assert await version(world, "b") == "v1.35.4"
            await world.create(stack)
            await says(world, "up", "b", "Done", "")

            # Without its ClusterUpgrade, a Cluster ends its step and begins none.
            await world.delete(found)
            await world.connect("a")
            await world.addons_ready("a", second.class_name)
            await world.at_rest()
            assert await version(world, "a") == "v1.35.4"

        # Another one continues, and names what stops it.
        with monkeypatch.context() as small:
            small.setattr(cluster_looks, "MOST_LOOKS", 0)
            await world.create(upgrade(world, last.release, "again", **spec))
            for cluster in "ab":
                await says(world, "again", cluster, "Blocked", "the search for a plan stopped without a result")
        for cluster in "ab":
            await world.nudge(await world.get(CLUSTER_KIND, cluster))
        await says(world, "again", "b", "Done", "")
        await says(world, "again", "a", "Running", "1/1")
        await world.delete(await world.get(CLUSTER_KIND, "a"))
        await says(world, "again", "a", "Blocked", f"Clusters of namespace {world.namespace}: b")
        assert (await columns(world, "again"))[2:] == ["Blocked", "1/2", "0", "0"]
