"""The words of csctl history and csctl status about one entry of the history, also for entries of other versions."""

from __future__ import annotations

from typing import Any

import pytest

from clusterstacks.plan.clusters.deliveries import PastDelivery, past_deliveries

ENTRY: dict[str, Any] = {
    "began": "2026-11-23T10:00:00Z",
    "ended": "2026-11-23T10:00:12Z",
    "occasion": "Upgrade",
    "fromRelease": "local-demo-1-35-v1",
    "release": "local-demo-1-36-v2",
    "fromKubernetesVersion": "v1.35.4",
    "kubernetesVersion": "v1.36.1",
    "hooks": ["BeforeClusterUpgrade", "AfterClusterUpgrade"],
    "stages": "3/3",
    "created": 3,
    "changed": 1,
    "removed": 0,
    "unchanged": 7,
    "addons": [
        {"name": "cni", "created": 3, "createdObjects": ["ConfigMap kube-system/a"]},
        {"name": "dns", "changed": 1, "changedObjects": ["ConfigMap kube-system/b"]},
    ],
    "addonsNotListed": 2,
    "result": "Delivered",
}


def test_an_entry_is_described_in_words() -> None:
    one = PastDelivery(ENTRY)
    assert one.title == "upgrade 1.35-v1 → 1.36-v2, Kubernetes v1.35.4 → v1.36.1"
    assert one.outcome == "delivered after 12s, 3/3 stages (BeforeClusterUpgrade, AfterClusterUpgrade)"
    assert one.numbers == "3 created, 1 changed, 0 removed, 7 unchanged"
    assert one.failure == ""
    assert list(one.changes()) == [
        ("cni", "", ""),
        ("", "+", "ConfigMap kube-system/a"),
        ("", "+", "2 more, not listed"),
        ("dns", "", ""),
        ("", "~", "ConfigMap kube-system/b"),
        ("2 more addons, not listed", "", ""),
    ]


@pytest.mark.parametrize(
    ("changed", "title", "outcome"),
    [
        (
            {"occasion": "Install", "fromRelease": "", "fromKubernetesVersion": "", "hooks": [], "stages": "1/1"},
            "install v2, Kubernetes v1.36.1",
            "delivered after 12s, 1/1 stages",
        ),
        (
            {"occasion": "Refresh", "fromRelease": "local-demo-1-36-v2", "hooks": None, "stages": ""},
            "refresh v2, Kubernetes v1.35.4 → v1.36.1",
            "delivered after 12s",
        ),
        (
            {"result": "RolledBack", "ended": "", "hooks": "x", "fromKubernetesVersion": 7, "fromRelease": "class-x"},
            "upgrade class-x → v2, Kubernetes v1.36.1",
            "rolled back, 3/3 stages",
        ),
    ],
)
def test_other_occasions_and_fields_in_another_form(changed: dict[str, Any], title: str, outcome: str) -> None:
    one = PastDelivery({**ENTRY, **changed})
    assert (one.title, one.outcome) == (title, outcome)


@pytest.mark.parametrize("addon", [None, {}, {"status": {"history": "x"}}, {"status": {"history": [1]}}])
def test_without_a_history_there_are_no_deliveries(addon: dict[str, Any] | None) -> None:
    assert past_deliveries(addon) == []
