"""Shards of the operator: each Cluster is delivered by the instance that its label names, and by no other."""

from __future__ import annotations

import asyncio
import time
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from typing import TYPE_CHECKING

import yaml

from clusterstacks.model.kinds.clusterresourcesync import SYNC_API_VERSION, binding_name
from clusterstacks.model.kinds.names import CLUSTER_KIND, SHARD_LABEL, SHARDS_ANNOTATION, Kind, addon_name
from clusterstacks.model.kinds.shards import MAIN, lease_name, shard_of
from clusterstacks.net.kube.write_gate import GuardedBody
from clusterstacks.operator import shard_leases
from clusterstacks.operator.lease_settings import ElectionSettings
from clusterstacks.runtime.leases import LeaseDurations
from tests.support.builders.manifests import named
from tests.support.builders.stacks import config_map, templates
from tests.support.fakes.silent_server import silent_server
from tests.support.running.admission import guarded, refusal
from tests.support.running.world import SECONDS, condition_of, is_ready
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from typing import Any

    import pytest
    from aiohttp.abc import AbstractStreamWriter

    from clusterstacks.model.names import ReleaseName
    from clusterstacks.operator.app import Operator
    from tests.support.running.world import World

OBJECTS = 60
WRITES = ("PATCH", "POST", "DELETE")


@dataclass
class Writes:
    """The times of the writes of an instance to workload clusters."""

    times: list[float] = field(default_factory=list)

    def note(self, method: str, status: int) -> None:
        if method in WRITES and status < 400:
            self.times.append(time.monotonic())


@asynccontextmanager
async def instance(world: World, shard: str = MAIN, **settings: Any) -> AsyncIterator[tuple[Operator, Writes]]:
    election = ElectionSettings(world.namespace, f"{shard or 'main'}-1", LeaseDurations(3, 2.0, 0.5), lease_name(shard))
    async with world.operator(shard=shard, election=election, **settings) as operator:
        writes = Writes()
        operator._workloads._on_answer = writes.note
        yield operator, writes


async def label(world: World, name: str, shard: str | None) -> None:
    cluster = await world.get(CLUSTER_KIND, name)
    await world.patch(cluster, {"metadata": {"labels": {SHARD_LABEL: shard}}})


async def held(world: World, name: str, shard: str) -> None:
    """Wait until a shard holds the ready ClusterAddon of a Cluster."""
    await world.until(Kind.CLUSTER_ADDON, addon_name(name), lambda one: shard_of(one) == shard and is_ready(one))


async def offered(world: World, *versions: str, objects: int = 1) -> list[ReleaseName]:
    names = [world.stack.release(version) for version in versions]
    for name, version in zip(names, versions, strict=True):
        content = [config_map(f"{world.namespace}-{number}", release=version) for number in range(objects)]
        world.publish(name, world.stack.files(version, {"cni": templates(*content)}))
    await world.create(world.stack.manifest(world.namespace, *versions))
    for name in names:
        await world.release_ready(name)
    return names


