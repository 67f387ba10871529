"""The facts on removed API versions."""

from __future__ import annotations

import pytest

from clusterstacks.compat.kubernetes import removed_apis
from clusterstacks.domain.versions import KubernetesMinor


@pytest.mark.parametrize(
    ("api_version", "kind", "removed_in", "replacement"),
    [
        ("extensions/v1beta1", "Deployment", "1.16", "apps/v1"),
        ("policy/v1beta1", "PodDisruptionBudget", "1.25", "policy/v1"),
        ("autoscaling/v2beta2", "HorizontalPodAutoscaler", "1.26", "autoscaling/v2"),
        ("flowcontrol.apiserver.k8s.io/v1beta3", "FlowSchema", "1.32", "flowcontrol.apiserver.k8s.io/v1"),
    ],
)
def test_the_deprecation_guide_is_repeated_faithfully(
    api_version: str, kind: str, removed_in: str, replacement: str
) -> None:
    removed = removed_apis()[api_version, kind]
    assert removed.removed_in == KubernetesMinor.parse(removed_in)
    assert removed.replacement == replacement
    assert not removed.scheduled


def test_every_fact_names_its_source_and_leads_to_another_api_version() -> None:
    for (api_version, kind), removed in removed_apis().items():
        assert removed.source.startswith("https://"), (api_version, kind)
        assert removed.replacement != api_version, kind


def test_a_version_in_use_today_is_not_among_them() -> None:
    assert not {("apps/v1", "Deployment"), ("v1", "Pod"), ("policy/v1", "PodDisruptionBudget")} & removed_apis().keys()
