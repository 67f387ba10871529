"""Writes of Clusters as a real API server decides on them, with what it tells the writer."""

from __future__ import annotations

import asyncio
import json
import re
from typing import TYPE_CHECKING

from clusterstacks.api.names import CLUSTER_KIND, Kind
from clusterstacks.controllers.clusteraddon.creation import addon_name
from tests.support.guarding import guarded, of_minor, ranged, refusal
from tests.support.kubectl import Kubectl

if TYPE_CHECKING:
    from clusterstacks.domain.names import ReleaseName
    from clusterstacks.domain.objects import Manifest
    from tests.support.operating import World

OLD, NEW = "v1.35.4", "v1.36.1"


async def two_releases(world: World) -> tuple[ReleaseName, ReleaseName]:
    """Class 1-35 works with 1.36 too, its cilium does not; class 1-36 has one that works with both."""
    later = of_minor(world.stack, "1.36")
    first, files = ranged(world.stack, "v1", OLD, ">=1.34 <1.37", cilium=("1.17.2", ">=1.30 <1.36"))
    second, more = ranged(later, "v2", NEW, ">=1.36 <1.38", cilium=("1.18.0", ">=1.33 <1.38"))
    world.publish(first, files)
    world.publish(second, more)
    await world.create(world.stack.manifest(world.namespace, "v1"))
    manifest = later.manifest(world.namespace, "v2")
    manifest["metadata"]["name"] += "-36"
    await world.create(manifest)
    await world.release_ready(first)
    await world.release_ready(second)
    return first, second


async def kubectl(world: World, *arguments: str) -> str:
    """What kubectl says, in another thread: the operator that is asked runs in this one."""
    tried = await asyncio.to_thread(Kubectl(world.management_kubeconfig, world.namespace).tried, *arguments)
    return tried.stdout + tried.stderr


async def set_version(world: World, version: str, *, name: str = "one") -> str:
    """Ask for a Kubernetes version; the answer, empty when it is accepted."""
    cluster = await world.get(CLUSTER_KIND, name)
    return await refusal(world.patch(cluster, {"spec": {"topology": {"version": version}}}))


async def annotate(world: World, **annotations: str | None) -> str:
    """Annotate the Cluster; the answer, empty when it is accepted."""
    cluster = await world.get(CLUSTER_KIND, "one")
    named = {
        f"clusterstack.x-k8s.io/{key.replace('__', '.').replace('_', '-')}": value for key, value in annotations.items()
    }
    return await refusal(world.patch(cluster, {"metadata": {"annotations": named}}))


async def delivered(world: World, addon: str, release: ReleaseName) -> None:
    """Wait until the cluster has an addon of this release."""

    def holds(manifest: Manifest) -> bool:
        found = (manifest.get("status") or {}).get("addons") or []
        return any(one["name"] == addon and one.get("release") == release.release for one in found)

    await world.until(Kind.CLUSTER_ADDON, addon_name("one"), holds)


async def test_an_upgrade_is_refused_with_the_way_out_and_allowed_after_it(world: World) -> None:
    async with guarded(world):
        first, second = await two_releases(world)
        await world.cluster("one", first.class_name)
        await world.addons_ready("one", first.class_name)

        patch = json.dumps({"spec": {"topology": {"version": NEW}}})
        told = await kubectl(world, "patch", "cluster", "one", "--type=merge", "-p", patch)

        assert "cilium 1.17.2 works with Kubernetes >=1.30 <1.36 (https://example.org/m)" in told
        assert f"upgrade cluster addon cilium to 1.18.0 (release {second} has it) before moving to" in told
        command = re.search(r"kubectl (annotate .*)", told)
        assert command is not None
        assert "annotated" in await kubectl(world, *command[1].split())
        await delivered(world, "cilium", second)
        assert await set_version(world, NEW) == ""