async def test_cluster_moves_in_the_middle_of_a_delivery_and_back(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    send = GuardedBody.write_with_length

    async def slowly(self: GuardedBody, writer: AbstractStreamWriter, content_length: int | None) -> None:
        if "configmaps" in self._about:
            await asyncio.sleep(0.5)  # 16 at a time: the delivery takes two seconds
        await send(self, writer, content_length)

    async with instance(world) as (_, of_main), instance(world, "emea") as (_, of_emea):
        first, second = await offered(world, "v1", "v2", objects=OBJECTS)
        with monkeypatch.context() as patched:
            patched.setattr(GuardedBody, "write_with_length", slowly)
            await world.cluster("one", first.class_name)

            async def begun() -> bool:
                return len(of_main.times) >= OBJECTS // 10

            await eventually(begun, seconds=SECONDS, about="a delivery by the main instance")
            moved = time.monotonic()
            await label(world, "one", "emea")
            await held(world, "one", "emea")

        assert OBJECTS // 10 <= len(of_main.times) < OBJECTS
        assert max(of_main.times) < moved + 1
        assert max(of_main.times) < min(of_emea.times)
        other = yaml.safe_load(world.management_kubeconfig.read_text())
        await world.cluster("two", first.class_name, kubeconfig=other)
        await held(world, "two", MAIN)
        stack = await world.get(Kind.CLUSTER_STACK, world.stack.word)
        await world.patch(stack, {"spec": {"versions": [str(second.version)]}})
        await world.set_class("two", second.class_name)
        await world.addons_ready("two", second.class_name)
        await world.get(Kind.CLUSTER_STACK_RELEASE, first.release)  # a Cluster of emea uses it

        before = len(of_main.times) + len(of_emea.times)
        await label(world, "one", None)
        await held(world, "one", MAIN)
        assert len(of_main.times) + len(of_emea.times) == before  # the main instance knows what is there


async def test_clusters_of_a_shard_that_does_not_run_are_reported_and_not_adopted(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shard_leases, "REPORT_AFTER", timedelta(seconds=0))
    monkeypatch.setattr(shard_leases, "LOOK_INTERVAL", timedelta(seconds=0.2))
    async with instance(world, shards=frozenset({"apac"})) as (main, of_main):
        first, second = await offered(world, "v1", "v2")
        await world.cluster("one", first.class_name)
        await held(world, "one", MAIN)

        await label(world, "one", "apac")
        await world.set_class("one", second.class_name)

        told = await world.says(CLUSTER_KIND, "one", "ClusterStackAddonsReady", "ShardNotRunning")
        assert told["message"].startswith("shard apac does not run, so nothing is delivered: run it, or change")
        addon = await world.addon("one")
        assert shard_of(addon) == "apac"
        assert addon["spec"]["clusterStack"] == first.class_name
        cluster = await world.get(CLUSTER_KIND, "one")
        assert "ShardNotRunning" in [one["reason"] for one in await world.events(cluster)]
        main._metrics.measure()
        assert b'clusterstacks_unserved_clusters{shard="apac"} 1.0' in main._metrics.expose()
        before = len(of_main.times)
        async with instance(world, "apac"):  # without its Lease it would write nothing
            await world.addons_ready("one", second.class_name)
            ready = await world.until(
                CLUSTER_KIND, "one", lambda one: condition_of(one, "ClusterStackAddonsReady").get("status") == "True"
            )
            assert shard_of(ready) == "apac"
        assert len(of_main.times) == before

        await label(world, "one", None)  # apac has released its Lease, and cannot hand over
        await held(world, "one", MAIN)


async def test_bindings_of_a_sync_move_with_their_cluster(world: World) -> None:
    word = world.namespace

    async def write(value: str) -> None:
        content = yaml.dump(config_map(word, key=value))
        manifest = {**config_map("objects", **{"a.yaml": content}), "metadata": {"name": "objects", "namespace": word}}
        maps = await world.client.resource("", "ConfigMap")
        await world.client.apply(maps, manifest, manager="tests", force=True)

    await write("one")
    await world.cluster("one", "somebody-elses")
    async with instance(world) as (_, of_main), instance(world, "emea"):
        spec = {"resources": [{"kind": "ConfigMap", "name": "objects"}], "interval": "24h"}
        await world.create(named(SYNC_API_VERSION, Kind.CLUSTER_RESOURCE_SYNC.value, "extra", word, spec=spec))
        await world.shows(word, {"key": "one"})
        await label(world, "one", "emea")
        binding = binding_name("extra", "one")
        await world.until(Kind.CLUSTER_RESOURCE_SYNC_BINDING, binding, lambda one: shard_of(one) == "emea")
        before = len(of_main.times)

        await write("two")

        await world.shows(word, {"key": "two"})
        assert len(of_main.times) == before


async def test_black_holes_of_a_shard_delay_no_cluster_of_any(world: World) -> None:
    dark = [f"dark{number}" for number in range(12)]
    workers = dict.fromkeys(("clusterstack", "clusterstackrelease", "clusteraddon"), 4)
    async with AsyncExitStack() as stack:
        port = await stack.enter_async_context(silent_server())
        await stack.enter_async_context(instance(world))
        await stack.enter_async_context(instance(world, "emea", workers=workers))
        (release,) = await offered(world, "v1")
        for name in dark:
            await world.cluster(name, release.class_name, kubeconfig=at_port(world, port))
            await label(world, name, "emea")
        await world.cluster("one", release.class_name)
        await world.addons_ready("one", release.class_name)
        await label(world, "one", "emea")

        await held(world, "one", "emea")


async def test_tenants_use_the_shards_of_their_provider_only(world: World) -> None:
    async with guarded(world, shards=frozenset({"emea", "apac"})):
        await world.cluster("one", "somebody-elses", ready=False)

        refused = await refusal(label(world, "one", "us"))
        assert "asks for the shard 'us', but there is none: use apac or emea, or remove the label" in refused
        namespace = {"kind": "Namespace", "apiVersion": "v1", "metadata": {"name": world.namespace}}
        await world.patch(namespace, {"metadata": {"annotations": {SHARDS_ANNOTATION: "emea"}}})
        refused = await refusal(label(world, "one", "apac"))
        assert "of its namespace does not name it: use emea, or remove the label" in refused
        assert await refusal(label(world, "one", "emea")) == ""
        assert await refusal(label(world, "one", None)) == ""


def at_port(world: World, port: int) -> dict[str, Any]:
    """Return the kubeconfig of the workload cluster with another port."""
    document: dict[str, Any] = yaml.safe_load(yaml.safe_dump(dict(world.workload_kubeconfig)))
    document["clusters"][0]["cluster"]["server"] = f"https://127.0.0.1:{port}"
    return document
