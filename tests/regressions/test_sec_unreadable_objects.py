"""An unreadable object is named and does not affect other objects."""

from __future__ import annotations

import logging
import re
from typing import TYPE_CHECKING

import pytest

from clusterstacks.model.kinds.clusteraddon import addon_name
from clusterstacks.model.kinds.names import CLUSTER_API_GROUP, CLUSTER_CLASS_KIND, CLUSTER_KIND, Kind
from clusterstacks.model.objects import ObjectKey
from clusterstacks.net.kube.transport import Call
from clusterstacks.operator.controllers.class_usage import CLASS_INDEX
from tests.support.builders.stacks import KUBERNETES, config_map, templates
from tests.support.observing.stalls import measured
from tests.support.running.world import SECONDS, condition_of, finished_status
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from clusterstacks.model.objects import Manifest
    from clusterstacks.operator.app import Operator
    from tests.support.running.world import World

DEEP = "[" * 1100 + "]" * 1100
WIDE = "[" + "[]," * 60_000 + "1]"


async def create_raw(world: World, kind: str, name: str, namespace: str, spec: str) -> None:
    """Create an object from text: our encoder does not write such deep nesting."""
    resource = await world.client.resource(CLUSTER_API_GROUP, kind)
    metadata = f'{{"name":"{name}","namespace":"{namespace}"}}'
    text = f'{{"apiVersion":"{resource.api_version}","kind":"{kind}","metadata":{metadata},"spec":{spec}}}'
    call = Call(f"create {name}", "POST", resource.path(namespace), body=text.encode())
    await world.client._transport.send(call)


def topology(class_name: str, value: str) -> str:
    variables = f'[{{"name":"x","value":{value}}}]'
    return f'{{"topology":{{"classRef":{{"name":"{class_name}"}},"variables":{variables},"version":"{KUBERNETES}"}}}}'


def unreadable(operator: Operator, kind: str) -> float | None:
    labels = {"kind": f"{kind}.{CLUSTER_API_GROUP}"}
    return operator._metrics.registry.get_sample_value("clusterstacks_unreadable_objects", labels)


async def until_named(operator: Operator, kind: str, key: str, caplog: pytest.LogCaptureFixture) -> None:
    async def named() -> bool:
        line = re.compile(rf"{kind}\.{CLUSTER_API_GROUP} {key} (is nested|has more).* so it is skipped")
        return unreadable(operator, kind) == 1 and line.search(caplog.text) is not None

    await eventually(named, seconds=SECONDS, about=f"{kind} {key} in log and metric")


@pytest.mark.regression("SEC-1")
@pytest.mark.parametrize("value", [DEEP, WIDE], ids=["deep", "wide"])
async def test_unreadable_cluster_does_not_block_addons_of_other_clusters(
    world: World, caplog: pytest.LogCaptureFixture, value: str
) -> None:
    name = world.stack.release("v1")
    world.publish(name, world.stack.files("v1", {"cni": templates(config_map(world.namespace))}))
    tenant = await world.other_namespace()
    async with world.operator(namespace="") as operator:
        await world.create(world.stack.manifest(world.namespace, "v1"))
        await world.release_ready(name)
        await create_raw(world, CLUSTER_KIND, "odd", tenant, topology(name.class_name, value))
        await world.cluster("one", name.class_name)
        await world.addons_ready("one", name.class_name)
        await until_named(operator, CLUSTER_KIND, f"{tenant}/odd", caplog)
    caplog.clear()
    async with world.operator(namespace="") as operator:
        await world.another_is_ready()
        await until_named(operator, CLUSTER_KIND, f"{tenant}/odd", caplog)

        assert operator._probes.ready().passed
        # Its class counts as used, also after a restart.
        used = operator._informers[CLUSTER_KIND].cache.by_index(CLASS_INDEX, str(ObjectKey(tenant, name.class_name)))
        assert [one["metadata"]["name"] for one in used] == ["odd"]
        clusters = await world.client.resource(CLUSTER_API_GROUP, CLUSTER_KIND)
        (odd,) = (await world.client.list_metadata(clusters, tenant)).items
        event = await eventually(lambda: _event(world, odd), seconds=SECONDS, about="an event")
        assert (event["type"], event["reason"]) == ("Warning", "ObjectUnreadable")
        assert "simplify or delete it" in event["message"]

        await world.client.delete(clusters, "odd", tenant)
        await eventually(lambda: _none_left(operator), seconds=SECONDS, about="an empty metric")


async def _event(world: World, manifest: Manifest) -> Manifest | None:
    events = await world.events(manifest)
    return events[0] if events else None


async def _none_left(operator: Operator) -> bool:
    return unreadable(operator, CLUSTER_KIND) == 0


