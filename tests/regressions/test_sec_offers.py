"""``spec.clusterNamespaces`` and required signatures hold for any Cluster and ClusterAddon."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest

from clusterstacks.model.kinds.clusteraddon import addon_name
from clusterstacks.model.kinds.names import API_VERSION, CLUSTER_KIND, Kind
from clusterstacks.operator.controllers import addon_sweep
from tests.support.builders.signatures import ecdsa_key, public_pem
from tests.support.builders.stacks import TinyStack, config_map, templates
from tests.support.observing.write_counter import writes
from tests.support.running.admission import guarded, refusal
from tests.support.running.world import accept_classes, cluster_manifest, condition_of, idle, is_ready, is_unready
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from clusterstacks.model.names import ReleaseName
    from clusterstacks.model.objects import Manifest
    from tests.support.running.world import World

READY = "ClusterStackAddonsReady"
SAME = {"from": "Same"}


async def offered(world: World, namespace: str = "", **spec: Any) -> tuple[ReleaseName, Manifest]:
    """A ClusterStack with one ready release, which delivers one ConfigMap."""
    name = world.stack.release("v1")
    world.publish(name, world.stack.files("v1", {"cni": templates(config_map(world.stack.word, a="1"))}))
    stack = await world.create(world.stack.manifest(namespace or world.namespace, "v1", **spec))
    await world.until(Kind.CLUSTER_STACK_RELEASE, name.release, is_ready, namespace=namespace or world.namespace)
    return name, stack


@asynccontextmanager
async def accepted_in(world: World, namespace: str) -> AsyncIterator[None]:
    """Accept the classes of another namespace, as those of the test's own are."""
    task = asyncio.create_task(accept_classes(replace(world, namespace=namespace)))
    try:
        yield
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


def by_hand(namespace: str, cluster: str, name: str = "", **spec: Any) -> Manifest:
    reference = {"apiVersion": "cluster.x-k8s.io/v1beta1", "kind": "Cluster", "name": cluster, "namespace": namespace}
    return {
        "apiVersion": API_VERSION,
        "kind": Kind.CLUSTER_ADDON,
        "metadata": {"name": name or addon_name(cluster), "namespace": namespace},
        "spec": {"clusterRef": reference, **spec},
    }


def class_ref(name: ReleaseName, namespace: str) -> dict[str, str]:
    return {"name": name.class_name, "namespace": namespace}


@pytest.mark.regression("SEC-5")
async def test_a_cluster_of_an_excluded_namespace_is_denied_at_admission(world: World) -> None:
    tenant = await world.other_namespace()
    async with guarded(world, namespace=""):
        name, stack = await offered(world, clusterNamespaces=SAME)
        manifest = cluster_manifest(tenant, "one", name.class_name, classRef=class_ref(name, world.namespace))

        told = await refusal(world.create(manifest))

        assert f"class {world.namespace}/{name.class_name} is not offered to namespace {tenant}" in told
        assert "spec.clusterNamespaces of its ClusterStack does not include it" in told
        assert f"{world.namespace}/{world.stack.word}" not in told
        foreign = cluster_manifest(tenant, "one", "quick-start")
        assert await refusal(world.create(foreign)) == ""
        topology = {"topology": manifest["spec"]["topology"]}
        assert "is not offered" in await refusal(world.patch(foreign, {"spec": topology}))
        # Its own namespace is always among them, and an edit that moves nothing is not asked about.
        assert await refusal(world.create(cluster_manifest(world.namespace, "two", name.class_name))) == ""
        await world.patch(stack, {"spec": {"clusterNamespaces": None}})

        async def admitted() -> bool:
            return await refusal(world.patch(foreign, {"spec": topology})) == ""

        await eventually(admitted, about="the offer")


@pytest.mark.regression("SEC-5")
async def test_a_namespace_labels_select_allowed_namespaces(world: World) -> None:
    team = {"team": world.namespace}
    friends, others = await world.other_namespace(team), await world.other_namespace()
    async with guarded(world, namespace=""):
        name, _ = await offered(world, clusterNamespaces={"from": "Selector", "selector": {"matchLabels": team}})
        reference = class_ref(name, world.namespace)

        def attempt(namespace: str) -> Any:
            return world.create(cluster_manifest(namespace, "one", name.class_name, classRef=reference))

        assert "is not offered" in await refusal(attempt(others))
        assert await refusal(attempt(friends)) == ""


