"""Helm hooks: those of installation and upgrade are applied, all others are left out."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from clusterstacks.deliver.apply.delivery import Delivery, RecordOwner, Revision
from clusterstacks.model.objects import ObjectKey
from clusterstacks.net.kube.client import Client
from clusterstacks.net.kube.kubeconfig import parse_kubeconfig
from clusterstacks.net.pool import Pool
from tests.support.builders.manifests import pod_template
from tests.support.builders.stacks import config_map, templates

if TYPE_CHECKING:
    from tests.support.running.world import World

APPLIED = ("pre-install", "post-install", "pre-upgrade", "post-upgrade", "post-upgrade,test")
LEFT_OUT = ("pre-delete", "post-delete", "pre-rollback", "post-rollback", "test", "test-success", "test,pre-delete")


def job(word: str, hook: str) -> dict[str, Any]:
    name = f"{word}-{hook.replace(',', '-and-')}"
    metadata = {"name": name, "namespace": "kube-system", "annotations": {"helm.sh/hook": hook}}
    pod = pod_template(name)
    pod["spec"]["restartPolicy"] = "Never"
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": metadata, "spec": {"template": pod}}


async def jobs(world: World) -> set[str]:
    """List the hooks of this test whose Jobs exist in the workload cluster."""
    found = await world.workload.list(await world.workload.resource("batch", "Job"), "kube-system")
    prefix = f"{world.namespace}-"
    names = (item["metadata"]["name"] for item in found.items if not item["metadata"].get("deletionTimestamp"))
    return {name.removeprefix(prefix).replace("-and-", ",") for name in names if name.startswith(prefix)}


async def publish(world: World, version: str, *manifests: dict[str, Any]) -> str:
    name = world.stack.release(version)
    world.publish(name, world.stack.files(version, {world.namespace: templates(*manifests)}))
    return name.class_name


@pytest.mark.regression("LIVE-H2")
async def test_hooks_of_deletion_rollback_and_test_are_not_applied(world: World) -> None:
    word = world.namespace
    hooks = [job(word, hook) for hook in (*APPLIED, *LEFT_OUT)]
    first = await publish(world, "v1", config_map(word), *hooks)
    async with world.operator():
        await world.create(world.stack.manifest(word, "v1"))
        await world.release_ready(world.stack.release("v1"))
        await world.cluster("one", first)
        await world.addons_ready("one", first)

        assert await jobs(world) == set(APPLIED)


@pytest.mark.regression("LIVE-H2")
async def test_earlier_delivered_hooks_are_kept_until_the_next_delivery(world: World) -> None:
    word = world.namespace
    first = await publish(world, "v1", config_map(word, number="1"), job(word, "test"))
    second = await publish(world, "v2", config_map(word, number="2"), job(word, "test"))
    async with world.operator():
        await world.create(world.stack.manifest(word, "v1", "v2"))
        for version in ("v1", "v2"):
            await world.release_ready(world.stack.release(version))
        cluster = await world.cluster("one", first)
        await world.addons_ready("one", first)
    await deliver_as_before(world, cluster["metadata"]["name"])
    assert await jobs(world) == {"test"}
    before = await revisions(world)

    async with world.operator() as operator:
        addon = await world.addon("one")
        await world.look_again(operator, "clusteraddon", addon)
        await world.look_again(operator, "clusteraddon", addon)

        assert await jobs(world) == {"test"}
        assert await revisions(world) == before

        await world.set_class("one", second)
        await world.addons_ready("one", second)

        assert await jobs(world) == set()
        assert (await world.delivered(word) or {})["data"] == {"number": "2"}


async def deliver_as_before(world: World, cluster: str) -> None:
    """Deliver the addon of version 1 with its test, as versions of the operator did that applied every hook."""
    async with Pool() as pool:
        client = Client(parse_kubeconfig(world.workload_kubeconfig, base=None), pool)
        delivery = Delivery(client, RecordOwner(ObjectKey(world.namespace, cluster)))
        record = (await delivery.records())[world.namespace]
        manifests = [config_map(world.namespace, number="1"), job(world.namespace, "test")]
        report = await delivery.install(world.namespace, Revision.of(manifests, record.inputs))
        assert report.synced, json.dumps([one.error for one in report.objects])


async def revisions(world: World) -> dict[str, str]:
    """Return the resource versions of all objects of the addon in the workload cluster, with its record."""
    found = {}
    for group, kind in (("", "ConfigMap"), ("", "Secret"), ("batch", "Job")):
        listing = await world.workload.list(await world.workload.resource(group, kind), "kube-system")
        for item in listing.items:
            if world.namespace in item["metadata"]["name"]:
                found[f"{kind} {item['metadata']['name']}"] = item["metadata"]["resourceVersion"]
    return found
