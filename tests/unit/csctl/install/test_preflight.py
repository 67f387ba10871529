"""Facts about a management cluster, and what ``csctl install --check`` says of them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from clusterstacks.csctl.install.installations import Installation, OperatorDeployment, Program
from clusterstacks.csctl.install.preflight import (
    NEWEST_KUBERNETES,
    OLDEST_KUBERNETES,
    RUNTIME,
    TOPOLOGY,
    ClusterFacts,
    checks,
    problems,
)
from clusterstacks.model.objects import ObjectKey
from clusterstacks.model.versions import KubernetesMinor


def operator(available: int, owner: Installation = Installation(Program.CSCTL, "a")) -> OperatorDeployment:  # noqa: B008 - immutable
    return OperatorDeployment(key=ObjectKey("a", "b"), owner=owner, desired=2, available=available)


GOOD = ClusterFacts(kubernetes=NEWEST_KUBERNETES, served=("v1beta2", "v1beta1"), gates={TOPOLOGY: True, RUNTIME: True})


def test_a_good_cluster_has_no_problem() -> None:
    assert {one.result for one in checks(GOOD)} == {"ok"}
    assert not problems(checks(GOOD))


@pytest.mark.parametrize(
    ("change", "subject", "result", "words"),
    [
        ({"kubernetes": KubernetesMinor(1, 29)}, "Kubernetes", "problem", "upgrade the management cluster to 1.30"),
        ({"kubernetes": OLDEST_KUBERNETES}, "Kubernetes", "ok", "supported: 1.30 to"),
        ({"kubernetes": KubernetesMinor(1, 99)}, "Kubernetes", "warning", "newer than the newest tested"),
        ({"kubernetes": KubernetesMinor(2, 0)}, "Kubernetes", "warning", "newer than the newest tested"),
        ({"served": ()}, "Cluster API", "problem", "clusterctl init"),
        ({"served": ("v1beta1",)}, "Cluster API", "warning", "1.11 or newer"),
        ({"served": ("v1beta9",)}, "Cluster API", "problem", "v1beta2 or v1beta1"),
        ({"cluster_api": "v1.14.2"}, "Cluster API", "ok", "v1.14.2, serves v1beta2 and v1beta1"),
        ({"gates": {TOPOLOGY: False, RUNTIME: True}}, "feature gate ClusterTopology", "problem", "CLUSTER_TOPOLOGY"),
        ({"gates": {TOPOLOGY: True, RUNTIME: False}}, "feature gate RuntimeSDK", "warning", "EXP_RUNTIME_SDK"),
        ({"gates": {TOPOLOGY: None, RUNTIME: True}}, "feature gate ClusterTopology", "unknown", "your rights"),
        ({"refusals": ("create x: 403",)}, "installation", "problem", "create x: 403"),
        ({"go_operators": (ObjectKey("cso-system", "cso"),)}, "Go operator", "problem", "-n cso-system scale deploy"),
        ({"leftovers": ("it calls. Remove it with 'x'",)}, "Go operator", "warning", "Remove it with 'x'"),
        ({"here": operator(2, Installation(Program.HELM, "a", "b"))}, "operator", "warning", "helm upgrade b -n a"),
        (
            {"here": operator(2, Installation(Program.CLUSTERCTL, "a"))},
            "operator",
            "warning",
            "clusterctl upgrade apply",
        ),
        ({"here": operator(2)}, "operator", "ok", "2 of 2"),
        ({"here": operator(1)}, "operator", "warning", "1 of 2"),
        ({"here": operator(0)}, "operator", "warning", "kubectl describe pods"),
        ({"here": operator(2), "webhooks": ""}, "webhooks", "ok", "reachable"),
        ({"here": operator(2), "webhooks": "timed out"}, "webhooks", "warning", "timed out"),
        ({"here": operator(2)}, "webhooks", "unknown", "not registered"),
        (
            {"here": operator(2), "unrestricted_from": ("192.0.2.11", "2001:db8::1")},
            "network policy",
            "ok",
            "networkPolicy.apiServers to [192.0.2.11/32, 2001:db8::1/128]",
        ),
        ({"here": replace(operator(2), is_go=True)}, "operator", "ok", "not installed yet"),
        ({"conflicts": ("Deployment a/b is another one",)}, "installation", "problem", "a/b is another one"),
        ({"unserved": ("ClusterStack",)}, "kinds", "warning", "csctl crds | kubectl apply"),
    ],
)
def test_what_a_fact_means(change: dict[str, Any], subject: str, result: str, words: str) -> None:
    found = checks(replace(GOOD, **change))
    assert [one for one in found if one.subject == subject and one.result == result and words in one.details], found
    assert bool(problems(found)) == (result == "problem")


def test_gates_are_not_checked_without_cluster_api() -> None:
    found = checks(replace(GOOD, served=(), gates={TOPOLOGY: None, RUNTIME: None}))
    assert not [one for one in found if one.subject.startswith("feature gate")]
