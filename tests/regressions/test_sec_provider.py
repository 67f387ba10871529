"""Objects that tenants name in references and status are not read, watched or deleted."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from clusterstacks.deliver.apply.ownership import FIELD_MANAGER
from clusterstacks.model.kinds.names import CLUSTER_CLASS_KIND, PROVIDER_GROUP, RELEASE_FINALIZER, Kind
from clusterstacks.net.kube.errors import NotFound
from tests.support.builders.stacks import INFRASTRUCTURE
from tests.support.observing.request_recorder import record
from tests.support.running.admission import guarded, refusal
from tests.support.running.world import condition_of
from tests.support.servers.garbage_collector import garbage_collector

if TYPE_CHECKING:
    from pathlib import Path

    from clusterstacks.dev.apiserver import ApiServer
    from clusterstacks.model.objects import Manifest
    from tests.support.running.world import World

PROVIDER_READY = "ProviderClusterStackReleaseReady"
RELEASE_KIND = "TinyClusterStackRelease"
TEMPLATE_KIND = f"{RELEASE_KIND}Template"


def secret(name: str, namespace: str, **metadata: Any) -> Manifest:
    document = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name, "namespace": namespace, **metadata}}
    return {**document, "stringData": {"password": "none"}}


def reference(kind: str, name: str, namespace: str = "", api_version: str = f"{PROVIDER_GROUP}/v1") -> Manifest:
    found = {"apiVersion": api_version, "kind": kind, "name": name}
    return {**found, "namespace": namespace} if namespace else found


def release_manifest(world: World, provider: Manifest, **metadata: Any) -> Manifest:
    return {
        "apiVersion": "clusterstack.x-k8s.io/v1alpha1",
        "kind": Kind.CLUSTER_STACK_RELEASE,
        "metadata": {"name": world.stack.release("v1").release, "namespace": world.namespace, **metadata},
        "spec": {"providerRef": provider},
    }


def release_object(kind: str, name: str, namespace: str) -> Manifest:
    document = {"apiVersion": f"{PROVIDER_GROUP}/v1", "kind": kind}
    return {**document, "metadata": {"name": name, "namespace": namespace}, "spec": {}}


async def released(world: World, provider: Manifest) -> None:
    """A ClusterStackRelease that a tenant made by hand; it belongs to no ClusterStack."""
    world.publish(world.stack.release("v1"), world.stack.files("v1", {}))
    await world.create(release_manifest(world, provider))


async def collected(world: World) -> None:
    """Wait until the garbage collector took an object with the same mark as a foreign one would have: it works."""
    owner = {"apiVersion": "v1", "kind": "ConfigMap", "name": "never", "uid": "5f0e5d2e-0000-4000-8000-000000000000"}
    await world.create(secret("canary", world.namespace, ownerReferences=[owner]))
    await world.gone("Secret", "canary")


FOREIGN = {
    "a Secret of another namespace": ("Secret", "v1"),
    "a provider's object of another namespace": (RELEASE_KIND, f"{PROVIDER_GROUP}/v1"),
}


@pytest.mark.regression("SEC-4")
@pytest.mark.parametrize("case", FOREIGN)
async def test_foreign_object_is_not_deleted_by_the_garbage_collector(
    world: World, api_server: ApiServer, tmp_path: Path, case: str
) -> None:
    kind, api_version = FOREIGN[case]
    other = await world.other_namespace()
    victim = secret("victim", other) if kind == "Secret" else release_object(kind, "victim", other)
    await world.create(victim)
    async with world.operator() as operator:
        noted = record(operator)
        await released(world, reference(kind, "victim", other, api_version))
        found = await world.says(
            Kind.CLUSTER_STACK_RELEASE, world.stack.release("v1").release, PROVIDER_READY, "ProviderRefNotAllowed"
        )
        assert "spec.providerRef" in found["message"]
        assert not [one for one in noted if one.resource == "secrets"]
        with garbage_collector(api_server, tmp_path):
            await collected(world)

    group = "" if kind == "Secret" else PROVIDER_GROUP
    left = await world.find(kind, "victim", other, group=group)
    assert left is not None
    assert "ownerReferences" not in left["metadata"]


@pytest.mark.regression("SEC-4")
async def test_secret_as_provider_object_starts_no_informer(world: World) -> None:
    await world.create(secret("mine", world.namespace))
    async with world.operator() as operator:
        noted = record(operator)
        await released(world, reference("Secret", "mine", api_version="v1"))
        found = await world.says(
            Kind.CLUSTER_STACK_RELEASE, world.stack.release("v1").release, PROVIDER_READY, "ProviderRefNotAllowed"
        )

        assert "kind Secret of the core group" in found["message"]
        assert not [one for one in noted if one.resource == "secrets"]


@pytest.mark.regression("SEC-4")
async def test_template_of_another_namespace_is_not_copied(world: World) -> None:
    name = world.stack.release("v1")
    other = await world.other_namespace()
    world.publish(name, world.stack.files("v1", {}))
    template = release_object(TEMPLATE_KIND, "theirs", other)
    template["spec"] = {"template": {"spec": {"password": "theirs"}}}
    await world.create(template)
    async with world.operator():
        await world.create(
            world.stack.manifest(
                world.namespace, "v1", noProvider=False, providerRef=reference(TEMPLATE_KIND, "theirs", other)
            )
        )
        found = await world.says(
            Kind.CLUSTER_STACK, world.namespace, "ProviderClusterStackReleasesSynced", "ProviderRefNotAllowed"
        )

        assert f"spec.providerRef.namespace is {other}" in found["message"]
        assert await world.find(RELEASE_KIND, name.release, group=PROVIDER_GROUP) is None


REFUSED: dict[str, tuple[Manifest, str]] = {
    "another namespace": (reference(RELEASE_KIND, "a", "elsewhere"), "spec.providerRef.namespace"),
    "a Secret": (reference("Secret", "a", api_version="v1"), "kind Secret of the core group"),
    "a ClusterClass": (reference("ClusterClass", "a", api_version="cluster.x-k8s.io/v1beta2"), "--provider-kinds"),
    "a template": (reference(TEMPLATE_KIND, "a"), "ends in Template"),
}


@pytest.mark.regression("SEC-4")
async def test_invalid_provider_references_are_denied_at_admission(world: World) -> None:
    before = await world.create(release_manifest(world, REFUSED["another namespace"][0]))
    async with guarded(world):
        for wrong, words in REFUSED.values():
            again = release_manifest(world, wrong)
            again["metadata"]["name"] = world.stack.release("v2").release
            assert words in await refusal(world.create(again))
        right = release_manifest(world, reference(RELEASE_KIND, "a", world.namespace))
        right["metadata"]["name"] = world.stack.release("v2").release
        made = await world.create(right)
        for wrong, words in REFUSED.values():
            assert words in await refusal(world.patch(made, {"spec": {"providerRef": wrong}}))
        assert not await refusal(world.patch(made, {"spec": {"providerRef": reference(RELEASE_KIND, "b")}}))
        assert not await refusal(world.patch(before, {"metadata": {"labels": {"a": "b"}, "finalizers": []}}))
        assert not await refusal(world.delete(before))

        wrong = reference(TEMPLATE_KIND, "a", "elsewhere")
        stack = world.stack.manifest(world.namespace, noProvider=False, providerRef=wrong)
        assert "spec.providerRef.namespace" in await refusal(world.create(stack))
        stack["spec"]["noProvider"] = True
        made = await world.create(stack)
        assert "spec.providerRef.namespace" in await refusal(world.patch(made, {"spec": {"noProvider": False}}))


async def forged(world: World, *entries: Manifest, **metadata: Any) -> Manifest:
    """A ClusterStackRelease whose status was written by a tenant."""
    manifest = {
        "apiVersion": "clusterstack.x-k8s.io/v1alpha1",
        "kind": Kind.CLUSTER_STACK_RELEASE,
        "metadata": {
            "name": world.stack.release("v1").release,
            "namespace": world.namespace,
            "finalizers": [RELEASE_FINALIZER],
            **metadata,
        },
        "spec": {},
    }
    return await world.patch(await world.create(manifest), {"status": {"resources": [*entries]}}, "status")


def entry(live: Manifest, **other: str) -> Manifest:
    group, _, version = live["apiVersion"].rpartition("/")
    metadata = live["metadata"]
    found = {"group": group, "version": version, "kind": live["kind"], "name": metadata["name"], "status": "synced"}
    return {**found, "namespace": metadata.get("namespace", ""), "uid": metadata["uid"], **other}


@pytest.mark.regression("SEC-7")
async def test_forged_status_entry_deletes_nothing_and_the_release_is_deleted(world: World) -> None:
    other = await world.other_namespace()
    config = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "victim", "namespace": other}}
    of_core = await world.create(config)
    of_others = await world.create(object_of(world, "victim", other))
    not_ours = await world.create(object_of(world, "by-hand", world.namespace))
    odd = {**entry(not_ours), "name": "../secrets/x"}
    release = await forged(world, entry(of_core), entry(of_others), entry(not_ours), odd)
    async with world.operator():
        await world.delete(release)
        await world.gone(Kind.CLUSTER_STACK_RELEASE, release["metadata"]["name"])
        events = await world.events(release)

    assert await world.find("ConfigMap", "victim", other) is not None
    for name, namespace in (("victim", other), ("by-hand", world.namespace)):
        found = await world.find("TinyClusterTemplate", name, namespace, group=INFRASTRUCTURE.partition("/")[0])
        assert found is not None
    told = " ".join(one["message"] for one in events)
    for words in (f"ConfigMap {other}/victim", f"{other}/victim", "by-hand", "../secrets/x"):
        assert words in told


@pytest.mark.regression("SEC-7")
async def test_objects_owned_by_their_metadata_are_deleted(world: World) -> None:
    resource = await world.client.resource("cluster.x-k8s.io", CLUSTER_CLASS_KIND)
    class_ = world.stack.cluster_class("v1")
    class_["metadata"] |= {"namespace": world.namespace, "labels": {"clusterstack.x-k8s.io/instance": "owned"}}
    live = await world.client.apply(resource, class_, manager=FIELD_MANAGER, force=True)
    release = await forged(world, entry(live))
    async with world.operator():
        await world.delete(release)
        await world.gone(Kind.CLUSTER_STACK_RELEASE, release["metadata"]["name"])

    with pytest.raises(NotFound):
        await world.client.get(resource, class_["metadata"]["name"], world.namespace)


def object_of(world: World, name: str, namespace: str) -> Manifest:
    template = world.stack.object("v1")
    return {**template, "metadata": {"name": name, "namespace": namespace}}


MANY = 1000


@pytest.mark.regression("SEC-19")
async def test_thousand_failing_objects_are_reported(world: World) -> None:
    """The API server answers each with more than 2 KB: together more than etcd takes."""
    name = world.stack.release("v1")
    labels = {f"{number}{'-' * 200}": "x" for number in range(12)}
    chart = f"""{{{{- range untilStep 0 {MANY} 1 }}}}
---
apiVersion: {INFRASTRUCTURE}
kind: TinyClusterTemplate
metadata: {{name: "bad-{{{{ . }}}}", labels: {labels}}}
spec: {{template: {{spec: {{size: 1}}}}}}
{{{{- end }}}}
"""
    files = world.stack.files("v1", {}, class_files={"templates/many.yaml": chart})
    world.publish(name, files)
    async with world.operator():
        await world.create(world.stack.manifest(world.namespace, "v1"))
        release = await world.until(
            Kind.CLUSTER_STACK_RELEASE,
            name.release,
            lambda one: condition_of(one, "HelmChartApplied").get("status") == "False",
            seconds=250,
        )

    resources = release["status"]["resources"]
    assert len(resources) == MANY + 2
    assert sum(one["status"] == "not-synced" for one in resources) == MANY
    told = condition_of(release, "HelmChartApplied")["message"]
    assert f"{MANY} of {MANY + 2} objects not applied" in told
    assert f"and {MANY - 3} more" in told
