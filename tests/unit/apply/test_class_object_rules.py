from __future__ import annotations

import pytest

from clusterstacks.apply.class_object_rules import GroupKind, check_class_objects, deletion_fault
from clusterstacks.domain.errors import SpecError
from clusterstacks.domain.objects import ObjectId
from tests.support.manifests import Manifest, config_map, named

LOCAL = GroupKind("local.clusterstack.x-k8s.io", "LocalClusterTemplate")


@pytest.mark.parametrize(
    "manifest",
    [
        named("cluster.x-k8s.io/v1beta1", "ClusterClass", "a"),
        named("cluster.x-k8s.io/v1beta2", "ClusterClass", "a", "here"),
        named("infrastructure.cluster.x-k8s.io/v1beta1", "OpenStackClusterTemplate", "a"),
        named("controlplane.cluster.x-k8s.io/v1beta2", "KubeadmControlPlaneTemplate", "a"),
        named("bootstrap.cluster.x-k8s.io/v1beta2", "KubeadmConfigTemplate", "a"),
        named("openstack.k-orc.cloud/v1alpha1", "Image", "a"),
        named("local.clusterstack.x-k8s.io/v1alpha1", "LocalClusterTemplate", "a"),
    ],
)
def test_a_class_may_hold_what_makes_it_up(manifest: Manifest) -> None:
    check_class_objects([manifest], namespace="here", extra_kinds=[LOCAL])


@pytest.mark.parametrize(
    ("manifest", "way_out"),
    [
        (config_map("a"), "take it out of the chart$"),
        (named("cluster.x-k8s.io/v1beta2", "Cluster", "a"), r"--class-kinds Cluster\.cluster\.x-k8s\.io"),
        (named("infrastructure.cluster.x-k8s.io/v1beta1", "OpenStackCluster", "a"), "--class-kinds"),
        (named("infrastructure.cluster.x-k8s.io.evil.org/v1", "DemoTemplate", "a"), "--class-kinds"),
        (named("evil.org/v1", "ClusterClass", "a"), "--class-kinds"),
        (named("rbac.authorization.k8s.io/v1", "ClusterRole", "a"), "--class-kinds"),
        (named("cluster.x-k8s.io/v1beta2", "ClusterClass", "a", "there"), "another namespace than here"),
        (named("local.clusterstack.x-k8s.io/v1", "LocalClusterTemplate", "a", "there"), "another namespace"),
    ],
)
def test_anything_else_is_refused_with_the_way_out(manifest: Manifest, way_out: str) -> None:
    with pytest.raises(SpecError, match=way_out) as refused:
        check_class_objects([manifest], namespace="here", extra_kinds=[LOCAL])
    assert "a" in str(refused.value)


@pytest.mark.parametrize(
    ("identity", "fault"),
    [
        (ObjectId("cluster.x-k8s.io", "ClusterClass", "here", "a"), ""),
        (ObjectId("cluster.x-k8s.io", "ClusterClass", "", "a"), ""),
        (ObjectId(LOCAL.group, LOCAL.kind, "here", "a"), ""),
        (ObjectId("cluster.x-k8s.io", "ClusterClass", "there", "a"), "another namespace than here"),
        (ObjectId("", "ConfigMap", "here", "a"), "may not hold"),
        (ObjectId("", "Namespace", "", "a"), "may not hold"),
        (ObjectId("rbac.authorization.k8s.io", "ClusterRole", "", "a"), "may not hold"),
    ],
)
def test_sec_7_what_a_class_may_not_hold_is_not_deleted_with_it(identity: ObjectId, fault: str) -> None:
    found = deletion_fault(identity, namespace="here", extra_kinds=[LOCAL])

    assert bool(found) is bool(fault)
    assert fault in found


def test_a_long_list_of_faults_is_cut() -> None:
    with pytest.raises(SpecError, match=r"and 15 more$"):
        check_class_objects([config_map(str(number)) for number in range(20)], namespace="here")


def test_kinds_are_written_with_their_group() -> None:
    assert GroupKind.parse("LocalClusterTemplate.local.clusterstack.x-k8s.io") == LOCAL


@pytest.mark.parametrize("text", ["", "Kind", ".group", "Kind."])
def test_a_kind_without_group_is_refused(text: str) -> None:
    with pytest.raises(SpecError, match=r"write it as Kind\.group"):
        GroupKind.parse(text)
