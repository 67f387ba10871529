"""Deletion of a release with its own objects only."""

from __future__ import annotations

from typing import Any

import pytest

from clusterstacks.deliver.apply.ownership import OWNED_LABEL, OWNED_VALUE
from clusterstacks.model.kinds.names import API_VERSION, GROUP, RELEASE_FINALIZER, Kind
from clusterstacks.model.objects import Manifest, ObjectKey
from clusterstacks.model.outcomes import Outcome, Settled, Waiting
from clusterstacks.net.kube.resources import Resource
from clusterstacks.operator.controllers.clusterstackrelease.deletion import delete_release
from clusterstacks.operator.controllers.status_reconciler import StatusPatch
from clusterstacks.runtime.events import EventRecorder
from tests.support.builders.class_access import class_access
from tests.support.fakes.api_server import FakeApi

RELEASES = Resource(GROUP, "v1alpha1", Kind.CLUSTER_STACK_RELEASE.value, "clusterstackreleases", namespaced=True)
CLUSTERS = Resource("cluster.x-k8s.io", "v1beta2", "Cluster", "clusters", namespaced=True)
CLASSES = Resource("cluster.x-k8s.io", "v1beta2", "ClusterClass", "clusterclasses", namespaced=True)
IMAGES = Resource("openstack.k-orc.cloud", "v1alpha1", "Image", "images", namespaced=True)
CONFIGS = Resource("", "v1", "ConfigMap", "configmaps", namespaced=True)
EVENTS = Resource("", "v1", "Event", "events", namespaced=True)
IMAGE = "ubuntu-v1.35.4"


def listed(resource: Resource, live: Manifest) -> Manifest:
    metadata = live["metadata"]
    return {
        "group": resource.group,
        "version": resource.version,
        "kind": resource.kind,
        **{key: metadata[key] for key in ("namespace", "name", "uid")},
        "status": "synced",
    }


class Namespace:
    """A namespace with releases of one image, each with a class of its own."""

    def __init__(self) -> None:
        self.api = FakeApi(RELEASES, CLUSTERS, CLASSES, IMAGES, CONFIGS, EVENTS)
        self.image: Manifest = {}

    async def add(self, resource: Resource, name: str, *, ours: bool = True, **parts: Any) -> Manifest:
        metadata = {"name": name, "generation": 1, **({"labels": {OWNED_LABEL: OWNED_VALUE}} if ours else {})}
        manifest = {"apiVersion": resource.api_version, "kind": resource.kind, "metadata": metadata, **parts}
        return await self.api.create(resource, manifest, "stacks")

    async def release(self, name: str, **metadata: Any) -> Manifest:
        self.image = self.image or await self.add(IMAGES, IMAGE)
        status = {"resources": [listed(CLASSES, await self.add(CLASSES, name)), listed(IMAGES, self.image)]}
        metadata = {"name": name, "finalizers": [RELEASE_FINALIZER], **metadata}
        manifest = {"apiVersion": API_VERSION, "kind": RELEASES.kind, "metadata": metadata, "status": status}
        return await self.api.create(RELEASES, manifest, "stacks")

    async def delete(self, release: Manifest) -> Outcome:
        access = class_access(self.api, releases=self.api.objects(RELEASES).values())
        return await delete_release(StatusPatch(release), self.api, access, EventRecorder(self.api, "test"))

    def told(self) -> str:
        """Return the messages of all events."""
        return " ".join(event["message"] for event in self.api.objects(EVENTS).values())

    def left(self, resource: Resource) -> set[str]:
        return {key.name for key in self.api.objects(resource)}


async def test_objects_shared_with_another_release_are_kept() -> None:
    space = Namespace()
    old = await space.release("openstack-scs-1-35-v1", deletionTimestamp="now")
    await space.release("openstack-scs-1-35-v2")

    assert await space.delete(old) == Settled()

    assert space.left(CLASSES) == {"openstack-scs-1-35-v2"}
    assert space.left(IMAGES) == {IMAGE}


@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
async def test_releases_deleted_together_leave_no_objects(order: tuple[int, int]) -> None:
    space = Namespace()
    both = [await space.release(f"openstack-scs-1-35-v{number}", deletionTimestamp="now") for number in (1, 2)]

    for one in order:
        await space.delete(both[one])

    assert not space.left(CLASSES)
    assert not space.left(IMAGES)


