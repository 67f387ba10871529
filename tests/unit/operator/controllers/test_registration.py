"""Objects in the cache of a controller."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from clusterstacks.operator.controllers.clusteraddon.registration import without_resources

if TYPE_CHECKING:
    from clusterstacks.model.objects import Manifest

CREATED = "2026-11-01T00:00:00Z"


def one(status: str = "", since: str = "2026-11-02T00:00:00Z") -> Manifest:
    ready = {"type": "Ready", "status": status, "message": "long", "reason": "R", "lastTransitionTime": since}
    return {
        "metadata": {"name": "x", "creationTimestamp": CREATED},
        **({"status": {"conditions": [{"type": "Other", "status": "False"}, ready]}} if status else {}),
    }


@pytest.mark.regression("LIVE-M1")
def test_of_the_delivered_objects_only_those_of_removed_apis_are_cached() -> None:
    served = {"group": "apps", "version": "v1", "kind": "Deployment", "name": "one"}
    removed = {"group": "policy", "version": "v1beta1", "kind": "PodDisruptionBudget", "name": "two"}
    status = {"ready": True, "resources": [served, removed]}

    assert without_resources({**one(), "status": status})["status"] == {"ready": True, "resources": [removed]}
    assert without_resources(one("True")) == one("True")
    # The API server does not check the list.
    assert without_resources({**one(), "status": {"resources": "text"}})["status"] == {"resources": []}