@pytest.mark.regression("SEC-5")
async def test_b_manually_created_cluster_addon_delivers_no_unavailable_release(world: World) -> None:
    tenant = await world.other_namespace()
    async with world.operator(namespace=""):
        name, stack = await offered(world, clusterNamespaces=SAME)
        reference = class_ref(name, world.namespace)
        await world.create(by_hand(tenant, "one", clusterStack=name.class_name, version="v1"))
        await world.create(by_hand(tenant, "one", "another", clusterStack=name.class_name, version="v1"))
        await world.cluster("one", name.class_name, namespace=tenant, classRef=reference)

        await world.says(Kind.CLUSTER_ADDON, addon_name("one"), "ClusterReady", "ClassNotOffered", namespace=tenant)
        found = await world.says(Kind.CLUSTER_ADDON, "another", "Ready", "NameNotCanonical", namespace=tenant)
        assert f"ClusterAddon {tenant}/{addon_name('one')}" in found["message"]
        assert is_unready(await world.get(Kind.CLUSTER_ADDON, "another", tenant))
        await world.says(CLUSTER_KIND, "one", READY, "ClassNotOffered", namespace=tenant)
        assert await world.delivered(world.stack.word) is None

        await world.patch(stack, {"spec": {"clusterNamespaces": None}})
        await world.addons_ready("one", name.class_name, tenant)
        assert is_unready(await world.get(Kind.CLUSTER_ADDON, "another", tenant))
        # It goes without taking anything of the one that counts along.
        await world.delete(await world.get(Kind.CLUSTER_ADDON, "another", tenant))
        await world.gone(Kind.CLUSTER_ADDON, "another", tenant)
        await world.until(
            CLUSTER_KIND, "one", lambda one: condition_of(one, READY).get("status") == "True", namespace=tenant
        )


@pytest.mark.regression("SEC-5")
async def test_b_only_the_canonical_name_is_allowed(world: World) -> None:
    async with guarded(world):
        told = await refusal(world.create(by_hand(world.namespace, "one", "another")))

        assert "metadata.name must be cluster-addon-one" in told
        assert await refusal(world.create(by_hand(world.namespace, "one", clusterStack="local-x-1-35-v1"))) == ""


@pytest.mark.regression("SEC-5")
async def test_c_same_class_name_of_another_namespace_is_a_different_class(world: World) -> None:
    public, tenant = await world.other_namespace(), await world.other_namespace()
    async with accepted_in(world, public), world.operator(namespace=""):
        name, _ = await offered(world, clusterNamespaces=SAME)
        await offered(world, public)
        await world.cluster("one", name.class_name, namespace=tenant, classRef=class_ref(name, public))
        addon = await world.addons_ready("one", name.class_name, tenant)
        assert addon["status"]["admitted"]["classNamespace"] == public

        cluster = await world.get(CLUSTER_KIND, "one", tenant)
        await world.patch(cluster, {"spec": {"topology": {"classRef": class_ref(name, world.namespace)}}})

        await world.says(CLUSTER_KIND, "one", READY, "ClassNotOffered", namespace=tenant)
        await world.says(Kind.CLUSTER_ADDON, addon_name("one"), "ClusterReady", "ClassNotOffered", namespace=tenant)
        await world.shows(world.stack.word, {"a": "1"})
        await world.patch(cluster, {"spec": {"topology": {"classRef": class_ref(name, public)}}})
        await world.addons_ready("one", name.class_name, tenant)


@pytest.mark.regression("SEC-5")
async def test_c_move_to_the_same_class_name_of_another_namespace_is_denied(world: World) -> None:
    public, tenant = await world.other_namespace(), await world.other_namespace()
    async with accepted_in(world, public), guarded(world, namespace=""):
        name, _ = await offered(world, clusterNamespaces=SAME)
        await offered(world, public)
        cluster = await world.cluster("one", name.class_name, namespace=tenant, classRef=class_ref(name, public))

        reference = {"classRef": class_ref(name, world.namespace)}
        told = await refusal(world.patch(cluster, {"spec": {"topology": reference}}))

        assert f"class {world.namespace}/{name.class_name} is not offered to namespace {tenant}" in told


@pytest.mark.regression("SEC-5")
async def test_required_signature_is_verified_for_every_cluster_addon(world: World) -> None:
    async with world.operator():
        name, stack = await offered(world)
        keys = [{"publicKey": public_pem(ecdsa_key()).decode()}]
        source = {"directory": {}, "interval": "1s", "verification": {"keys": keys}}
        await world.patch(stack, {"spec": {"source": source}})
        await world.until(Kind.CLUSTER_STACK_RELEASE, name.release, is_unready)

        await world.create(by_hand(world.namespace, "one", clusterStack=name.class_name, version="v1"))
        await world.cluster("one", name.class_name)

        await world.says(Kind.CLUSTER_ADDON, addon_name("one"), "HelmChartFound", words=["not signed"])
        assert await world.delivered(world.stack.word) is None