@pytest.mark.regression("SEC-1")
async def test_largest_objects_do_not_block_the_operator(world: World) -> None:
    """Lists as wide and deep as etcd takes them: 1.3 MB."""
    values = {"wide": "[" + "[]," * 430_000 + "1]", "long": "[" + '"a",' * 320_000 + "1]", "deep": DEEP}
    async with world.operator() as operator:
        for informer in operator._informers.values():
            await informer.synced()
        async with measured() as cost:
            for name, value in values.items():
                await create_raw(world, CLUSTER_KIND, name, world.namespace, topology("none", value))

            async def named() -> bool:
                return unreadable(operator, CLUSTER_KIND) == len(values)

            await eventually(named, seconds=SECONDS, about="the metric")
    async with world.operator() as operator, measured() as again:
        await operator._informers[CLUSTER_KIND].synced()
        assert unreadable(operator, CLUSTER_KIND) == len(values)
    assert max(cost.stall, again.stall) < 0.5
    assert max(cost.memory, again.memory) < 64 * 1024 * 1024


@pytest.mark.regression("SEC-14")
async def test_operator_is_not_ready_while_an_informer_fails_for_minutes(world: World) -> None:
    async with world.operator() as operator:
        for informer in operator._informers.values():
            await informer.synced()
        assert operator._probes.ready().passed
        health = operator._informers[CLUSTER_KIND].health
        health._tolerance = -1.0
        health.failed("no route")

        answer = operator._probes.ready()
        assert not answer.passed
        assert "[-]cluster informer failed: has failed for 0 s: no route" in answer.text
        name, labels = "clusterstacks_failing_since_timestamp_seconds", {"part": "cluster informer"}
        assert operator._metrics.registry.get_sample_value(name, labels)
        assert not operator._metrics.registry.get_sample_value(name, {"part": "clusterclass informer"})
        health.succeeded()
        assert operator._probes.ready().passed


@pytest.mark.regression("SEC-1")
async def test_unreadable_class_does_not_affect_other_classes(world: World, caplog: pytest.LogCaptureFixture) -> None:
    name = world.stack.release("v1")
    world.publish(name, world.stack.files("v1", {"cni": templates(config_map(world.namespace))}))
    patches = f'{{"patches":[{{"definitions":[{{"jsonPatches":[{{"value":{DEEP}}}]}}]}}]}}'
    await create_raw(world, CLUSTER_CLASS_KIND, "odd", world.namespace, patches)
    async with world.operator() as operator:
        await world.create(world.stack.manifest(world.namespace, "v1"))
        await world.release_ready(name)
        await world.cluster("one", name.class_name)
        await world.addons_ready("one", name.class_name)
        await until_named(operator, CLUSTER_CLASS_KIND, f"{world.namespace}/odd", caplog)


@pytest.mark.regression("SEC-1")
@pytest.mark.parametrize("levels", [260, 600, 1000])
async def test_unwritable_cluster_is_reported_as_a_condition(world: World, levels: int) -> None:
    name = world.stack.release("v1")
    world.publish(name, world.stack.files("v1", {"cni": templates(config_map(world.namespace))}))
    async with world.operator():
        await world.create(world.stack.manifest(world.namespace, "v1"))
        await world.release_ready(name)
        await create_raw(
            world, CLUSTER_KIND, "odd", world.namespace, topology(name.class_name, "[" * levels + "]" * levels)
        )
        await world.connect("odd")
        cluster = await world.get(CLUSTER_KIND, "odd")
        await world.patch(cluster, {"status": finished_status()}, "status")

        words = [f"Cluster {world.namespace}/odd", "nested deeper than 200 levels", "flatten"]
        await world.says(Kind.CLUSTER_ADDON, addon_name("odd"), "Ready", "NestedTooDeep", words=words)
        cluster = await world.until(
            CLUSTER_KIND,
            "odd",
            lambda one: condition_of(one, "ClusterStackAddonsReady").get("reason") == "NestedTooDeep",
        )
        await world.patch(cluster, {"spec": {"topology": {"variables": None}}})
        await world.addons_ready("odd", name.class_name)


@pytest.mark.regression("SEC-1")
async def test_cluster_becoming_unreadable_is_reported_on_its_addons(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    name = world.stack.release("v1")
    world.publish(name, world.stack.files("v1", {"cni": templates(config_map(world.namespace))}))
    async with world.operator() as operator:
        await world.create(world.stack.manifest(world.namespace, "v1"))
        await world.release_ready(name)
        await world.cluster("odd", name.class_name)
        await world.addons_ready("odd", name.class_name)
        clusters = await world.client.resource(CLUSTER_API_GROUP, CLUSTER_KIND)
        body = f'{{"spec":{topology(name.class_name, DEEP)}}}'
        call = Call(
            "patch",
            "PATCH",
            clusters.path(world.namespace, "odd"),
            body=body.encode(),
            content_type="application/merge-patch+json",
        )
        await world.client._transport.send(call)

        words = [f"Cluster.{CLUSTER_API_GROUP} {world.namespace}/odd", "nested deeper than 1024 levels", "simplify"]
        await world.says(Kind.CLUSTER_ADDON, addon_name("odd"), "Ready", "ObjectUnreadable", words=words)
        await until_named(operator, CLUSTER_KIND, f"{world.namespace}/odd", caplog)
