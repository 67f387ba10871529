"""A running cluster that leaves its compatibility ranges is reported."""

from __future__ import annotations

from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest

from clusterstacks.model.kinds.names import CLUSTER_KIND, GROUP, Kind
from clusterstacks.model.objects import ObjectKey
from clusterstacks.model.versions import KubernetesVersion
from clusterstacks.operator.controllers.clusteraddon import compat_check
from clusterstacks.plan.compat.support import SupportEnd
from tests.integration.controllers.test_decoupled_addons import PREFIX, annotate, offered, ranged
from tests.support.builders.stacks import KUBERNETES, config_map, templates
from tests.support.observing.write_counter import writes
from tests.support.running.world import attempts, condition_of, finished_status, idle, is_ready
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from clusterstacks.model.objects import Manifest
    from clusterstacks.operator.app import Operator
    from tests.support.running.world import World

ADDON = "cluster-addon-one"
CONDITION = "WithinRanges"
MIRRORED = "ClusterStackWithinRanges"


@asynccontextmanager
async def rule(world: World, **spec: Any) -> AsyncIterator[Manifest]:
    """A rule of the provider about this test's stack."""
    stated = {"message": "cni 1.1 leaks", "way": "wait for cni 1.9", **spec}
    manifest = {
        "apiVersion": f"{GROUP}/v1alpha1",
        "kind": Kind.COMPATIBILITY_RULE.value,
        "metadata": {"name": world.namespace},
        "spec": {"when": {"components": {"cni": "<1.9"}}, "stacks": [{"name": world.stack.word}], **stated},
    }
    created = await world.create(manifest)
    try:
        yield created
    finally:
        await world.delete(created)


async def fits(world: World) -> Manifest:
    def told(addon: Manifest) -> bool:
        return is_ready(addon) and condition_of(addon, CONDITION).get("status") == "True"

    addon = await world.until(Kind.CLUSTER_ADDON, ADDON, told)
    await world.until(CLUSTER_KIND, "one", lambda cluster: not condition_of(cluster, MIRRORED))
    return addon


async def looked_at(operator: Operator, times: int) -> None:
    async def looked() -> bool:
        return attempts(operator, "clusteraddon") >= times

    await eventually(looked, about=f"{times} looks at the ClusterAddon")


async def test_new_rule_is_reported_with_its_remedy_and_cleared_when_it_is_deleted(world: World) -> None:
    name = ranged(world, "v1", "cni")
    async with world.operator():
        await offered(world, "v1")
        await world.cluster("one", name.class_name)
        await fits(world)

        async with rule(world, severity="Deny") as denied:
            words = [f"class {name.class_name} with Kubernetes", "cni 1.1 leaks; wait for cni 1.9"]
            found = await world.says(Kind.CLUSTER_ADDON, ADDON, CONDITION, "OutsideRanges", words=words)
            assert found["severity"] == "Warning"
            await world.says(CLUSTER_KIND, "one", MIRRORED, "OutsideRanges", words=words)
            addon = await world.addon("one")
            assert is_ready(addon), "nothing is broken: it is only not to be done again"

            await world.patch(denied, {"spec": {"severity": "Warn"}})
            found = await world.says(Kind.CLUSTER_ADDON, ADDON, CONDITION, "RuleWarns", words=words[1:])
            assert found["severity"] == "Info"
        await fits(world)
        events = [one["reason"] for one in await world.events(addon)]
        assert (events.count("OutsideRanges"), events.count("RuleWarns")) == (1, 0)


async def test_addon_of_another_release_is_checked_with_its_delivered_version(world: World) -> None:
    first, second = ranged(world, "v1", "cni"), ranged(world, "v2", "cni")
    async with world.operator(), rule(world, severity="Deny", when={"components": {"cni": "<1.2"}}):
        await offered(world, "v1", "v2")
        await world.cluster("one", first.class_name)
        await world.says(Kind.CLUSTER_ADDON, ADDON, CONDITION, "OutsideRanges", words=["cni 1.1 leaks"])
        await annotate(world, {f"{PREFIX}cni": second.release})
        await fits(world)


async def test_restart_with_a_cluster_outside_its_ranges_writes_nothing(world: World) -> None:
    name = ranged(world, "v1", "cni")
    async with rule(world, severity="Deny"):
        async with world.operator() as operator:
            await offered(world, "v1")
            await world.cluster("one", name.class_name)
            await world.says(Kind.CLUSTER_ADDON, ADDON, CONDITION)
            await world.addons_ready("one", name.class_name)
            await world.says(CLUSTER_KIND, "one", MIRRORED)
            await idle(operator)
        before = await writes(world.client)
        async with world.operator() as operator:
            await operator._caches[Kind.COMPATIBILITY_RULE].synced()
            await looked_at(operator, times=1)
            operator._controllers["clusteraddon"].enqueue(ObjectKey(world.namespace, ADDON))
            await looked_at(operator, times=2)
            assert await writes(world.client) == before


