"""Views of Cluster API's objects in both of its versions."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given

from clusterstacks.model.documents import at
from clusterstacks.model.kinds.cluster_conditions import ConditionView
from clusterstacks.model.kinds.clusterapi import (
    ClusterView,
    ObjectRef,
    cluster_class_view,
    cluster_view,
    is_moving,
    is_paused,
    is_watched,
    reported_versions,
    root_objects,
    template_data,
)
from clusterstacks.model.objects import ObjectKey
from tests.support.builders.documents import damaged

METADATA = {
    "name": "a",
    "namespace": "org-a",
    "uid": "u-1",
    "generation": 3,
    "resourceVersion": "17",
    "labels": {"cluster.x-k8s.io/watch-filter": "blue"},
    "annotations": {"note": "x"},
}
ENDPOINT = {"host": "10.0.0.1", "port": 6443}
V1BETA2: dict[str, Any] = {
    "apiVersion": "cluster.x-k8s.io/v1beta2",
    "kind": "Cluster",
    "metadata": METADATA,
    "spec": {
        "paused": False,
        "controlPlaneEndpoint": ENDPOINT,
        "topology": {"classRef": {"name": "openstack-scs-1-35-v2", "namespace": "stacks"}, "version": "v1.35.4"},
        "controlPlaneRef": {"apiGroup": "controlplane.cluster.x-k8s.io", "kind": "FooControlPlane", "name": "a-cp"},
        "infrastructureRef": {"apiGroup": "infrastructure.cluster.x-k8s.io", "kind": "FooCluster", "name": "a-infra"},
    },
    "status": {
        "initialization": {"controlPlaneInitialized": True, "infrastructureProvisioned": True},
        "controlPlane": {"versions": [{"version": "v1.34.7", "replicas": 1}, {"version": "v1.35.4", "replicas": 2}]},
        "conditions": [{"type": "TopologyReconciled", "status": "False", "reason": "ClusterUpgrading", "message": "m"}],
    },
}
V1BETA1: dict[str, Any] = {
    "apiVersion": "cluster.x-k8s.io/v1beta1",
    "kind": "Cluster",
    "metadata": METADATA,
    "spec": {
        "controlPlaneEndpoint": ENDPOINT,
        "topology": {"class": "openstack-scs-1-35-v2", "classNamespace": "stacks", "version": "v1.35.4"},
        "controlPlaneRef": {
            "apiVersion": "controlplane.cluster.x-k8s.io/v1beta1",
            "kind": "FooControlPlane",
            "namespace": "org-a",
            "name": "a-cp",
        },
        "infrastructureRef": {
            "apiVersion": "infrastructure.cluster.x-k8s.io/v1beta1",
            "kind": "FooCluster",
            "namespace": "org-a",
            "name": "a-infra",
        },
    },
    "status": {
        "infrastructureReady": True,
        "conditions": [
            {"type": "ControlPlaneInitialized", "status": "True"},
            {"type": "TopologyReconciled", "status": "False", "reason": "ClusterUpgrading", "message": "m"},
        ],
        "v1beta2": {"controlPlane": {"versions": [{"version": "v1.34.7"}, {"version": "v1.35.4"}]}},
    },
}
BOTH = pytest.mark.parametrize("cluster", [V1BETA2, V1BETA1], ids=["v1beta2", "v1beta1"])


def with_spec(cluster: dict[str, Any], **spec: Any) -> dict[str, Any]:
    return {**cluster, "spec": {**cluster["spec"], **spec}}


def with_metadata(cluster: dict[str, Any], **metadata: Any) -> dict[str, Any]:
    return {**cluster, "metadata": {**cluster["metadata"], **metadata}}


@BOTH
def test_both_api_versions_give_the_same_view(cluster: dict[str, Any]) -> None:
    view = cluster_view(cluster)

    assert view.key == ObjectKey("org-a", "a")
    assert view.class_key == ObjectKey("stacks", "openstack-scs-1-35-v2")
    assert (view.version, view.host, view.port) == ("v1.35.4", "10.0.0.1", 6443)
    assert (view.control_plane_initialized, view.infrastructure_provisioned) == (True, True)
    assert view.topology_reconciled == ConditionView("False", "ClusterUpgrading", "m")
    assert view.control_plane_versions == ("v1.34.7", "v1.35.4")
    assert (view.paused, view.moving, view.deleting) == (False, False, False)
    assert view.raw is cluster


def test_reference_has_a_version_only_if_the_cluster_names_one() -> None:
    new, old = cluster_view(V1BETA2).infrastructure_ref, cluster_view(V1BETA1).infrastructure_ref

    assert new == ObjectRef("infrastructure.cluster.x-k8s.io", "FooCluster", "org-a", "a-infra", "")
    assert old == ObjectRef("infrastructure.cluster.x-k8s.io", "FooCluster", "org-a", "a-infra", "v1beta1")


@pytest.mark.parametrize(
    "cluster",
    [
        with_spec(V1BETA2, topology={"classRef": {"name": "c"}}),
        with_spec(V1BETA1, topology={"class": "c"}),
        with_spec(V1BETA1, topology={"class": "c", "classNamespace": ""}),
    ],
)
def test_class_without_namespace_is_in_the_namespace_of_the_cluster(cluster: dict[str, Any]) -> None:
    assert cluster_view(cluster).class_key == ObjectKey("org-a", "c")


def test_cluster_without_topology_has_no_class() -> None:
    view = cluster_view({"apiVersion": "cluster.x-k8s.io/v1beta2", "metadata": {"name": "a"}, "spec": {}})

    assert (view.class_name, view.version, view.control_plane_ref, view.control_plane_versions) == ("", "", None, ())
    assert not view.control_plane_initialized


def test_control_plane_initialized_is_read_from_the_condition_if_the_field_is_missing() -> None:
    status = {"conditions": [{"type": "ControlPlaneInitialized", "status": "True", "reason": "Initialized"}]}

    assert cluster_view({**V1BETA2, "status": status}).control_plane_initialized
    assert not cluster_view({**V1BETA1, "status": {"controlPlaneReady": True}}).control_plane_initialized


@BOTH
def test_owner_reference_has_the_served_api_version(cluster: dict[str, Any]) -> None:
    assert cluster_view(cluster).owner_reference() == {
        "apiVersion": cluster["apiVersion"],
        "kind": "Cluster",
        "name": "a",
        "uid": "u-1",
    }


@BOTH
@pytest.mark.parametrize("value", ["", "true", "false"])
def test_pause_annotation_pauses_with_any_value(cluster: dict[str, Any], value: str) -> None:
    assert cluster_view(with_metadata(cluster, annotations={"cluster.x-k8s.io/paused": value})).paused


@BOTH
def test_spec_paused_pauses(cluster: dict[str, Any]) -> None:
    assert is_paused(with_spec(cluster, paused=True))
    assert not is_paused(with_spec(cluster, paused=None))


def test_clusterctl_move_and_deletion_are_recognized() -> None:
    moved = with_metadata(
        V1BETA2, annotations={"clusterctl.cluster.x-k8s.io/delete-for-move": ""}, deletionTimestamp="t"
    )

    assert is_moving(moved)
    assert (cluster_view(moved).moving, cluster_view(moved).deleting) == (True, True)


@pytest.mark.parametrize(("watch_filter", "watched"), [("", True), ("blue", True), ("green", False)])
def test_watch_filter_selects_by_label(watch_filter: str, watched: bool) -> None:  # noqa: FBT001 - table
    assert is_watched(V1BETA2, watch_filter) is watched


def test_unlabelled_objects_are_watched_only_without_a_filter() -> None:
    assert is_watched({"metadata": {}}, "")
    assert not is_watched({"metadata": {}}, "blue")


@BOTH
def test_template_data_has_the_class_in_the_v1beta1_field(cluster: dict[str, Any]) -> None:
    seen = template_data(root_objects(cluster, {"kind": "FooControlPlane"}, None))

    topology = seen["Cluster"]["spec"]["topology"]
    assert (topology["class"], topology["classNamespace"]) == ("openstack-scs-1-35-v2", "stacks")
    assert topology.get("classRef") == cluster["spec"]["topology"].get("classRef")
    assert seen["Cluster"]["spec"]["controlPlaneEndpoint"] == ENDPOINT
    assert (seen["ControlPlane"], seen["InfraCluster"]) == ({"kind": "FooControlPlane"}, {})


def test_template_data_does_not_change_the_cluster() -> None:
    template_data(root_objects(V1BETA2, None, None))

    assert "class" not in V1BETA2["spec"]["topology"]


@pytest.mark.regression("DROP-M7")
@pytest.mark.parametrize(
    ("path", "cluster", "value"),
    [
        ("spec.controlPlaneEndpoint", {}, {"host": "", "port": 0}),
        ("spec.controlPlaneEndpoint", {"spec": {"controlPlaneEndpoint": {"port": 6443}}}, {"host": "", "port": 6443}),
        ("spec.topology", {}, None),
        ("spec.topology.class", {"spec": {"topology": {"classRef": {"name": "c"}}}}, "c"),
        ("spec.topology.classRef.name", {"spec": {"topology": {"classRef": {"name": "c"}}}}, "c"),
        ("spec.topology.controlPlane.metadata", {"spec": {"topology": {"version": "v1.35.4"}}}, {}),
        (
            "spec.topology.controlPlane",
            {"spec": {"topology": {"controlPlane": {"replicas": 3}}}},
            {"replicas": 3, "metadata": {}},
        ),
        ("spec.controlPlaneRef.apiVersion", {"spec": {"controlPlaneRef": {"name": "a"}}}, "cp.example.org/v1beta2"),
        ("spec.controlPlaneRef.namespace", {"spec": {"controlPlaneRef": {"name": "a"}}}, "tenant"),
        ("spec.controlPlaneRef.apiVersion", {"spec": {"controlPlaneRef": {"apiVersion": "x/v1"}}}, "x/v1"),
        ("spec.infrastructureRef.namespace", {"spec": {"infrastructureRef": {"name": "a"}}}, "tenant"),
        ("spec.infrastructureRef.apiVersion", {"spec": {"infrastructureRef": {"name": "a"}}}, None),
        ("status.infrastructureReady", {}, False),
        ("status.infrastructureReady", {"status": {"initialization": {"infrastructureProvisioned": True}}}, True),
        ("status.infrastructureReady", {"status": {"infrastructureReady": True}}, True),
        ("status.controlPlaneReady", {}, False),
        (
            "status.controlPlaneReady",
            {"status": {"initialization": {"controlPlaneInitialized": True}}},
            True,
        ),
    ],
)
def test_template_data_has_the_paths_of_v1beta1(path: str, cluster: dict[str, Any], value: object) -> None:
    given = {"metadata": {"name": "a", "namespace": "tenant"}, **cluster}
    seen = template_data(root_objects(given, {"apiVersion": "cp.example.org/v1beta2", "kind": "FooControlPlane"}, None))

    assert at(seen["Cluster"], *path.split(".")) == value
    assert seen["Cluster"]["metadata"] == given["metadata"]


@pytest.mark.parametrize(
    ("status", "versions"),
    [
        ({"versions": [{"version": "v1.35.4"}]}, ("v1.35.4",)),
        ({"version": "v1.34.7"}, ("v1.34.7",)),
        ({}, ()),
    ],
)
def test_control_plane_versions_are_read_from_both_contracts(status: dict[str, Any], versions: tuple[str, ...]) -> None:
    assert reported_versions({"status": status}) == versions


def cluster_class(version: str, *, observed: int = 2, **status: Any) -> dict[str, Any]:
    return {
        "apiVersion": f"cluster.x-k8s.io/{version}",
        "metadata": {"name": "c", "namespace": "stacks", "generation": 2},
        "status": {"observedGeneration": observed, **status},
    }


REFUSED = {"status": "False", "reason": "VariableDiscoveryFailed", "message": "no such patch"}


@pytest.mark.parametrize(
    ("manifest", "cause"),
    [
        (cluster_class("v1beta2"), ""),
        (cluster_class("v1beta2", conditions=[{"type": "VariablesReady", "status": "True"}]), ""),
        (cluster_class("v1beta2", conditions=[{"type": "VariablesReady", "status": "Unknown"}]), ""),
        (cluster_class("v1beta2", observed=1), "Cluster API has not processed ClusterClass stacks/c yet"),
        (cluster_class("v1beta2", conditions=[{"type": "VariablesReady", **REFUSED}]), "no such patch"),
        (cluster_class("v1beta1", conditions=[{"type": "VariablesReconciled", **REFUSED}]), "no such patch"),
        (cluster_class("v1beta1", v1beta2={"conditions": [{"type": "VariablesReady", **REFUSED}]}), "no such patch"),
        ({"metadata": {"name": "c", "namespace": "stacks", "generation": 1}}, "has not processed"),
    ],
)
def test_cluster_class_is_ready_once_it_is_reconciled_and_accepted(manifest: dict[str, Any], cause: str) -> None:
    view = cluster_class_view(manifest)

    assert cause in view.cause
    assert view.ready is (cause == "")


@given(damaged(V1BETA2) | damaged(V1BETA1))
def test_arbitrary_documents_give_a_view(cluster: Any) -> None:
    assert isinstance(cluster_view(cluster), ClusterView)
    template_data(root_objects(cluster, None, None))
    cluster_class_view(cluster)
