"""Slow or unreachable clusters do not delay others, and settled ones cost no requests."""

from __future__ import annotations

import asyncio
import copy
import shutil
from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest

from clusterstacks.deliver.apply.delivery import Delivery, Revision
from clusterstacks.model.kinds.names import Kind
from clusterstacks.net.kube.client import Client
from clusterstacks.net.kube.kubeconfig import parse_kubeconfig
from clusterstacks.net.pool import Pool
from clusterstacks.operator.controllers import workload_clients
from clusterstacks.runtime import controller
from tests.support.builders.stacks import TinyStack, config_map, templates
from tests.support.fakes.silent_server import silent_server
from tests.support.observing.client_requests import Recorder
from tests.support.observing.write_counter import writes
from tests.support.running.world import SECONDS, idle, is_ready, is_unready
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from tests.support.running.world import World

ENDLESS = "{{ range $i := until 100000 }}{{ range $j := until 100000 }}{{ end }}{{ end }}"


def elsewhere(world: World, port: int) -> dict[str, Any]:
    """The workload cluster's kubeconfig with another port."""
    document = copy.deepcopy(dict(world.workload_kubeconfig))
    document["clusters"][0]["cluster"]["server"] = f"https://127.0.0.1:{port}"
    return document


@pytest.mark.regression("D54")
async def test_silent_cluster_and_endless_chart_delay_no_other_cluster(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(controller, "STOP_DEADLINE", timedelta(seconds=0.1))  # the end of this test
    silence = timedelta(seconds=5 * SECONDS)  # longer than any wait of this test
    monkeypatch.setattr(workload_clients, "READY_DEADLINE", silence)
    monkeypatch.setattr(workload_clients, "Client", partial(Client, deadline=silence))
    stacks = {kind: TinyStack(f"{world.namespace}{kind}") for kind in ("silent", "endless", "good")}
    for kind, stack in stacks.items():
        for version in ("v1", "v2"):
            text = ENDLESS if kind == "endless" else ""
            chart = templates(config_map(stack.word, version=version), **{"templates/more.yaml": text})
            world.publish(stack.release(version), stack.files(version, {stack.word: chart}))
    async with silent_server() as port, world.operator():
        for stack in stacks.values():
            await world.create(stack.manifest(world.namespace, "v1", "v2"))
        for kind, stack in stacks.items():
            await world.release_ready(stack.release("v1"))
            await world.release_ready(stack.release("v2"))
            kubeconfig = elsewhere(world, port) if kind == "silent" else None
            await world.cluster(kind, stack.release("v1").class_name, kubeconfig=kubeconfig)
        good = stacks["good"]
        await world.addons_ready("good", good.release("v1").class_name)
        await world.set_class("good", good.release("v2").class_name)
        await world.addons_ready("good", good.release("v2").class_name)

        assert is_unready(await world.addon("silent"))
        assert is_unready(await world.addon("endless"))


@pytest.mark.regression("D53", "D56")
async def test_delivered_addon_causes_no_download_render_or_request(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = world.stack.release("v1")
    directory = world.publish(name, world.stack.files("v1", {"cni": templates(config_map(world.namespace))}))
    async with world.operator():
        await world.create(world.stack.manifest(world.namespace, "v1"))
        await world.release_ready(name)
        await world.cluster("one", name.class_name)
        await world.addons_ready("one", name.class_name)
    shutil.rmtree(directory)
    shutil.rmtree(world.cache)
    await world.connect("one", elsewhere(world, 1))
    async with world.operator() as operator:
        for part in (operator._sources.store, operator._renderer):
            for verb in ("ensure", "chart", "template", "values"):
                if hasattr(part, verb):
                    monkeypatch.setattr(part, verb, forbidden)

        async def looked_at() -> bool:
            done = operator._metrics.reconciles
            return all(
                done.labels(kind, "success")._value.get()
                for kind in ("clusterstack", "clusterstackrelease", "clusteraddon")
            )

        await eventually(looked_at, about="a look at every object")
        assert is_ready(await world.addon("one"))
        assert is_ready(await world.get(Kind.CLUSTER_STACK_RELEASE, name.release))
        assert not world.cache.exists() or not list(world.cache.iterdir())


async def forbidden(*_: object, **__: object) -> None:
    raise AssertionError("not asked for")


@pytest.mark.regression("D52")
async def test_requests_grow_by_one_with_each_object(world: World) -> None:
    counted = []
    for number in (5, 45):
        async with Pool() as pool:
            client = Client(parse_kubeconfig(dict(world.workload_kubeconfig), base=None), pool)
            requests = Recorder.on(client)
            manifests = [config_map(f"{world.namespace}-{number}-{one}") for one in range(number)]
            await Delivery(client).install(f"{world.namespace}-{number}", Revision.of(manifests, "inputs"))
            counted.append(len(requests.calls))
    assert counted[1] - counted[0] == 40


@pytest.mark.regression("D32")
async def test_two_clients_used_at_once_never_share_settings(world: World) -> None:
    async with Pool() as pool:
        clients = {user: Client(impersonating(world, user), pool) for user in ("one", "two")}

        async def who(user: str) -> str:
            reviews = await clients[user].resource("authentication.k8s.io", "SelfSubjectReview")
            body = {"apiVersion": reviews.api_version, "kind": reviews.kind, "metadata": {}}
            answer = await clients[user].create(reviews, body)
            return str(answer["status"]["userInfo"]["username"])

        users = ["one", "two"] * 20
        assert await asyncio.gather(*map(who, users)) == users


def impersonating(world: World, user: str) -> Any:
    document = copy.deepcopy(dict(world.workload_kubeconfig))
    document["users"][0]["user"]["as"] = user
    return parse_kubeconfig(document, base=None)


@pytest.mark.regression("D56")
async def test_restart_writes_nothing_to_either_cluster(world: World) -> None:
    name = world.stack.release("v1")
    world.publish(name, world.stack.files("v1", {"cni": templates(config_map(world.namespace))}))
    async with world.operator() as operator:
        await world.create(world.stack.manifest(world.namespace, "v1"))
        await world.release_ready(name)
        await world.cluster("one", name.class_name)
        await world.addons_ready("one", name.class_name)
        await idle(operator)
    before = [await writes(world.client), await writes(world.workload)]
    async with world.operator() as operator:
        await idle(operator)
    assert [await writes(world.client), await writes(world.workload)] == before
