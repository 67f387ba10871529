from __future__ import annotations

import pytest

from clusterstacks.dev.contract_labels import stated_labels, version_for_cluster_api
from clusterstacks.model.yaml import load


@pytest.mark.parametrize(
    ("labels", "version"),
    [
        ({}, ""),
        ({"cluster.x-k8s.io/v1beta1": ""}, ""),
        ({"cluster.x-k8s.io/v1alpha4": "v1alpha4"}, ""),
        ({"cluster.x-k8s.io/v1beta1": "v1beta1"}, "v1beta1"),
        ({"cluster.x-k8s.io/v1beta1": "v1alpha6_v1beta1_v1alpha10"}, "v1beta1"),
        ({"cluster.x-k8s.io/v1beta1": "v2_v10_x_v1beta9"}, "v10"),
        ({"cluster.x-k8s.io/v1beta1": "v9", "cluster.x-k8s.io/v1beta2": "v1alpha1"}, "v1alpha1"),
    ],
)
def test_newest_version_of_the_newest_contract_is_used(labels: dict[str, str], version: str) -> None:
    assert version_for_cluster_api(labels) == version


@pytest.mark.parametrize(
    ("kustomization", "labels"),
    [
        ("labels: [{pairs: {a: b}}, {includeSelectors: true, pairs: {c: d}}]", {"a": "b", "c": "d"}),
        ("commonLabels: {a: b}\nlabels:\n", {"a": "b"}),
        ("resources: [a.yaml]", {}),
        ("labels: [nonsense, {pairs: nonsense}]\ncommonLabels: []", {}),
        ("- a list", {}),
    ],
)
def test_labels_are_read_from_kustomizations(kustomization: str, labels: dict[str, str]) -> None:
    assert stated_labels(load(kustomization)) == labels
