"""Reviews that the API server sends, and the certificates it trusts."""

from __future__ import annotations

import asyncio
import base64
import itertools
import ssl
from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest

from clusterstacks.model.objects import ObjectKey
from clusterstacks.net.kube.client import Client
from clusterstacks.net.kube.pki import Authority
from clusterstacks.operator.webhooks import certificates
from clusterstacks.operator.webhooks.answers import AdmissionResponse
from clusterstacks.operator.webhooks.certificates import Times
from clusterstacks.operator.webhooks.configuration import (
    CONFIGURATION,
    SECRET_NAME,
    Endpoint,
    WebhookScope,
    configuration,
)
from clusterstacks.operator.webhooks.unregistration import unregister
from clusterstacks.runtime.clock import SystemClock
from tests.support.running.admission import Recorder, asked_about, forget, refusal, replica
from tests.support.running.world import cluster_manifest, finished_status
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from clusterstacks.model.objects import Manifest
    from clusterstacks.net.kube.resources import ObjectList, Resource
    from tests.support.running.world import World

SHORT = Times(lifetime=timedelta(seconds=100), look=timedelta(seconds=0.4), settle=timedelta(seconds=3))
"""A busy machine has 90 s until a certificate expires that is renewed with ``RENEWAL``."""
RENEWAL = 0.95
"""Remaining share of its lifetime at which a certificate is renewed."""


class OneLook(SystemClock):
    """Sleeps for ever."""

    def __init__(self) -> None:
        self.looked = asyncio.Event()

    async def sleep(self, seconds: float) -> None:
        del seconds
        self.looked.set()
        await asyncio.Event().wait()


OURS = "openstack-scs-1-35-v1"


async def secret(world: World) -> Manifest:
    found = await world.find("Secret", SECRET_NAME)
    assert found is not None
    return found


async def try_addon(world: World) -> str:
    """Try a write that needs the webhook; what the API server answers."""
    addon = {
        "apiVersion": "clusterstack.x-k8s.io/v1alpha1",
        "kind": "ClusterAddon",
        "metadata": {"name": "tried", "namespace": world.namespace},
        "spec": {"clusterRef": {"kind": "Cluster", "name": "one"}},
    }
    addons = await world.client.resource("clusterstack.x-k8s.io", "ClusterAddon")
    return await refusal(world.client.apply(addons, addon, manager="tests", dry_run=True))


async def test_only_relevant_changes_are_reviewed(world: World) -> None:
    recorder = Recorder()
    asked: list[str] = []

    async def does(write: Awaitable[object]) -> bool:
        """Return whether the API server sends a review of a write."""
        await write
        mine = [one for one in recorder.asked if one.kind == "Cluster"]
        asked.extend({one.operation for one in mine})  # one that it repeats with a newer object counts once
        recorder.asked.clear()
        return bool(mine)

    async def idle(write: Callable[[], Awaitable[object]]) -> bool:
        """Return whether an unchanged write is not reviewed; right after a change the server's cache is older."""

        async def look() -> bool:
            await write()
            mine = [one for one in recorder.asked if one.kind == "Cluster"]
            recorder.asked.clear()
            return not mine

        return await eventually(look, about="a write without a question")

    def patched(patch: Manifest) -> Awaitable[Manifest]:
        return world.patch(cluster, patch)

    def annotated(value: str | None) -> Awaitable[Manifest]:
        return patched({"metadata": {"annotations": {"clusterstack.x-k8s.io/addon.cni": value}}})

    async with replica(world, recorder):
        await asked_about(world, recorder)
        bare = cluster_manifest(world.namespace, "bare", OURS)
        del bare["spec"]["topology"]
        assert not await does(world.create(bare))
        assert not await does(world.create(cluster_manifest(world.namespace, "foreign", "quick-start")))
        cluster = cluster_manifest(world.namespace, "one", OURS)
        assert await does(world.create(cluster))
        assert not await does(patched({"metadata": {"annotations": {"example.org/a": "b"}}}))
        assert await does(patched({"metadata": {"labels": {"a": "b"}}}))
        assert await idle(lambda: patched({"metadata": {"labels": {"a": "b"}}}))
        assert await does(patched({"spec": {"topology": {"variables": [{"name": "a", "value": 1}]}}}))
        assert await does(patched({"spec": {"topology": {"variables": [{"name": "a", "value": {"b": [1]}}]}}}))
        assert await idle(lambda: patched({"spec": {"topology": {"variables": [{"name": "a", "value": {"b": [1]}}]}}}))
        assert not await does(world.patch(cluster, {"status": finished_status()}, "status"))
        assert await does(patched({"spec": {"topology": {"version": "v1.35.5"}}}))
        assert await does(patched({"spec": {"topology": {"classRef": {"name": "openstack-scs-1-35-v2"}}}}))
        assert await does(patched({"spec": {"topology": {"classRef": {"namespace": "other"}}}}))
        assert await does(annotated("openstack-scs-1-35-v3"))
        assert await idle(lambda: annotated("openstack-scs-1-35-v3"))
        assert await does(annotated("none"))
        assert await does(annotated(None))
        assert await does(world.patch(bare, {"spec": {"topology": {"classRef": {"name": OURS}, "version": "v1.35.4"}}}))
        assert not await does(world.patch(bare, {"spec": {"topology": None}}))
        assert not await does(world.delete(cluster))
        assert asked == ["CREATE", *["UPDATE"] * 10]
    await forget(world)