@pytest.mark.regression("SEC-5")
async def test_allowed_release_stays_allowed_and_is_recorded_in_status(world: World) -> None:
    tenant = await world.other_namespace()
    async with world.operator(namespace="") as operator:
        name, stack = await offered(world)
        await world.cluster("one", name.class_name, namespace=tenant, classRef=class_ref(name, world.namespace))
        await world.addons_ready("one", name.class_name, tenant)
        await world.patch(stack, {"spec": {"clusterNamespaces": SAME}})
        await idle(operator)

        addon = await world.addon("one", tenant)
        assert is_ready(addon)
        # With an empty status, as after a backup, the offer decides anew: what is delivered stays.
        await world.patch(addon, {"status": {"admitted": None}}, "status")
        await world.nudge(addon)
        await world.says(CLUSTER_KIND, "one", READY, "ClassNotOffered", namespace=tenant)
        await world.shows(world.stack.word, {"a": "1"})


@pytest.mark.regression("SEC-5")
async def test_operator_upgrade_writes_nothing_to_a_workload_cluster(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A ClusterAddon of 77d5f50 has no ``status.admitted``: it costs one write of its status, and no other."""
    monkeypatch.setattr(addon_sweep, "INTERVAL", timedelta(days=1))  # the sweeps read the workload cluster
    async with world.operator(drift_interval=None) as operator:
        name, _ = await offered(world)
        await world.cluster("one", name.class_name)
        await world.addons_ready("one", name.class_name)
        await idle(operator)
    before = await world.addon("one")
    await world.patch(before, {"status": {"admitted": None}}, "status")
    management, workload = await writes(world.client), await writes(world.workload)
    async with world.operator(drift_interval=None) as operator:
        await idle(operator)
        assert not operator._workloads._connected, "it was not even asked"
    assert await writes(world.workload) == workload
    assert await writes(world.client) - management == {"PATCH clusteraddons/status": 1}
    addon = await world.addon("one")
    assert addon["status"]["admitted"]["class"] == name.class_name
    assert {**addon["status"], "admitted": None} == {**before["status"], "admitted": None}


@pytest.mark.regression("SEC-5")
async def test_server_that_prunes_status_fields_is_not_written_to_in_a_loop(world: World) -> None:
    """The Go operator's CRDs prune what they do not know."""
    crds = await world.client.resource("apiextensions.k8s.io", "CustomResourceDefinition")
    whole = await world.client.get(crds, "clusteraddons.clusterstack.x-k8s.io")
    fields = ("spec", "versions", 0, "schema", "openAPIV3Schema", "properties", "status", "properties", "admitted")
    path = "".join(f"/{one}" for one in fields)
    admitted: Any = whole
    for field in fields:
        admitted = admitted[field]
    probe = await world.create(by_hand(world.namespace, "probe"))

    async def keeps() -> bool:
        patch = {"status": {"admitted": {"class": "x"}}}
        addons = await world.client.resource("clusterstack.x-k8s.io", Kind.CLUSTER_ADDON)
        name, namespace = probe["metadata"]["name"], world.namespace
        kept = await world.client.merge_patch(addons, name, patch, namespace, subresource="status", dry_run=True)
        return "admitted" in (kept.get("status") or {})

    async def prunes() -> bool:
        return not await keeps()

    await world.client.json_patch(crds, whole["metadata"]["name"], [{"op": "remove", "path": path}])
    try:
        await eventually(prunes, about="the other schema")
        async with world.operator() as operator:
            name, _ = await offered(world)
            await world.cluster("one", name.class_name)
            addon = await world.addons_ready("one", name.class_name)
            await idle(operator)
            await world.look_again(operator, "clusteraddon", addon)
            await idle(operator)
            before, requests = await writes(world.client), await writes(world.workload)
            for _ in range(3):
                await world.look_again(operator, "clusteraddon", addon)
            await idle(operator)
            after = await world.addon("one")
            assert "admitted" not in after["status"]
            assert is_ready(after)
            # The nudges of the test are all there was.
            assert await writes(world.client) - before == {"PATCH clusteraddons/": 3}
            assert await writes(world.workload) == requests
    finally:
        await world.client.json_patch(crds, whole["metadata"]["name"], [{"op": "add", "path": path, "value": admitted}])
        await eventually(keeps, about="the whole schema")


@pytest.mark.regression("SEC-5")
async def test_backup_and_objects_of_the_go_operator_are_accepted_without_a_second_delivery(
    world: World,
) -> None:
    async with guarded(world) as operator:
        name, _ = await offered(world)
        cluster = await world.cluster("one", name.class_name)
        addon = await world.addons_ready("one", name.class_name)
        await idle(operator)
        old = (await world.delivered(world.stack.word) or {})["metadata"]
        workload = await writes(world.workload)
        backup = {key: without_server_fields(one) for key, one in {"cluster": cluster, "addon": addon}.items()}
        assert backup["addon"]["spec"]["clusterStack"] == name.class_name
        # Moved or restored: paused while the objects are copied, other uids, no status.
        await world.patch(cluster, {"spec": {"paused": True}})
        await world.patch(addon, {"metadata": {"finalizers": None}, "spec": {"paused": True}})
        for manifest in (cluster, addon):
            await world.patch(manifest, {"metadata": {"annotations": {"cluster.x-k8s.io/paused": ""}}})
            await world.delete(manifest)
        await world.gone(CLUSTER_KIND, "one")
        await world.gone(Kind.CLUSTER_ADDON, addon_name("one"))
        restored = await world.create(backup["addon"])
        cluster = await world.create(backup["cluster"])
        await world.finish(cluster)

        again = await world.addons_ready("one", name.class_name)
        await idle(operator)
        assert restored["metadata"]["uid"] == again["metadata"]["uid"] != addon["metadata"]["uid"]
        assert again["status"]["admitted"]["class"] == name.class_name
        assert (await world.delivered(world.stack.word) or {})["metadata"] == old
        assert await writes(world.workload) == workload


def without_server_fields(manifest: Manifest) -> Manifest:
    """An object as backup tools write it anew."""
    kept = {key: manifest["metadata"][key] for key in ("name", "namespace", "labels") if key in manifest["metadata"]}
    return {**{key: manifest[key] for key in ("apiVersion", "kind", "spec")}, "metadata": kept}


@pytest.mark.regression("LIVE-M5")
async def test_cluster_without_access_to_its_class_has_a_condition(world: World) -> None:
    tenant = await world.other_namespace()
    async with world.operator(namespace=""):
        name, stack = await offered(world, clusterNamespaces=SAME)
        reference = class_ref(name, world.namespace)
        cluster = await world.cluster("one", name.class_name, namespace=tenant, classRef=reference)

        words = ["is not offered to namespace", "spec.clusterNamespaces of its ClusterStack"]
        found = await world.says(CLUSTER_KIND, "one", READY, "ClassNotOffered", words=words, namespace=tenant)
        assert found["observedGeneration"] == cluster["metadata"]["generation"]
        assert await world.find(Kind.CLUSTER_ADDON, addon_name("one"), tenant) is None

        await world.patch(stack, {"spec": {"clusterNamespaces": None}})
        await world.addons_ready("one", name.class_name, tenant)
        cluster = await world.until(
            CLUSTER_KIND, "one", lambda one: condition_of(one, READY).get("status") == "True", namespace=tenant
        )
        assert condition_of(cluster, "TopologyReconciled")["status"] == "True"


@pytest.mark.regression("LIVE-M5")
async def test_class_access_condition_is_removed_with_the_class(world: World) -> None:
    tenant = await world.other_namespace()
    async with world.operator(namespace=""):
        name, _ = await offered(world, clusterNamespaces=SAME)
        reference = class_ref(name, world.namespace)
        cluster = await world.cluster("one", name.class_name, namespace=tenant, classRef=reference)
        await world.says(CLUSTER_KIND, "one", READY, "ClassNotOffered", namespace=tenant)

        foreign = {"classRef": {"name": "quick-start", "namespace": None}}
        await world.patch(cluster, {"spec": {"topology": foreign}})

        await world.until(CLUSTER_KIND, "one", lambda one: not condition_of(one, READY), namespace=tenant)


@pytest.mark.regression("SEC-21")
async def test_cluster_addon_is_deleted_although_its_cluster_is_unreadable(world: World) -> None:
    async with world.operator():
        name, _ = await offered(world)
        cluster = await world.cluster("one", name.class_name)
        addon = await world.addons_ready("one", name.class_name)
        broken = {"controlPlaneRef": {"apiVersion": "v1", "kind": "Secret", "name": "///"}}
        await world.patch(cluster, {"spec": {**broken, "topology": {"version": "latest"}}})

        await world.delete(addon)

        await world.gone(Kind.CLUSTER_ADDON, addon_name("one"), uid=addon["metadata"]["uid"])


@pytest.mark.regression("SEC-22")
async def test_too_many_referenced_releases_are_a_condition(world: World) -> None:
    async with world.operator():
        name, _ = await offered(world)
        cluster = await world.cluster("one", name.class_name)
        await world.addons_ready("one", name.class_name)
        stack = TinyStack(world.stack.word)
        many = {f"clusterstack.x-k8s.io/addon.a{at}": stack.release(f"v{at}").release for at in range(100, 140)}

        await world.patch(cluster, {"metadata": {"annotations": many}})

        await world.says(Kind.CLUSTER_ADDON, addon_name("one"), "HelmChartFound", words=["at most 32 releases"])
