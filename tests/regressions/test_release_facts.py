"""LIVE-H1: admission decides right after a start with an empty cache, from the status of the ClusterStackReleases."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from clusterstacks.model.kinds.names import CLUSTER_KIND, Kind
from tests.support.builders.stacks import KUBERNETES
from tests.support.running.admission import guarded, ranged, refusal
from tests.support.running.world import idle, is_ready
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from clusterstacks.model.names import ReleaseName
    from clusterstacks.model.objects import Manifest
    from tests.support.running.world import World

pytestmark = pytest.mark.regression("LIVE-H1")

OLD, NEW = "v1.35.4", "v1.36.1"


async def ranged_release(world: World) -> ReleaseName:
    """A ready release whose class works with 1.36, and whose addon does not."""
    name, files = ranged(world.stack, "v1", OLD, ">=1.34 <1.37", cilium=("1.17.2", ">=1.30 <1.36"))
    world.publish(name, files)
    await world.create(world.stack.manifest(world.namespace, "v1"))
    await world.release_ready(name)
    return name


async def asked_for(world: World, version: str) -> str:
    """Set a Kubernetes version; return the denial, empty if it is accepted."""
    cluster = await world.get(CLUSTER_KIND, "one")
    return await refusal(world.patch(cluster, {"spec": {"topology": {"version": version}}}))


def elsewhere(world: World) -> None:
    """Take the source away: nothing but the management cluster can say what a release states."""
    world.releases.rename(world.releases.with_name("elsewhere"))
    world.releases.mkdir()


def has_facts(manifest: Manifest) -> bool:
    return is_ready(manifest) and bool(manifest["status"].get("facts"))


@pytest.mark.regression("LIVE-H1")
async def test_update_outside_the_ranges_is_denied_after_a_start_with_an_empty_cache(world: World) -> None:
    async with guarded(world):
        name = await ranged_release(world)
        await world.cluster("one", name.class_name, version=OLD)
        before = await asked_for(world, NEW)
    elsewhere(world)

    async with guarded(world, cache_dir=world.cache.with_name("empty")):
        after = await asked_for(world, NEW)

    assert "cilium 1.17.2" in before
    assert "cilium 1.17.2" in after, after


@pytest.mark.regression("LIVE-H1")
async def test_bundle_is_validated_by_its_status_after_a_start_with_an_empty_cache(world: World) -> None:
    name = world.stack.release("v1")
    world.publish(name, world.stack.files("v1", {}))
    async with guarded(world):
        await world.create(world.stack.manifest(world.namespace, "v1"))
        await world.release_ready(name)
        await world.cluster("one", name.class_name)
    elsewhere(world)

    async with guarded(world, cache_dir=world.cache.with_name("empty")):
        told = await asked_for(world, NEW)

    assert f"is for Kubernetes {KUBERNETES} exactly" in told, told


@pytest.mark.regression("LIVE-H1")
async def test_missing_facts_are_written_once_and_nothing_else_changes(world: World) -> None:
    """Facts are missing after an upgrade from a version that did not store them."""
    async with world.operator() as operator:
        name = await ranged_release(world)
        await world.cluster("one", name.class_name, version=OLD)
        await world.addons_ready("one", name.class_name)
        await idle(operator)
    addon = await world.addon("one")
    settled = await world.get(Kind.CLUSTER_STACK_RELEASE, name.release)
    older = await world.patch(settled, {"status": {"facts": None}}, "status")
    elsewhere(world)

    async with world.operator() as operator:
        filled = await world.until(Kind.CLUSTER_STACK_RELEASE, name.release, has_facts)
        await world.look_again(operator, "clusterstackrelease", filled)
        after = await world.get(Kind.CLUSTER_STACK_RELEASE, name.release)

    assert "facts" not in older["status"]
    assert after["status"] == settled["status"]
    assert (await world.addon("one"))["metadata"]["resourceVersion"] == addon["metadata"]["resourceVersion"]


@pytest.mark.regression("LIVE-H1")
async def test_without_facts_an_update_asks_for_a_retry_and_a_creation_gets_a_warning(
    world: World,
) -> None:
    async with world.operator():
        name = await ranged_release(world)
        await world.cluster("one", name.class_name, version=OLD)
    release = await world.get(Kind.CLUSTER_STACK_RELEASE, name.release)
    await world.patch(release, {"status": {"facts": None}}, "status")
    elsewhere(world)

    async with guarded(world, cache_dir=world.cache.with_name("empty")):
        told = await asked_for(world, NEW)
        cluster = await world.get(CLUSTER_KIND, "one")
        labelled = await refusal(world.patch(cluster, {"metadata": {"labels": {"tier": "prod"}}}))
        await world.cluster("two", name.class_name, version=OLD)
        unread = await world.get(Kind.CLUSTER_STACK_RELEASE, name.release)
        # The release comes back: the refusal ends by itself.
        world.releases.rmdir()
        world.releases.with_name("elsewhere").rename(world.releases)

        async def decided() -> bool:
            return "cilium 1.17.2" in await asked_for(world, NEW)

        await eventually(decided, about="a decision by facts")

    assert f"nothing is known of release {name} of class {world.namespace}/{name.class_name} yet: " in told
    assert "try again in 10 s" in told
    assert is_ready(unread), "it was applied, and goes on"
    assert labelled == ""


@pytest.mark.regression("LIVE-H1")
async def test_update_to_a_release_that_is_not_offered_is_refused_with_those_that_are(world: World) -> None:
    async with guarded(world):
        name = await ranged_release(world)
        await world.cluster("one", name.class_name, version=OLD)
        cluster = await world.get(CLUSTER_KIND, "one")
        later = world.stack.release("v7").class_name

        told = await refusal(world.patch(cluster, {"spec": {"topology": {"classRef": {"name": later}}}}))

    assert f"offers {name.class_name}; use another class, or ask the administrators" in told
    assert "to add v7 to its spec.versions" in told


@pytest.mark.regression("LIVE-H1")
async def test_facts_are_restored_after_a_move_without_status(world: World) -> None:
    """As ``clusterctl move`` and backups do, which keep annotations."""
    async with world.operator():
        name = await ranged_release(world)
    release = await world.get(Kind.CLUSTER_STACK_RELEASE, name.release)
    await world.patch(release, {"status": dict.fromkeys(release["status"])}, "status")

    async with world.operator(cache_dir=world.cache.with_name("empty")):
        moved = await world.until(Kind.CLUSTER_STACK_RELEASE, name.release, has_facts)

    assert moved["status"]["facts"] == release["status"]["facts"]