async def test_own_kinds_are_reviewed_when_their_spec_changes(world: World) -> None:
    recorder = Recorder()
    async with replica(world, recorder):
        await asked_about(world, recorder)
        stack = await world.create(world.stack.manifest(world.namespace, "v1"))
        await world.patch(stack, {"metadata": {"labels": {"a": "b"}}})
        await world.patch(stack, {"spec": {"versions": ["v2"]}})
        await world.patch(stack, {"status": {"latestRelease": "x"}}, "status")
        await world.delete(stack)

        asked = [(one.kind, one.operation.value) for one in recorder.asked]
        # The server repeats a question with a newer object where its cache is older than the object.
        assert [one for one, _ in itertools.groupby(asked)] == [
            ("ClusterStack", "CREATE"),
            ("ClusterStack", "UPDATE"),
            ("ClusterStack", "DELETE"),
        ]
        assert recorder.asked[0].new["metadata"]["uid"]
        assert recorder.asked[-1].old["spec"]["versions"] == ["v2"]
    await forget(world)


async def test_object_without_a_spec_can_be_deleted(world: World) -> None:
    addon = {
        "apiVersion": "clusterstack.x-k8s.io/v1alpha1",
        "kind": "ClusterAddon",
        "metadata": {"name": "bare", "namespace": world.namespace, "finalizers": ["example.org/held"]},
    }
    await world.create(addon)
    recorder = Recorder()
    async with replica(world, recorder):
        await asked_about(world, recorder)
        assert await refusal(world.patch(addon, {"metadata": {"finalizers": None}})) == ""
        assert {one.kind for one in recorder.asked} == {"ClusterAddon"}
        assert await refusal(world.delete(addon)) == ""
    await forget(world)


