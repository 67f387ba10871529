"""Events of a Cluster, its ClusterAddon and its release: which are read, in which order, and with which rights."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from clusterstacks.net.kube.errors import Forbidden
from clusterstacks.net.kube.resources import ObjectList, Resource
from clusterstacks.plan.clusters.recent_events import ClusterEvent, read_events
from tests.support.fakes.api_server import FakeApi

if TYPE_CHECKING:
    from clusterstacks.model.objects import Manifest

EVENTS = Resource("", "v1", "Event", "events", namespaced=True)
TOPOLOGY = {"classRef": {"name": "openstack-scs-1-35-v1", "namespace": "kaas"}}


class Tenant(FakeApi):
    """May read one namespace."""

    def __init__(self, namespace: str) -> None:
        super().__init__(EVENTS)
        self.own = namespace

    async def list(self, resource: Resource, namespace: str = "", **query: Any) -> ObjectList:
        if self.own not in {"", namespace}:
            raise Forbidden(f"list events in {namespace}: 403", status=403, reason="Forbidden")
        return await super().list(resource, namespace, **query)


def cluster(**topology: Any) -> Manifest:
    return {"metadata": {"namespace": "team", "name": "one"}, "spec": {"topology": topology or TOPOLOGY}}


async def report(api: FakeApi, namespace: str, kind: str, name: str, minute: int) -> None:
    about = {"kind": kind, "name": name, "namespace": namespace}
    metadata = {"name": f"{name}.{minute}", "namespace": namespace, "managedFields": []}
    event = {"metadata": metadata, "involvedObject": about, "lastTimestamp": f"2026-11-23T10:{minute:02}:00Z"}
    await api.create(EVENTS, event, namespace)


@pytest.fixture
async def api() -> Tenant:
    api = Tenant("")
    await report(api, "team", "Cluster", "one", 1)
    await report(api, "kaas", "ClusterStackRelease", "openstack-scs-1-35-v1", 2)
    await report(api, "team", "ClusterAddon", "cluster-addon-one", 3)
    for namespace, kind, name in (("team", "Cluster", "two"), ("team", "Machine", "one"), ("other", "Cluster", "one")):
        await report(api, namespace, kind, name, 4)
    return api


async def test_events_of_the_cluster_its_addons_and_its_release_are_listed_newest_first(api: Tenant) -> None:
    found, notices = await read_events(api, cluster())
    assert [one.subject for one in found] == [
        "ClusterAddon/cluster-addon-one",
        "ClusterStackRelease/openstack-scs-1-35-v1",
        "Cluster/one",
    ]
    assert notices == []
    assert all("managedFields" not in one.manifest["metadata"] for one in found)
    assert api.count("list") == 3


async def test_events_of_the_release_are_optional_and_those_of_the_cluster_are_not(api: Tenant) -> None:
    api.own = "team"
    found, notices = await read_events(api, cluster())
    assert len(found) == 2
    assert notices == ["list events in kaas: 403: events of the release are not shown"]
    api.own = "kaas"
    with pytest.raises(Forbidden, match="list events in team"):
        await read_events(api, cluster())


async def test_class_of_another_project_has_no_release(api: Tenant) -> None:
    found, notices = await read_events(api, cluster(classRef={"name": "mine"}))
    assert len(found) == 2
    assert notices == ["class mine does not belong to a cluster stack: events of a release are not shown"]


@pytest.mark.parametrize(
    ("event", "expected"),
    [
        ({"series": {"lastObservedTime": "3"}, "lastTimestamp": "2", "eventTime": "1"}, "3"),
        ({"series": None, "lastTimestamp": None, "eventTime": "1"}, "1"),
        ({"metadata": {"creationTimestamp": "0"}}, "0"),
        ({}, ""),
    ],
)
def test_last_occurrence_of_an_event_of_either_api(event: Manifest, expected: str) -> None:
    assert ClusterEvent(event).last_seen == expected
