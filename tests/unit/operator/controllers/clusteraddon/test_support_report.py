"""The condition about a Kubernetes minor that leaves support."""

from __future__ import annotations

from datetime import date, timedelta

import pytest

from clusterstacks.model.kinds.names import API_VERSION, AddonCondition, Kind
from clusterstacks.model.versions import KubernetesMinor
from clusterstacks.operator.controllers.clusteraddon.compat_check import report_support
from clusterstacks.operator.controllers.status_reconciler import StatusPatch
from clusterstacks.plan.compat.support import SOON_DAYS

MINOR, END = KubernetesMinor(1, 34), date(2026, 10, 27)


def addon() -> StatusPatch:
    metadata = {"name": "cluster-addon-one", "namespace": "team"}
    return StatusPatch({"apiVersion": API_VERSION, "kind": Kind.CLUSTER_ADDON.value, "metadata": metadata})


def test_the_condition_changes_twice_in_a_thousand_days() -> None:
    patch, seen = addon(), list[tuple[str, str, str]]()
    for day in range(1000):
        report_support(patch, MINOR, END + timedelta(days=day - 500))
        found = patch.condition(AddonCondition.SUPPORTED)
        told = (found.reason, found.severity, found.message.split(" (")[0]) if found is not None else ("", "", "")
        if told not in seen[-1:]:
            seen.append(told)

    assert seen == [
        ("", "", ""),
        ("SupportEndsSoon", "Info", "Kubernetes 1.34 leaves support on 2026-10-27"),
        ("SupportEnded", "Warning", "Kubernetes 1.34 left support on 2026-10-27"),
    ]


@pytest.mark.parametrize("minor", [KubernetesMinor(1, 36), KubernetesMinor(1, 99)])
def test_a_minor_that_is_supported_or_unknown_has_no_condition(minor: KubernetesMinor) -> None:
    patch = addon()
    report_support(patch, MINOR, END - timedelta(days=SOON_DAYS))
    report_support(patch, minor, END)
    assert patch.condition(AddonCondition.SUPPORTED) is None
