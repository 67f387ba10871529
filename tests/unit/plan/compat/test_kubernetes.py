"""Facts about removed API versions."""

from __future__ import annotations

import pytest

from clusterstacks.model.versions import KubernetesMinor
from clusterstacks.plan.compat.kubernetes import removed_apis


@pytest.mark.parametrize(
    ("api_version", "kind", "removed_in", "replacement"),
    [
        ("extensions/v1beta1", "Deployment", "1.16", "apps/v1"),
        ("policy/v1beta1", "PodDisruptionBudget", "1.25", "policy/v1"),
        ("autoscaling/v2beta2", "HorizontalPodAutoscaler", "1.26", "autoscaling/v2"),
        ("flowcontrol.apiserver.k8s.io/v1beta3", "FlowSchema", "1.32", "flowcontrol.apiserver.k8s.io/v1"),
    ],
)
def test_removed_apis_equal_the_deprecation_guide(
    api_version: str, kind: str, removed_in: str, replacement: str
) -> None:
    removed = removed_apis()[api_version, kind]
    assert removed.removed_in == KubernetesMinor.parse(removed_in)
    assert removed.replacement == replacement
    assert not removed.scheduled


def test_every_removed_api_names_its_source_and_replacement() -> None:
    for (api_version, kind), removed in removed_apis().items():
        assert removed.source.startswith("https://"), (api_version, kind)
        assert removed.replacement != api_version, kind


def test_current_api_versions_are_not_listed_as_removed() -> None:
    assert not {("apps/v1", "Deployment"), ("v1", "Pod"), ("policy/v1", "PodDisruptionBudget")} & removed_apis().keys()
