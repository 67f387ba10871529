from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING, Any

import pytest

from clusterstacks.devcluster.etcd import EtcdAccess
from clusterstacks.devcluster.provider import kinds, object_writer, workload_servers
from clusterstacks.devcluster.provider.control_planes import cluster_of
from clusterstacks.devcluster.provider.kinds import FINALIZER
from clusterstacks.domain.errors import SpecError
from clusterstacks.domain.objects import ObjectKey
from clusterstacks.domain.versions import KubernetesVersion
from clusterstacks.kube.errors import Conflict
from clusterstacks.kube.resources import Resource

if TYPE_CHECKING:
    from pathlib import Path

PLANES = Resource(kinds.GROUP, kinds.VERSION, kinds.CONTROL_PLANE, "localcontrolplanes", namespaced=True)


def plane(**metadata: Any) -> dict[str, Any]:
    return {"metadata": {"name": "prod-x", "namespace": "default", "resourceVersion": "7", **metadata}}


class FakeClient:
    """Keeps one object; the first ``conflicts`` patches meet a newer resource version."""

    def __init__(self, manifest: dict[str, Any], conflicts: int = 0) -> None:
        self.manifest = manifest
        self.conflicts = conflicts
        self.patches: list[dict[str, Any]] = []

    async def find(self, *_: object) -> dict[str, Any]:
        return self.manifest

    async def merge_patch(self, _r: object, _n: str, patch: dict[str, Any], _ns: str, **_: object) -> dict[str, Any]:
        if self.conflicts:
            self.conflicts -= 1
            raise Conflict("conflict", status=409, reason="Conflict")
        self.patches.append(patch)
        return self.manifest


def test_definitions_carry_what_cluster_api_asks_of_a_provider() -> None:
    for crd in kinds.definitions():
        names = crd["spec"]["names"]
        assert crd["metadata"]["name"] == f"{names['kind'].lower()}s.{kinds.GROUP}"
        assert crd["metadata"]["labels"] == {"cluster.x-k8s.io/v1beta2": "v1alpha1"}
        is_template = names["kind"].endswith("Template")
        assert ("subresources" in crd["spec"]["versions"][0]) is not is_template


def test_an_object_belongs_to_the_cluster_it_is_labelled_with() -> None:
    assert cluster_of(plane()) is None
    assert cluster_of(plane(labels={"cluster.x-k8s.io/cluster-name": "prod"})) == ObjectKey("default", "prod")


async def test_a_finalizer_is_added_once_beside_those_of_others() -> None:
    client: Any = FakeClient(plane(finalizers=["others"]), conflicts=2)
    await object_writer.add_finalizer(client, PLANES, client.manifest)
    assert client.patches == [{"metadata": {"finalizers": ["others", FINALIZER], "resourceVersion": "7"}}]

    present: Any = FakeClient(plane(finalizers=[FINALIZER]))
    await object_writer.add_finalizer(present, PLANES, present.manifest)
    assert present.patches == []
    await object_writer.remove_finalizer(present, PLANES, present.manifest)
    assert present.patches == [{"metadata": {"finalizers": [], "resourceVersion": "7"}}]


async def test_endless_conflicts_are_given_up() -> None:
    client: Any = FakeClient(plane(), conflicts=100)
    with pytest.raises(Conflict):
        await object_writer.add_finalizer(client, PLANES, client.manifest)
    assert client.conflicts == 100 - object_writer.CONFLICT_ATTEMPTS


async def test_an_unchanged_status_costs_no_request() -> None:
    seen = {**plane(), "status": {"initialization": {"provisioned": True}, "foreign": 1}}
    client: Any = FakeClient(seen)
    await object_writer.write_status(client, PLANES, seen, {"initialization": {"provisioned": True}})
    assert client.patches == []
    await object_writer.write_status(client, PLANES, seen, {"initialization": {"provisioned": False}})
    assert client.patches == [{"status": {"initialization": {"provisioned": False}}}]


def test_a_condition_keeps_its_time_until_its_status_changes() -> None:
    old = {"type": "Available", "status": "True", "lastTransitionTime": "2020-01-01T00:00:00Z"}
    foreign = {"type": "Paused", "status": "False"}
    seen = {**plane(generation=3), "status": {"conditions": [old, foreign]}}

    kept = object_writer.conditions(seen, ("Available", True, "Available", ""))
    assert kept[0]["lastTransitionTime"] == "2020-01-01T00:00:00Z"
    assert kept[0]["observedGeneration"] == 3
    assert kept[1] == foreign
    changed = object_writer.conditions(seen, ("Available", False, "Gone", "it is gone"))
    assert changed[0]["lastTransitionTime"] > "2026"


def ground(tmp_path: Path) -> workload_servers.ServerEnvironment:
    return workload_servers.ServerEnvironment(
        binary=tmp_path / "none",
        version=KubernetesVersion.parse("v1.36.3"),
        etcd=EtcdAccess.at(1, tmp_path),
        clusters=tmp_path / "clusters",
        records=tmp_path / "run",
    )


@pytest.mark.parametrize("version", ["v1.32.9", "v1.37.0", "v2.36.0"])
def test_a_version_the_binary_cannot_emulate_is_refused_with_its_range(tmp_path: Path, version: str) -> None:
    wanted = workload_servers.WantedServer(ObjectKey("default", "prod"), "uid", KubernetesVersion.parse(version))
    with pytest.raises(SpecError, match=rf"{version} cannot be served: .* offers v1\.33 to v1\.36; choose"):
        asyncio.run(workload_servers.WorkloadServers(ground(tmp_path)).ensure(wanted))


@pytest.mark.parametrize(
    ("content", "port"),
    [(json.dumps({"uid": "mine", "port": 5}), 5), (json.dumps({"uid": "old", "port": 5}), None), ("{", None)],
)
def test_a_port_is_remembered_for_the_same_control_plane_only(tmp_path: Path, content: str, port: int | None) -> None:
    memory = tmp_path / "server.json"
    memory.write_text(content)
    assert workload_servers._remembered_port(memory, "mine") == port