async def test_release_waiting_for_its_clusters_keeps_shared_objects() -> None:
    space = Namespace()
    used = await space.release("openstack-scs-1-35-v1", deletionTimestamp="now")
    spare = await space.release("openstack-scs-1-35-v2", deletionTimestamp="now")
    await space.add(CLUSTERS, "one", spec={"topology": {"classRef": {"name": "openstack-scs-1-35-v1"}}})

    assert isinstance(await space.delete(used), Waiting)
    await space.delete(spare)

    assert space.left(IMAGES) == {IMAGE}


def reconciled(generation: int = 1, status: str = "True") -> Manifest:
    condition = {"type": "TopologyReconciled", "status": status, "observedGeneration": generation}
    return {"conditions": [condition], "workers": {"replicas": 2, "upToDateReplicas": 2}}


OUTDATED = {"replicas": 3, "upToDateReplicas": 2}


@pytest.mark.parametrize(
    ("class_name", "status", "holds"),
    [
        ("openstack-scs-1-35-v2", reconciled(), False),
        ("openstack-scs-1-35-v2", {}, True),
        ("openstack-scs-1-35-v2", reconciled(status="False"), True),
        ("openstack-scs-1-35-v2", reconciled(generation=0), True),
        ("openstack-scs-1-35-v2", {**reconciled(), "workers": OUTDATED}, True),
        ("openstack-scs-1-36-v1", {**reconciled(), "controlPlane": OUTDATED}, True),
        ("openstack-other-1-35-v2", {**reconciled(), "workers": OUTDATED}, False),
        ("made-by-hand", {}, False),
    ],
)
async def test_release_with_images_is_kept_while_a_cluster_of_its_stack_replaces_machines(
    class_name: str, status: Manifest, *, holds: bool
) -> None:
    space = Namespace()
    left = await space.release("openstack-scs-1-35-v1", deletionTimestamp="now")
    await space.release(class_name)
    spec = {"topology": {"classRef": {"name": class_name}}}
    await space.add(CLUSTERS, "one", spec=spec, status=status)

    outcome = await space.delete(left)

    if holds:
        assert isinstance(outcome, Waiting)
        assert "Cluster stacks/one (which still replaces Machines)" in outcome.message
        left["status"]["resources"] = left["status"]["resources"][:1]
        assert await space.delete(left) == Settled(), "a release without images does not wait"
    else:
        assert outcome == Settled()


async def test_object_without_a_release_name_can_be_deleted() -> None:
    space = Namespace()
    odd = await space.release("made-by-hand", deletionTimestamp="now")

    await space.delete(odd)

    assert space.api.objects(RELEASES)[ObjectKey("stacks", "made-by-hand")]["metadata"]["finalizers"] == []


@pytest.mark.regression("SEC-7")
async def test_status_entry_alone_deletes_nothing() -> None:
    space = Namespace()
    release = await space.release("openstack-scs-1-35-v1", deletionTimestamp="now")
    by_hand = await space.add(CLASSES, "by-hand", ours=False)
    config = await space.add(CONFIGS, "config")
    elsewhere = await space.add(CLASSES, "elsewhere")
    no_name = {**listed(CLASSES, by_hand), "name": ""}
    release["status"]["resources"] += [
        listed(CLASSES, by_hand),
        listed(CONFIGS, config),
        {**listed(CLASSES, elsewhere), "namespace": "other"},
        {**listed(CLUSTERS, by_hand), "group": "unknown.example.org"},
        no_name,
    ]

    assert await space.delete(release) == Settled()

    assert space.left(CLASSES) == {"by-hand", "elsewhere"}
    assert space.left(CONFIGS) == {"config"}
    for words in (
        "by-hand: its metadata does not show",
        "ConfigMap stacks/config: its kind is not allowed",
        "namespace",
    ):
        assert words in space.told()


async def test_status_entry_without_namespace_is_in_the_namespace_of_the_release() -> None:
    space = Namespace()
    old = await space.release("openstack-scs-1-35-v1", deletionTimestamp="now")
    new = await space.release("openstack-scs-1-35-v2")
    for release in (old, new):
        for one in release["status"]["resources"]:
            del one["namespace"]
        name = release["metadata"]["name"]
        await space.api.merge_patch(RELEASES, name, {"status": release["status"]}, "stacks")
    old = await space.api.get(RELEASES, old["metadata"]["name"], "stacks")

    assert await space.delete(old) == Settled()

    assert space.left(CLASSES) == {"openstack-scs-1-35-v2"}
    assert space.left(IMAGES) == {IMAGE}
