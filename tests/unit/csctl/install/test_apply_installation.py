"""Decisions while an installation is applied: what is said of removals, what is awaited, and why pods do not start."""

from __future__ import annotations

from typing import Any

import pytest

from clusterstacks.csctl.install.apply_installation import (
    pod_problem,
    removals,
    webhook_configuration,
    webhook_service,
)
from clusterstacks.deliver.apply.prune_plan import PruneOutcome, PruneResult
from clusterstacks.deliver.apply.results import PruneReport, Removal
from clusterstacks.model.errors import DependencyError
from clusterstacks.model.objects import ObjectId


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


def report(*results: PruneResult) -> PruneReport:
    """Return a report about a Service for each result."""
    removed = [
        Removal("operator", ObjectId("", "Service", "home", str(number)), one) for number, one in enumerate(results)
    ]
    return PruneReport(tuple(removed), {}, {}, complete=True)


def test_deleted_and_kept_objects_are_named_and_those_that_were_gone_before_are_not() -> None:
    found = report(
        PruneResult(PruneOutcome.KEPT, "its annotation disables pruning"),
        PruneResult(PruneOutcome.GONE, "another object with its name exists now"),
        PruneResult(PruneOutcome.GONE),
    )
    assert removals(found) == ["deleted Service home/2", "kept Service home/0: its annotation disables pruning"]


def test_an_object_that_is_not_deleted_is_an_error() -> None:
    with pytest.raises(DependencyError, match="Service home/1: it waits for a finalizer"):
        removals(report(PruneResult(PruneOutcome.GONE), PruneResult(PruneOutcome.PENDING, "it waits for a finalizer")))