async def test_a_minor_that_leaves_support_is_reported_by_its_date_and_written_once(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    name, minor, today = (
        ranged(world, "v1", "cni"),
        KubernetesVersion.parse(KUBERNETES).series,
        datetime.now(UTC).date(),
    )

    def ends(days: int) -> None:
        end = SupportEnd(today + timedelta(days=days), "https://example.org/minors", "2026-11-20")
        monkeypatch.setattr(compat_check, "support_ends", lambda: {minor: end})

    ends(30)
    async with world.operator() as operator:
        await offered(world, "v1")
        await world.cluster("one", name.class_name)
        words = [f"Kubernetes {minor} leaves support on {today + timedelta(days=30)} (https://example.org/minors)"]
        found = await world.says(Kind.CLUSTER_ADDON, ADDON, "KubernetesSupported", "SupportEndsSoon", words=words)
        assert found["severity"] == "Info"
        await world.addons_ready("one", name.class_name)
        await idle(operator)
    before = await writes(world.client)
    async with world.operator() as operator:
        await looked_at(operator, times=1)
        operator._controllers["clusteraddon"].enqueue(ObjectKey(world.namespace, ADDON))
        await looked_at(operator, times=2)
        assert await writes(world.client) == before

        ends(-1)
        operator._controllers["clusteraddon"].enqueue(ObjectKey(world.namespace, ADDON))
        await world.says(Kind.CLUSTER_ADDON, ADDON, "KubernetesSupported", "SupportEnded")
        ends(400)
        operator._controllers["clusteraddon"].enqueue(ObjectKey(world.namespace, ADDON))
        await world.until(Kind.CLUSTER_ADDON, ADDON, lambda addon: not condition_of(addon, "KubernetesSupported"))


async def test_lagging_workers_of_a_bundle_are_reported(world: World) -> None:
    name = world.stack.release("v1")
    world.publish(name, world.stack.files("v1", {"cni": templates(config_map(world.namespace))}))
    async with world.operator(), rule(world, severity="Deny"):
        await offered(world, "v1")
        cluster = await world.cluster("one", name.class_name)
        await fits(world)

        lagging = {**finished_status(), "workers": {"versions": [{"version": KUBERNETES}, {"version": "v1.30.2"}]}}
        await world.patch(cluster, {"status": lagging}, "status")
        words = ["workers of v1.30.2 stay behind", "at most 3 minors older", "let the workers follow"]
        await world.says(Kind.CLUSTER_ADDON, ADDON, CONDITION, "WorkersLag", words=words)

        await world.patch(cluster, {"status": {"workers": {"versions": [{"version": KUBERNETES}]}}}, "status")
        await fits(world)


async def reported(world: World, *words: str) -> None:
    await world.says(Kind.CLUSTER_ADDON, ADDON, CONDITION, "OutsideRanges", words=words)
    await world.says(CLUSTER_KIND, "one", MIRRORED, "OutsideRanges", words=words)


@pytest.mark.regression("SEC-25")
async def test_cluster_that_was_created_unchecked_is_reported_before_it_is_built(world: World) -> None:
    name = ranged(world, "v1", "cni")
    async with world.operator():
        await offered(world, "v1")
        cluster = await world.cluster("one", name.class_name, version="v1.31.0", ready=False)
        await reported(world, f"class {name.class_name} with Kubernetes v1.31.0")

        await world.patch(cluster, {"spec": {"topology": {"version": KUBERNETES}}})
        await world.until(CLUSTER_KIND, "one", lambda found: not condition_of(found, MIRRORED))


@pytest.mark.regression("SEC-25")
async def test_upgrade_that_was_accepted_unchecked_is_reported_before_it_ends(world: World) -> None:
    name = ranged(world, "v1", "cni")
    async with world.operator():
        await offered(world, "v1")
        cluster = await world.cluster("one", name.class_name)
        await fits(world)

        await world.patch(cluster, {"spec": {"topology": {"version": "v1.38.0"}}})
        await reported(world, f"class {name.class_name} with Kubernetes v1.38.0")

        await world.patch(cluster, {"spec": {"topology": {"version": KUBERNETES}}})
        await fits(world)


@pytest.mark.regression("SEC-25")
async def test_cluster_of_a_bundle_that_was_created_unchecked_with_another_version_is_reported(world: World) -> None:
    name = world.stack.release("v1")
    world.publish(name, world.stack.files("v1", {"cni": templates(config_map(world.namespace))}))
    async with world.operator():
        await offered(world, "v1")
        await world.cluster("one", name.class_name, version="v1.31.0", ready=False)
        await reported(world, f"class {name.class_name} is for Kubernetes {KUBERNETES} exactly")
