"""What the API server asks about, and by which certificates it does."""

from __future__ import annotations

import asyncio
import base64
import ssl
from datetime import timedelta
from typing import TYPE_CHECKING

from clusterstacks.kube.pki import single_certificates
from clusterstacks.webhooks.answers import AdmissionResponse
from clusterstacks.webhooks.certificates import SECRET_NAME, Times
from clusterstacks.webhooks.configuration import WebhookScope
from tests.support.running.admission import Recorder, asked_about, forget, refusal, replica
from tests.support.running.world import cluster_manifest, finished_status
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from clusterstacks.domain.objects import Manifest
    from tests.support.running.world import World

SHORT = Times(lifetime=timedelta(seconds=6), look=timedelta(seconds=0.4), settle=timedelta(seconds=0.8))
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


async def test_only_what_may_matter_is_asked_about(world: World) -> None:
    recorder = Recorder()
    asked: list[str] = []

    async def does(write: Awaitable[object]) -> bool:
        """Whether the API server asks about a write."""
        await write
        mine = [one for one in recorder.asked if one.kind == "Cluster"]
        asked.extend({one.operation for one in mine})  # one that it repeats with a newer object counts once
        recorder.asked.clear()
        return bool(mine)

    async def idle(write: Callable[[], Awaitable[object]]) -> bool:
        """Whether a write that changes nothing is not asked about; right after a change the server's cache is older."""

        async def look() -> bool:
            await write()
            mine = [one for one in recorder.asked if one.kind == "Cluster"]
            recorder.asked.clear()
            return not mine

        return await eventually(look, seconds=10, about="a write without a question")

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


async def test_our_kinds_are_asked_about_when_their_spec_changes(world: World) -> None:
    recorder = Recorder()
    async with replica(world, recorder):
        await asked_about(world, recorder)
        stack = await world.create(world.stack.manifest(world.namespace, "v1"))
        await world.patch(stack, {"metadata": {"labels": {"a": "b"}}})
        await world.patch(stack, {"spec": {"versions": ["v2"]}})
        await world.patch(stack, {"status": {"latestRelease": "x"}}, "status")
        await world.delete(stack)

        assert [(one.kind, one.operation.value) for one in recorder.asked] == [
            ("ClusterStack", "CREATE"),
            ("ClusterStack", "UPDATE"),
            ("ClusterStack", "DELETE"),
        ]
        assert recorder.asked[0].new["metadata"]["uid"]
        assert recorder.asked[2].old["spec"]["versions"] == ["v2"]
    await forget(world)


async def test_an_object_without_a_spec_can_be_let_go(world: World) -> None:
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
        assert [one.kind for one in recorder.asked] == ["ClusterAddon"]
        assert await refusal(world.delete(addon)) == ""
    await forget(world)


async def test_certificates_are_renewed_while_questions_go_on(world: World) -> None:
    recorder = Recorder(AdmissionResponse("as I was told"))
    async with replica(world, recorder, SHORT):
        await asked_about(world, recorder)
        seen = {(await secret(world))["data"]["tls.crt"]}
        answers: list[str] = []

        async def twice_renewed() -> bool:
            answers.extend(await asyncio.gather(*(try_addon(world) for _ in range(4))))
            seen.add((await secret(world))["data"]["tls.crt"])
            return len(seen) > 2

        await eventually(twice_renewed, seconds=30, about="two renewals")
        await asyncio.sleep(SHORT.settle.total_seconds() * 2)
        answers += [await try_addon(world)]

        assert len(answers) > 20
        assert {"as I was told" in one for one in answers} == {True}
        kept = single_certificates(base64.b64decode((await secret(world))["data"]["ca.crt"]))
        assert len(kept) <= 3
    await forget(world)


async def test_replicas_share_one_certificate(world: World) -> None:
    first, second = Recorder(), Recorder(AdmissionResponse("second"))
    async with replica(world, first, SHORT) as (_, url), replica(world, second, SHORT, url=url) as (other, _):
        await asked_about(world, first)
        before = await secret(world)

        async def renewed() -> bool:
            assert not await try_addon(world)
            return bool((await secret(world))["data"] != before["data"])

        await eventually(renewed, seconds=30, about="a renewal")
        await asyncio.sleep(SHORT.settle.total_seconds() * 3)
        now = await secret(world)
        served = await asyncio.gather(*map(_served_at, (int(url.rpartition(":")[2]), other.port)))

        assert served == [base64.b64decode(now["data"]["tls.crt"])] * 2
        assert not second.asked
    # The replica the API server knew is gone; the other one takes over where a Service would send it.
    port = int(url.rpartition(":")[2])
    async with replica(world, second, SHORT, port=port):
        await eventually(_says(world, "second"), seconds=10, about="an answer of the other replica")
    await forget(world)


async def test_a_configuration_somebody_removes_comes_back(world: World) -> None:
    recorder = Recorder(AdmissionResponse("no"))
    async with replica(world, recorder, SHORT):
        await asked_about(world, recorder)
        await forget(world)

        await eventually(_says(world, "no"), seconds=10, about="the configuration")
        resource = await world.client.resource("admissionregistration.k8s.io", "ValidatingWebhookConfiguration")
        found = await world.client.get(resource, WebhookScope(world.namespace).name)
        assert {one["failurePolicy"] for one in found["webhooks"] if one["name"].startswith("clusters.")} == {"Ignore"}
        assert {one["failurePolicy"] for one in found["webhooks"][:-1]} == {"Fail"}
    await forget(world)


async def test_without_anybody_who_answers_clusters_are_written_and_our_kinds_are_not(world: World) -> None:
    recorder = Recorder()
    async with replica(world, recorder):
        await asked_about(world, recorder)

    assert await refusal(world.create(cluster_manifest(world.namespace, "one", OURS))) == ""
    assert "failed calling webhook" in await refusal(world.create(world.stack.manifest(world.namespace, "v1")))
    await forget(world)


def _says(world: World, words: str) -> Callable[[], Awaitable[bool]]:
    async def says() -> bool:
        return words in await try_addon(world)

    return says


async def _served_at(port: int) -> bytes:
    """The certificate that a server shows now."""

    text = await asyncio.to_thread(ssl.get_server_certificate, ("127.0.0.1", port))
    return text.encode()
