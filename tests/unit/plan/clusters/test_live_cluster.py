"""Live Clusters as the planner reads them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from clusterstacks.model.errors import DependencyError
from clusterstacks.model.kinds.names import UPGRADE_HOLD_ANNOTATION as HOLD
from clusterstacks.net.kube.resources import Resource
from clusterstacks.plan.clusters.live_cluster import ClusterUnplannable, read_cluster
from tests.support.fakes.management_cluster import CLUSTER_API, CONTROL_PLANES, KEY, Management

if TYPE_CHECKING:
    from clusterstacks.plan.clusters.live_cluster import LiveCluster

CLASS = "p-s-1-35-v1"


async def read(there: Management) -> tuple[LiveCluster, list[str]]:
    notices: list[str] = []
    return await read_cluster(there.api, KEY, notices), notices


def versions(*found: str) -> dict[str, Any]:
    return {"versions": [{"version": one, "replicas": 1} for one in found]}


async def test_settled_cluster_is_read_without_notices() -> None:
    there = Management()
    status = {"controlPlane": versions("v1.35.4"), "workers": versions("v1.35.4")}
    await there.has_cluster(CLASS, status=status, metadata={"labels": {"tier": "gold"}})
    await there.has_addons({"name": "cni", "release": CLASS, "version": "1.17.0"})
    cluster, notices = await read(there)
    assert notices == []
    assert (cluster.release.release, cluster.kubernetes.text, cluster.oldest.text) == (CLASS, "v1.35.4", "v1.35.4")
    assert cluster.delivered["cni"].version == "1.17.0"
    assert cluster.view.labels == {"tier": "gold"}


async def test_worker_lag_is_read_from_the_cluster_status() -> None:
    there = Management()
    status = {"controlPlane": versions("v1.35.4"), "workers": versions("v1.35.4", "v1.34.9")}
    await there.has_cluster(CLASS, status=status)
    await there.has("Machine", "not-asked", {"spec": {"version": "v1.30.0"}})
    cluster, notices = await read(there)
    assert (cluster.oldest.text, notices) == ("v1.34.9", [])


async def test_worker_lag_is_read_from_machines_and_machine_pools() -> None:
    there = Management()
    await there.has_cluster(CLASS)
    kubelet = {"nodeInfo": {"kubeletVersion": "v1.34.2"}}
    await there.has("Machine", "with-a-node", {"spec": {"version": "v1.35.4"}, "status": kubelet})
    assert (await read(there))[0].oldest.text == "v1.34.2"
    await there.has("Machine", "without-one", {"spec": {"version": "v1.33.1"}})
    assert (await read(there))[0].oldest.text == "v1.33.1"
    await there.has("MachinePool", "pool", {"spec": {"template": {"spec": {"version": "v1.32.1"}}}})
    assert (await read(there))[0].oldest.text == "v1.32.1"
    asked = [how["labels"] for verb, how in there.api.calls if verb == "list" and how["resource"].kind == "Machine"]
    assert set(asked) == {"cluster.x-k8s.io/cluster-name=prod,!cluster.x-k8s.io/control-plane"}


async def test_control_plane_upgrade_in_progress_is_reported() -> None:
    there = Management()
    await there.has_cluster(CLASS, "v1.36.1", status={"controlPlane": versions("v1.36.1", "v1.35.4")})
    cluster, notices = await read(there)
    assert (cluster.kubernetes.text, cluster.oldest.text) == ("v1.36.1", "v1.35.4")
    assert notices == [
        "the control plane of Cluster team/prod has v1.35.4 and is to be upgraded: a plan begins with v1.36.1"
    ]


@pytest.mark.parametrize(
    ("annotations", "version", "read_version"),
    [({HOLD: ""}, "v1.36.1", "v1.35.4"), ({}, "v1.36.1", None), ({HOLD: ""}, "v1.35.4", None)],
    ids=["held", "not held", "no upgrade"],
)
async def test_control_plane_object_is_read_only_if_a_held_upgrade_may_wait(
    annotations: dict[str, str], version: str, read_version: str | None
) -> None:
    there = Management()
    reference = {"apiGroup": CONTROL_PLANES, "kind": "KubeadmControlPlane", "name": "cp"}
    await there.has("KubeadmControlPlane", "cp", {"spec": {"version": "v1.35.4"}})
    status, metadata = {"controlPlane": versions("v1.35.4")}, {"annotations": annotations}
    await there.has_cluster(CLASS, version, status=status, metadata=metadata, spec={"controlPlaneRef": reference})
    cluster, _ = await read(there)
    assert cluster.control_plane.get("spec", {}).get("version") == read_version


async def test_control_plane_object_that_may_not_be_read_is_a_notice() -> None:
    there = Management()
    there.api.forbidden = frozenset({"KubeadmControlPlane"})
    reference = {"apiGroup": CONTROL_PLANES, "kind": "KubeadmControlPlane", "name": "cp"}
    status, metadata = {"controlPlane": versions("v1.35.4")}, {"annotations": {HOLD: ""}}
    await there.has_cluster(CLASS, "v1.36.1", status=status, metadata=metadata, spec={"controlPlaneRef": reference})
    cluster, notices = await read(there)
    assert cluster.control_plane == {}
    assert notices[0].endswith("403 Forbidden: not you: the upgrade is assumed to begin when the Cluster reports it")


async def test_version_suffix_of_a_distribution_is_ignored() -> None:
    there = Management()
    await there.has_cluster(
        CLASS, status={"controlPlane": versions("v1.35.4+k3s1"), "workers": versions("v1.35.4+k3s1")}
    )
    cluster, notices = await read(there)
    assert (cluster.kubernetes.text, cluster.oldest.text, notices) == ("v1.35.4", "v1.35.4", [])


async def test_control_plane_above_the_requested_version_counts_with_its_own_version() -> None:
    there = Management()
    await there.has_cluster(CLASS, "v1.35.4", status={"controlPlane": versions("v1.36.0")})
    assert (await read(there))[0].kubernetes.text == "v1.36.0"


async def test_v1beta1_cluster_takes_the_version_from_its_control_plane() -> None:
    old = Resource(CLUSTER_API, "v1beta1", "Cluster", "clusters", namespaced=True)
    there = Management()
    there.api.serve(old)
    reference = {
        "apiVersion": f"{CONTROL_PLANES}/v1beta1",
        "kind": "KubeadmControlPlane",
        "name": "cp",
        "namespace": "team",
    }
    topology = {"class": "p-s-1-35-v1", "version": "v1.35.4", "variables": [{"name": "size", "value": 3}]}
    document = {"apiVersion": old.api_version, "kind": "Cluster", "metadata": {"name": "prod", "namespace": "team"}}
    await there.api.create(old, {**document, "spec": {"topology": topology, "controlPlaneRef": reference}}, "team")
    await there.has("KubeadmControlPlane", "cp", {"status": {"version": "v1.34.9"}})
    cluster, notices = await read(there)
    assert (cluster.release.release, cluster.oldest.text) == (CLASS, "v1.34.9")
    assert cluster.variables == {"size": 3}
    assert "is to be upgraded: a plan begins with v1.35.4" in notices[0]


async def test_without_status_the_spec_names_the_delivered_addons() -> None:
    there = Management()
    await there.has_cluster(CLASS)
    await there.has("ClusterAddon", "cluster-addon-prod", {"spec": {"addons": [{"name": "cni", "release": CLASS}]}})
    delivered = (await read(there))[0].delivered["cni"]
    assert (str(delivered.release), delivered.version) == (CLASS, "")


async def test_paused_cluster_or_addon_is_reported() -> None:
    there = Management()
    await there.has_cluster(CLASS, spec={"paused": True})
    await there.has("ClusterAddon", "cluster-addon-prod", {"spec": {"paused": True}})
    _, notices = await read(there)
    assert notices == [
        "Cluster team/prod is paused: nothing changes before it is resumed",
        "ClusterAddon team/prod is paused: nothing changes before it is resumed",
    ]


@pytest.mark.parametrize(
    ("document", "words"),
    [
        (None, "does not exist: 'csctl status -n team' lists the Clusters"),
        ({"spec": {}}, "has no spec.topology"),
        (
            {"spec": {"topology": {"classRef": {"name": "quick-start"}}}},
            "quick-start, which is not from a cluster stack",
        ),
        ({"spec": {"topology": {"classRef": {"name": CLASS}, "version": "latest"}}}, "'latest'"),
        ({"metadata": {"deletionTimestamp": "2026-11-21T00:00:00Z"}, "spec": {}}, "is being deleted"),
    ],
)
async def test_clusters_without_a_usable_class_or_version_are_rejected(
    document: dict[str, Any] | None, words: str
) -> None:
    there = Management()
    if document is not None:
        await there.has("Cluster", KEY.name, document)
    with pytest.raises(ClusterUnplannable, match=r"^Cluster team/prod ") as caught:
        await read(there)
    assert words in caught.value.message


async def test_missing_permission_for_the_cluster_is_reported_with_the_required_rule() -> None:
    there = Management()
    there.api.forbidden = frozenset({"Cluster"})
    with pytest.raises(DependencyError, match="403 Forbidden: not you; ask for the right to get clusters in namespace"):
        await read(there)


async def test_missing_permission_for_machines_or_addons_is_reported_with_the_assumption() -> None:
    there = Management()
    await there.has_cluster(CLASS)
    there.api.forbidden = frozenset({"Machine", "MachinePool", "ClusterAddon"})
    cluster, notices = await read(there)
    assert (cluster.oldest.text, cluster.delivered) == ("v1.35.4", {})
    assert len(notices) == 3
    assert sum("the workers are assumed to have the version that is asked for" in one for one in notices) == 2
    assert "the addons are assumed to be those that are asked for" in notices[2]


async def test_kinds_that_are_not_installed_have_no_objects() -> None:
    there = Management()
    await there.has_cluster(CLASS)
    for kind in ("Machine", "MachinePool"):
        there.api._served.pop((CLUSTER_API, kind))
    assert (await read(there))[1] == []