async def test_certificates_are_renewed_during_reviews(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(certificates, "RENEWAL", RENEWAL)
    recorder = Recorder(AdmissionResponse("as I was told"))
    async with replica(world, recorder, SHORT) as (server, _):
        await asked_about(world, recorder)
        seen = {(await secret(world))["data"]["tls.crt"]}
        answers: list[str] = []

        async def twice_renewed() -> bool:
            answers.extend(await asyncio.gather(*(try_addon(world) for _ in range(4))))
            seen.add((await secret(world))["data"]["tls.crt"])
            return len(seen) > 2

        first = await _served_at(server.port)
        await eventually(twice_renewed, about="two renewals")

        async def renewed_is_served() -> bool:
            answers.append(await try_addon(world))
            return await _served_at(server.port) != first

        await eventually(renewed_is_served, about="the use of another certificate")
        answers += [await try_addon(world)]

        assert len(answers) > 8
        assert {"as I was told" in one for one in answers} == {True}
    await forget(world)


async def test_replicas_share_one_certificate(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(certificates, "RENEWAL", RENEWAL)
    first, second = Recorder(), Recorder(AdmissionResponse("second"))
    async with replica(world, first, SHORT) as (_, url), replica(world, second, SHORT, url=url) as (other, _):
        await asked_about(world, first)
        before = await secret(world)

        async def renewed() -> bool:
            assert not await try_addon(world)
            return bool((await secret(world))["data"] != before["data"])

        await eventually(renewed, about="a renewal")
        monkeypatch.setattr(certificates, "RENEWAL", 0)  # no further one

        async def shared() -> bool:
            now = await secret(world)
            served = await asyncio.gather(*map(_served_at, (int(url.rpartition(":")[2]), other.port)))
            return served == [base64.b64decode(now["data"]["tls.crt"])] * 2

        await eventually(shared, about="the use of the new certificate by both")
        assert not second.asked
    # The replica the API server knew is gone; the other one takes over where a Service would send it.
    port = int(url.rpartition(":")[2])
    async with replica(world, second, SHORT, port=port):
        await eventually(_says(world, "second"), about="an answer of the other replica")
    await forget(world)


async def test_deleted_webhook_configuration_is_restored(world: World) -> None:
    recorder = Recorder(AdmissionResponse("no"))
    async with replica(world, recorder, SHORT):
        await asked_about(world, recorder)
        await forget(world)

        await eventually(_says(world, "no"), about="the configuration")
        resource = await world.client.resource("admissionregistration.k8s.io", "ValidatingWebhookConfiguration")
        found = await world.client.get(resource, WebhookScope(world.namespace).name)
        assert {one["failurePolicy"] for one in found["webhooks"] if one["name"].startswith("clusters.")} == {"Ignore"}
        assert {one["failurePolicy"] for one in found["webhooks"][:-1]} == {"Fail"}
    await forget(world)


async def test_without_a_webhook_server_clusters_are_accepted_and_own_kinds_are_rejected(world: World) -> None:
    recorder = Recorder()
    async with replica(world, recorder):
        await asked_about(world, recorder)

    assert await refusal(world.create(cluster_manifest(world.namespace, "one", OURS))) == ""
    assert "failed calling webhook" in await refusal(world.create(world.stack.manifest(world.namespace, "v1")))
    await forget(world)


async def test_disabled_webhooks_are_unregistered_unless_they_belong_to_another_installation(world: World) -> None:
    endpoint = Endpoint(service=ObjectKey(world.namespace, "removed"))
    authority = Authority.create("removed", timedelta(hours=1))
    await world.create(configuration(endpoint, WebhookScope(world.namespace), authority.certificate))
    stack = world.stack.manifest(world.namespace, "v1")
    await eventually(_says(world, "failed calling webhook"), about="the registration in force")

    async def accepted() -> bool:
        return not await refusal(world.create(stack))

    clock = OneLook()
    other = asyncio.create_task(unregister(world.client, WebhookScope(world.namespace).name, "default", clock))
    await clock.looked.wait()
    other.cancel()
    assert "failed calling webhook" in await refusal(world.create(stack))
    async with world.operator(operator_namespace=world.namespace):
        await eventually(accepted, about="the end of the registration")


def _says(world: World, words: str) -> Callable[[], Awaitable[bool]]:
    async def says() -> bool:
        return words in await try_addon(world)

    return says


async def _served_at(port: int) -> bytes:
    """The certificate that a server shows now."""

    text = await asyncio.to_thread(ssl.get_server_certificate, ("127.0.0.1", port))
    return text.encode()


@pytest.mark.regression("LIVE-LV-13")
async def test_live_lv_13_a_registration_is_written_only_when_it_differs(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    applied: list[str] = []
    listed: list[str] = []
    apply, list_ = Client.apply, Client.list

    async def counted_apply(self: Client, resource: Resource, manifest: Manifest, **how: Any) -> Manifest:
        applied.append(resource.kind)
        return await apply(self, resource, manifest, **how)

    async def counted_list(self: Client, resource: Resource, *where: Any, **how: Any) -> ObjectList:
        listed.append(resource.kind)
        return await list_(self, resource, *where, **how)

    monkeypatch.setattr(Client, "apply", counted_apply)
    monkeypatch.setattr(Client, "list", counted_list)

    async def is_read_again() -> bool:
        return listed.count(CONFIGURATION[1]) >= reads

    async def is_restored() -> bool:
        live = await world.client.get(resource, name)
        return all(one["failurePolicy"] == "Fail" for one in live["webhooks"] if one["name"] != patched)

    async with replica(world, Recorder(), Times(look=timedelta(seconds=0.1))):
        reads = 5
        await eventually(is_read_again, about="reads of the configuration")
        assert applied.count(CONFIGURATION[1]) == 1

        resource = await world.client.resource(*CONFIGURATION, "v1")
        name = configuration(Endpoint(url="https://x"), WebhookScope(world.namespace), b"CA")["metadata"]["name"]
        live = await world.client.get(resource, name)
        patched = next(one["name"] for one in live["webhooks"] if one["failurePolicy"] == "Ignore")
        changed = [{**one, "failurePolicy": "Ignore"} for one in live["webhooks"]]
        await world.client.merge_patch(resource, name, {"webhooks": changed})
        await eventually(is_restored, about="the configuration that another writer changed")
        await world.client.delete(resource, name)
        await eventually(partial(_exists, world, resource, name), about="the configuration that was deleted")
        reads = listed.count(CONFIGURATION[1]) + 5
        await eventually(is_read_again, about="reads of the configuration")
        assert applied.count(CONFIGURATION[1]) == 3
    await forget(world)


async def _exists(world: World, resource: Resource, name: str) -> bool:
    return await world.client.find(resource, name) is not None
