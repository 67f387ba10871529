"""ClusterStackReleases of one or two ClusterStacks."""

from __future__ import annotations

import logging
from typing import Any

import pytest

from clusterstacks.model.kinds.clusterstack import ClusterStack
from clusterstacks.model.kinds.meta import ObjectReference
from clusterstacks.model.kinds.names import API_VERSION, GROUP, PAUSED_ANNOTATION, Kind
from clusterstacks.model.names import parse_release
from clusterstacks.model.objects import Manifest, ObjectKey
from clusterstacks.net.kube.resources import Resource
from clusterstacks.operator.controllers.clusterstack.owned_releases import OwnedReleases
from clusterstacks.operator.controllers.clusterstack.retention import ReleaseAction, Retained
from clusterstacks.release.sources.owners import STACK_INDEX, stacks_owning
from clusterstacks.runtime.cache import key_of
from clusterstacks.runtime.events import EventRecorder
from clusterstacks.runtime.informer import Informer
from tests.support.fakes.api_server import FakeApi

RELEASES = Resource(GROUP, "v1alpha1", Kind.CLUSTER_STACK_RELEASE.value, "clusterstackreleases", namespaced=True)
CLUSTERS = Resource("cluster.x-k8s.io", "v1beta2", "Cluster", "clusters", namespaced=True)
CLASSES = Resource("cluster.x-k8s.io", "v1beta2", "ClusterClass", "clusterclasses", namespaced=True)
EVENTS = Resource("", "v1", "Event", "events", namespaced=True)
NAME = "openstack-scs-1-35-v1"
WANTED = Retained(NAME, parse_release(NAME), ReleaseAction.KEEP, ("wanted in spec",))
SPARE = Retained(NAME, parse_release(NAME), ReleaseAction.DELETE, ("no longer needed",))
PROVIDER = ObjectReference(api_version="infra/v1", kind="Images", name=NAME, namespace="stacks")


def stack(name: str) -> Manifest:
    return {
        "apiVersion": API_VERSION,
        "kind": Kind.CLUSTER_STACK.value,
        "metadata": {"name": name, "namespace": "stacks", "uid": f"uid-{name}"},
        "spec": {"provider": "openstack", "name": "scs", "kubernetesVersion": "1.35", "noProvider": True},
    }


class Releases(OwnedReleases):
    """With a cache that is never late."""

    def __init__(self) -> None:
        api = FakeApi(RELEASES, CLUSTERS, CLASSES, EVENTS)
        informer = Informer(api, GROUP, Kind.CLUSTER_STACK_RELEASE, indexes={STACK_INDEX: stacks_owning})
        super().__init__(client=api, informer=informer, events=EventRecorder(api, "test"))

    def sync(self) -> Manifest | None:
        assert isinstance(self.client, FakeApi)
        store = self.informer.cache
        for key in store:
            store.remove(key)
        for manifest in self.client.objects(RELEASES).values():
            store.put(key_of(manifest), manifest)
        return store.get(ObjectKey("stacks", NAME))

    async def wanted_by(self, name: str, provider: ObjectReference | None = None) -> None:
        self.sync()
        await self.ensure(stack(name), WANTED, provider)

    async def spared_by(self, name: str) -> Manifest | None:
        self.sync()
        await self.delete(stack(name), SPARE)
        return self.sync()

    def owners(self) -> list[str]:
        found = self.sync()
        return stacks_owning(found) if found else []

    async def add(self, resource: Resource, name: str, **parts: Any) -> None:
        manifest = {"apiVersion": resource.api_version, "kind": resource.kind, "metadata": {"name": name}, **parts}
        await self.client.create(resource, manifest, "stacks")


async def test_release_of_two_stacks_is_owned_by_both_and_deleted_with_the_last() -> None:
    releases = Releases()
    await releases.wanted_by("stable")
    await releases.wanted_by("custom")
    assert releases.owners() == ["stacks/stable", "stacks/custom"]
    assert releases.led_by_another(ClusterStack.parse(stack("custom")), NAME)

    assert await releases.spared_by("stable") is not None
    assert releases.owners() == ["stacks/custom"]
    assert await releases.spared_by("custom") is None


async def test_release_without_a_stack_is_adopted_by_the_next_one() -> None:
    releases = Releases()
    await releases.add(RELEASES, NAME)

    await releases.wanted_by("stable")

    assert releases.owners() == ["stacks/stable"]


async def test_provider_reference_is_removed_when_no_longer_needed() -> None:
    releases = Releases()
    await releases.wanted_by("stable", PROVIDER)
    await releases.wanted_by("stable")

    found = releases.sync()
    assert found is not None
    assert found["spec"] == {}


async def test_release_used_by_a_cluster_is_kept_without_an_error() -> None:
    releases = Releases()
    await releases.wanted_by("stable")
    await releases.add(CLUSTERS, "one", spec={"topology": {"classRef": {"name": NAME}}})

    assert await releases.spared_by("stable") is not None


async def test_release_is_kept_while_clusterctl_moves_its_class() -> None:
    releases = Releases()
    await releases.wanted_by("stable")
    await releases.add(CLASSES, NAME, metadata={"name": NAME, "annotations": {PAUSED_ANNOTATION: "true"}})

    assert await releases.spared_by("stable") is not None


@pytest.mark.regression("LIVE-L4")
async def test_deletion_of_a_release_is_an_event_and_a_log_line(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO)
    releases = Releases()
    await releases.wanted_by("stable")
    await releases.spared_by("stable")

    message = f"deleted ClusterStackRelease stacks/{NAME}: {', '.join(SPARE.reasons)}"
    assert isinstance(releases.client, FakeApi)
    events = [one for one in releases.client.objects(EVENTS).values() if one["reason"] == "ClusterStackReleaseDeleted"]
    assert [(one["involvedObject"]["kind"], one["message"]) for one in events] == [("ClusterStack", message)]
    assert f"ClusterStack stacks/stable {message}" in [record.getMessage() for record in caplog.records]
