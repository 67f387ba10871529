"""Decisions while an installation is applied: what goes, what is awaited, and why pods do not start."""

from __future__ import annotations

from typing import Any

import pytest

from clusterstacks.csctl.install.apply_installation import (
    no_longer_rendered,
    pod_problem,
    taken_over,
    unfinished,
    webhook_configuration,
    webhook_service,
)
from clusterstacks.model.objects import ObjectId


def test_objects_that_the_chart_no_longer_has_are_deleted() -> None:
    kept, gone = ObjectId("policy", "PodDisruptionBudget", "a", "one"), ObjectId("", "Service", "a", "metrics")
    rendered = {"apiVersion": "policy/v1beta1", "kind": "PodDisruptionBudget", "metadata": {"name": "one"}}
    rendered["metadata"] = {"name": "one", "namespace": "a"}
    assert no_longer_rendered([kept, gone], [rendered]) == [gone]


@pytest.mark.parametrize(
    ("status", "expected"),
    [
        ({"observedGeneration": 1}, "the Deployment is not processed yet"),
        ({"observedGeneration": 2, "updatedReplicas": 1}, "1 of 2 replicas have the new version"),
        ({"observedGeneration": 2, "updatedReplicas": 2, "replicas": 3}, "replicas of the old version are stopping"),
        (
            {"observedGeneration": 2, "updatedReplicas": 2, "replicas": 2, "availableReplicas": 1},
            "1 of 2 replicas are available",
        ),
        ({"observedGeneration": 2, "updatedReplicas": 2, "replicas": 2, "availableReplicas": 2}, ""),
    ],
)
def test_a_rolling_update_is_finished_when_all_replicas_are_new_and_available(
    status: dict[str, Any], expected: str
) -> None:
    assert unfinished({"metadata": {"generation": 2}, "spec": {"replicas": 2}, "status": status}) == expected


@pytest.mark.parametrize(
    ("status", "expected"),
    [
        (
            {"containerStatuses": [{"state": {"waiting": {"reason": "ImagePullBackOff", "message": "not found"}}}]},
            "pod one: ImagePullBackOff: not found",
        ),
        ({"containerStatuses": [{"state": {"terminated": {"reason": "OOMKilled"}}}]}, "pod one: OOMKilled"),
        (
            {"conditions": [{"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "full"}]},
            "pod one: Unschedulable: full",
        ),
        ({"containerStatuses": [{"state": {"running": {}}}]}, "pod one is not ready: see its log"),
        ({"conditions": [{"type": "Ready", "status": "True"}]}, ""),
    ],
)
def test_why_a_pod_does_not_start(status: dict[str, Any], expected: str) -> None:
    assert pod_problem({"metadata": {"name": "one"}, "status": status}) == expected


@pytest.mark.parametrize(
    ("arguments", "expected"), [(["--webhook-port=0"], None), (["--webhook-service=home/hooks"], ("home", "hooks"))]
)
def test_the_service_of_the_webhooks(arguments: list[str], expected: tuple[str, str] | None) -> None:
    assert webhook_service({"spec": {"template": {"spec": {"containers": [{"args": arguments}]}}}}) == expected


def entry(manager: str, operation: str, **fields: Any) -> dict[str, Any]:
    return {"manager": manager, "operation": operation, "apiVersion": "apps/v1", "fieldsV1": fields}


@pytest.mark.parametrize(("manager", "operation"), [("kubectl", "Apply"), ("kubectl-client-side-apply", "Update")])
def test_fields_that_kubectl_applied_become_those_of_csctl(manager: str, operation: str) -> None:
    controller = entry("kube-controller-manager", "Update", **{"f:status": {}})
    own = entry("csctl", "Apply", **{"f:spec": {"f:replicas": {}}})
    theirs = entry(manager, operation, **{"f:spec": {"f:template": {}}, "f:metadata": {}})
    joined = entry("csctl", "Apply", **{"f:spec": {"f:replicas": {}, "f:template": {}}, "f:metadata": {}})

    assert taken_over([controller, own, theirs]) == [controller, joined]
    assert taken_over([theirs]) == [{**theirs, "manager": "csctl", "operation": "Apply"}]


@pytest.mark.parametrize(
    "managed", [[], [entry("csctl", "Apply")], [entry("kubectl", "Update")], [entry("flux", "Apply")]]
)
def test_fields_of_other_managers_stay_theirs(managed: list[dict[str, Any]]) -> None:
    assert taken_over(managed) is None


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["--webhook-port=0"], ""),
        (["--webhook-service=a/b"], "cluster-stack-operator"),
        (["--webhook-service=a/b", "--namespace=team-a"], "cluster-stack-operator-team-a"),
    ],
)
def test_the_webhooks_that_an_installation_registers(arguments: list[str], expected: str) -> None:
    spec = {"template": {"spec": {"containers": [{"args": arguments}]}}}
    deployment = {"kind": "Deployment", "metadata": {"name": "a", "namespace": "b"}, "spec": spec}
    assert webhook_configuration([{"kind": "Service"}, deployment]) == expected
