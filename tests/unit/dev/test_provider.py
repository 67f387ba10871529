from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING, Any

import pytest

from clusterstacks.dev.binaries import Binary
from clusterstacks.dev.etcd import EtcdAccess
from clusterstacks.dev.kube_components import Components
from clusterstacks.dev.provider import kinds, object_writer, workload_servers
from clusterstacks.dev.provider.control_planes import cluster_of
from clusterstacks.dev.provider.kinds import FINALIZER
from clusterstacks.dev.state_directory import StateDirectory
from clusterstacks.model.errors import SpecError
from clusterstacks.model.objects import ObjectKey
from clusterstacks.model.versions import KubernetesVersion
from clusterstacks.net.kube.errors import Conflict
from clusterstacks.net.kube.resources import Resource

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


def test_provider_crds_meet_the_cluster_api_contract() -> None:
    for crd in kinds.definitions():
        names = crd["spec"]["names"]
        assert crd["metadata"]["name"] == f"{names['kind'].lower()}s.{kinds.GROUP}"
        assert crd["metadata"]["labels"] == {"cluster.x-k8s.io/v1beta2": "v1alpha1"}
        is_template = names["kind"].endswith("Template")
        assert ("subresources" in crd["spec"]["versions"][0]) is not is_template


def test_cluster_of_an_object_is_named_by_its_label() -> None:
    assert cluster_of(plane()) is None
    assert cluster_of(plane(labels={"cluster.x-k8s.io/cluster-name": "prod"})) == ObjectKey("default", "prod")


async def test_finalizer_is_added_once_and_others_are_kept() -> None:
    client: Any = FakeClient(plane(finalizers=["others"]), conflicts=2)
    await object_writer.add_finalizer(client, PLANES, client.manifest)
    assert client.patches == [{"metadata": {"finalizers": ["others", FINALIZER], "resourceVersion": "7"}}]

    present: Any = FakeClient(plane(finalizers=[FINALIZER]))
    await object_writer.add_finalizer(present, PLANES, present.manifest)
    assert present.patches == []
    await object_writer.remove_finalizer(present, PLANES, present.manifest)
    assert present.patches == [{"metadata": {"finalizers": [], "resourceVersion": "7"}}]


async def test_repeated_conflicts_end_with_an_error() -> None:
    client: Any = FakeClient(plane(), conflicts=100)
    with pytest.raises(Conflict):
        await object_writer.add_finalizer(client, PLANES, client.manifest)
    assert client.conflicts == 100 - object_writer.CONFLICT_ATTEMPTS


async def test_unchanged_status_is_not_written() -> None:
    seen = {**plane(), "status": {"initialization": {"provisioned": True}, "foreign": 1}}
    client: Any = FakeClient(seen)
    await object_writer.write_status(client, PLANES, seen, {"initialization": {"provisioned": True}})
    assert client.patches == []
    await object_writer.write_status(client, PLANES, seen, {"initialization": {"provisioned": False}})
    assert client.patches == [{"status": {"initialization": {"provisioned": False}}}]


def test_condition_keeps_its_transition_time_until_the_status_changes() -> None:
    old = {"type": "Available", "status": "True", "lastTransitionTime": "2020-01-01T00:00:00Z"}
    foreign = {"type": "Paused", "status": "False"}
    seen = {**plane(generation=3), "status": {"conditions": [old, foreign]}}

    kept = object_writer.conditions(seen, ("Available", True, "Available", ""))
    assert kept[0]["lastTransitionTime"] == "2020-01-01T00:00:00Z"
    assert kept[0]["observedGeneration"] == 3
    assert kept[1] == foreign
    changed = object_writer.conditions(seen, ("Available", False, "Gone", "it is gone"))
    assert changed[0]["lastTransitionTime"] > "2026"


def servers(tmp_path: Path) -> workload_servers.WorkloadServers:
    binaries = {"kube-apiserver": Binary("kube-apiserver", "v1.36.3", "test", tmp_path / "none")}
    bench = Components(StateDirectory(tmp_path), binaries)
    return workload_servers.WorkloadServers(bench, EtcdAccess.at(1, tmp_path))


@pytest.mark.parametrize("version", ["v1.32.9", "v1.37.0", "v2.36.0"])
def test_unsupported_emulation_version_is_rejected_with_the_range(tmp_path: Path, version: str) -> None:
    wanted = workload_servers.WantedServer(ObjectKey("default", "prod"), "uid", KubernetesVersion.parse(version))
    with pytest.raises(SpecError, match=rf"{version} cannot be served: .* offers v1\.33 to v1\.36; choose"):
        asyncio.run(servers(tmp_path).ensure(wanted))


@pytest.mark.parametrize(
    ("content", "port"),
    [(json.dumps({"uid": "mine", "port": 5}), 5), (json.dumps({"uid": "old", "port": 5}), None), ("{", None)],
)
def test_port_is_reused_for_the_same_control_plane_only(tmp_path: Path, content: str, port: int | None) -> None:
    memory = tmp_path / "server.json"
    memory.write_text(content)
    assert workload_servers._remembered_port(memory, "mine") == port
