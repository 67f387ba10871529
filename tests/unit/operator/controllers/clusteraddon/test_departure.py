"""The deletion policy of a Cluster that left its cluster stack."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from clusterstacks.model.kinds.clusteraddon import ClusterAddon
from clusterstacks.model.kinds.clusterapi import cluster_view
from clusterstacks.operator.controllers.clusteraddon.departure import deletion_policy

if TYPE_CHECKING:
    from clusterstacks.model.objects import Manifest

CLASS = "test-demo-1-35-v1"


def stack(policy: str = "", *, namespace: str = "stacks", **spec: Any) -> Manifest:
    fields = {"provider": "test", "name": "demo", "kubernetesVersion": "1.35", "noProvider": True, **spec}
    return {
        "apiVersion": "clusterstack.x-k8s.io/v1alpha1",
        "kind": "ClusterStack",
        "metadata": {"name": "demo", "namespace": namespace},
        "spec": {**fields, **({"deletionPolicy": policy} if policy else {})},
    }


def cluster(annotation: str | None) -> Manifest:
    annotations = {"clusterstack.x-k8s.io/deletion-policy": annotation} if annotation is not None else {}
    return {
        "apiVersion": "cluster.x-k8s.io/v1beta2",
        "kind": "Cluster",
        "metadata": {"name": "one", "namespace": "team", "annotations": annotations},
        "spec": {"topology": {"classRef": {"name": "plain"}, "version": "v1.35.0"}},
    }


def addon(recorded: str = CLASS, target: str = "") -> ClusterAddon:
    return ClusterAddon.parse(
        {
            "apiVersion": "clusterstack.x-k8s.io/v1alpha1",
            "kind": "ClusterAddon",
            "metadata": {"name": "cluster-addon-one", "namespace": "team"},
            "spec": {"clusterRef": {"kind": "Cluster", "name": "one"}, "clusterStack": recorded},
            "status": {"target": target, "admitted": {"class": CLASS, "classNamespace": "stacks", "digest": "d"}},
        }
    )


@pytest.mark.parametrize(
    ("annotation", "stacks", "policy"),
    [
        (None, [stack()], "Orphan"),
        (None, [stack("Orphan")], "Orphan"),
        (None, [stack("Delete")], "Delete"),
        (None, [], "Orphan"),
        (None, [stack("Delete", namespace="other")], "Orphan"),
        (None, [stack("Delete", name="another")], "Orphan"),
        (None, [stack("Delete", kubernetesVersion="1.36")], "Orphan"),
        (None, [stack("Delete"), stack("Orphan")], "Orphan"),
        (None, [stack("Delete"), stack("Orphan", kubernetesVersion="1.34")], "Delete"),
        (None, [stack("Delete"), {"metadata": {"namespace": "stacks"}, "spec": 1}], "Delete"),
        ("Delete", [stack("Orphan")], "Delete"),
        ("Delete", [], "Delete"),
        ("Orphan", [stack("Delete")], "Orphan"),
        ("delete", [stack("Delete")], "Orphan"),
        ("", [stack("Delete")], "Orphan"),
    ],
)
def test_the_annotation_wins_over_the_cluster_stacks_of_the_delivered_class(
    annotation: str | None, stacks: list[Manifest], policy: str
) -> None:
    assert deletion_policy(cluster_view(cluster(annotation)), addon(), stacks) == policy


@pytest.mark.parametrize(
    ("recorded", "target", "policy"), [("", CLASS, "Delete"), ("", "", "Orphan"), ("plain", "", "Orphan")]
)
def test_an_interrupted_installation_counts_by_its_target(recorded: str, target: str, policy: str) -> None:
    found = deletion_policy(cluster_view(cluster(None)), addon(recorded, target), [stack("Delete")])

    assert found == policy
