from __future__ import annotations

import pytest

from clusterstacks.deliver.apply.waves import Wave, wave_of
from clusterstacks.model.objects import ObjectId

IN_ORDER = [
    (ObjectId("", "Namespace", "", "n"), Wave.FOUNDATIONS),
    (ObjectId("apiextensions.k8s.io", "CustomResourceDefinition", "", "c"), Wave.FOUNDATIONS),
    (ObjectId("rbac.authorization.k8s.io", "ClusterRole", "", "r"), Wave.CLUSTER_WIDE),
    (ObjectId("storage.k8s.io", "StorageClass", "", "s"), Wave.CLUSTER_WIDE),
    (ObjectId("", "ConfigMap", "n", "c"), Wave.SUPPORT),
    (ObjectId("", "Service", "n", "s"), Wave.SUPPORT),
    (ObjectId("rbac.authorization.k8s.io", "RoleBinding", "n", "r"), Wave.SUPPORT),
    (ObjectId("apps", "DaemonSet", "n", "d"), Wave.WORKLOADS),
    (ObjectId("batch", "CronJob", "n", "j"), Wave.WORKLOADS),
    (ObjectId("cilium.io", "CiliumNode", "", "c"), Wave.CUSTOM),
    (ObjectId("snapshot.storage.k8s.io", "VolumeSnapshotClass", "", "v"), Wave.CUSTOM),
    (ObjectId("infrastructure.cluster.x-k8s.io", "DemoClusterTemplate", "n", "t"), Wave.CUSTOM),
    (ObjectId("cluster.x-k8s.io", "ClusterClass", "n", "c"), Wave.CLASSES),
    (ObjectId("admissionregistration.k8s.io", "ValidatingWebhookConfiguration", "", "w"), Wave.INTERCEPTORS),
    (ObjectId("apiregistration.k8s.io", "APIService", "", "a"), Wave.INTERCEPTORS),
]


@pytest.mark.parametrize(("identity", "wave"), IN_ORDER)
def test_an_object_belongs_to_one_wave(identity: ObjectId, wave: Wave) -> None:
    assert wave_of(identity) is wave


def test_the_waves_are_in_the_order_of_the_table() -> None:
    assert [wave for _, wave in IN_ORDER] == sorted(wave for _, wave in IN_ORDER)
