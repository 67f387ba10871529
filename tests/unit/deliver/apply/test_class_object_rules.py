from __future__ import annotations

import pytest

from clusterstacks.deliver.apply.class_object_rules import GroupKind, check_class_objects, deletion_fault
from clusterstacks.model.errors import SpecError
from clusterstacks.model.objects import ObjectId
from tests.support.builders.manifests import Manifest, config_map, named

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
def test_class_and_template_kinds_are_allowed(manifest: Manifest) -> None:
    check_class_objects([manifest], namespace="here", extra_kinds=[LOCAL])


@pytest.mark.parametrize(
    ("manifest", "advice"),
    [
        (config_map("a"), "remove it from the chart$"),
        (named("cluster.x-k8s.io/v1beta2", "Cluster", "a"), r"--class-kinds Cluster\.cluster\.x-k8s\.io"),
        (named("infrastructure.cluster.x-k8s.io/v1beta1", "OpenStackCluster", "a"), "--class-kinds"),
        (named("infrastructure.cluster.x-k8s.io.evil.org/v1", "DemoTemplate", "a"), "--class-kinds"),
        (named("evil.org/v1", "ClusterClass", "a"), "--class-kinds"),
        (named("rbac.authorization.k8s.io/v1", "ClusterRole", "a"), "--class-kinds"),
        (named("cluster.x-k8s.io/v1beta2", "ClusterClass", "a", "there"), "is not in namespace here"),
        (named("openstack.k-orc.cloud/v1alpha1", "Image", "a", "there"), "is not in namespace here"),
        (named("local.clusterstack.x-k8s.io/v1", "LocalClusterTemplate", "a", "there"), "is not in namespace here"),
    ],
)
def test_other_objects_are_rejected_with_a_remedy(manifest: Manifest, advice: str) -> None:
    with pytest.raises(SpecError, match=advice) as refused:
        check_class_objects([manifest], namespace="here", extra_kinds=[LOCAL])
    assert "a" in str(refused.value)


@pytest.mark.regression("SEC-7")
@pytest.mark.parametrize(
    ("identity", "fault"),
    [
        (ObjectId("cluster.x-k8s.io", "ClusterClass", "here", "a"), ""),
        (ObjectId("cluster.x-k8s.io", "ClusterClass", "", "a"), ""),
        (ObjectId(LOCAL.group, LOCAL.kind, "here", "a"), ""),
        (ObjectId("cluster.x-k8s.io", "ClusterClass", "there", "a"), "is not in namespace here"),
        (ObjectId("", "ConfigMap", "here", "a"), "not allowed in a cluster class"),
        (ObjectId("", "Namespace", "", "a"), "not allowed in a cluster class"),
        (ObjectId("rbac.authorization.k8s.io", "ClusterRole", "", "a"), "not allowed in a cluster class"),
    ],
)
def test_objects_that_a_class_may_not_contain_are_not_deleted_with_it(identity: ObjectId, fault: str) -> None:
    found = deletion_fault(identity, namespace="here", extra_kinds=[LOCAL])

    assert bool(found) is bool(fault)
    assert fault in found


def test_long_list_of_faults_is_truncated() -> None:
    with pytest.raises(SpecError, match=r"and 15 more$"):
        check_class_objects([config_map(str(number)) for number in range(20)], namespace="here")


def test_kinds_are_written_with_their_group() -> None:
    assert GroupKind.parse("LocalClusterTemplate.local.clusterstack.x-k8s.io") == LOCAL


@pytest.mark.parametrize("text", ["", "Kind", ".group", "Kind."])
def test_a_kind_without_group_is_refused(text: str) -> None:
    with pytest.raises(SpecError, match=r"expected Kind\.group"):
        GroupKind.parse(text)
