"""What the sources after a source with waitFor wait for."""

from __future__ import annotations

import pytest

from clusterstacks.deliver.apply.delivery_plan import DeliveryState
from clusterstacks.deliver.apply.health import HealthReport, UnhealthyObject
from clusterstacks.deliver.apply.health_rules import Health, HealthState
from clusterstacks.deliver.apply.results import DeliveryReport, ObjectResult
from clusterstacks.deliver.apply.source_objects import SourceObjects
from clusterstacks.model.kinds.names import Reason
from clusterstacks.model.objects import ObjectId
from clusterstacks.operator.controllers.clusterresourcesync.source_wait import wait_for_delivery, wait_for_health
from tests.support.builders.manifests import deployment, named

PLACED = ObjectId("apps", "Deployment", "kube-system", "placed")
NAMED = ObjectId("apps", "Deployment", "team", "named")
CLUSTER_WIDE = ObjectId("storage.k8s.io", "StorageClass", "", "fast")
OTHER = ObjectId("apps", "Deployment", "team", "placed")
SOURCE = SourceObjects(
    "ConfigMap team/operator",
    (
        deployment("placed"),
        deployment("named", "team"),
        named("storage.k8s.io/v1", "StorageClass", "fast", "no-namespace"),
    ),
)


def report(**errors: str) -> DeliveryReport:
    results = [
        ObjectResult(one, "v1", synced=one.name not in errors, error=errors.get(one.name, ""))
        for one in (PLACED, NAMED, CLUSTER_WIDE)
    ]
    failing = ObjectResult(OTHER, "v1", synced=False, error="of another source")
    return DeliveryReport("extra", DeliveryState.DELIVERING, (*results, failing))


def ill(identity: ObjectId, state: HealthState = HealthState.IN_PROGRESS) -> UnhealthyObject:
    return UnhealthyObject(identity, "extra", Health(state, "LessReplicas", "0 of 1 replicas exist"))


def test_delivered_source_holds_nothing_back_whatever_fails_elsewhere() -> None:
    assert wait_for_delivery(SOURCE, report()) is None
    assert wait_for_health(SOURCE, report(), HealthReport((ill(OTHER),), 4)) is None


@pytest.mark.parametrize("name", ["placed", "named", "fast"])
def test_object_that_is_not_applied_is_named(name: str) -> None:
    wait = wait_for_delivery(SOURCE, report(**{name: "refused"}))

    assert wait is not None
    assert wait.reason is Reason.OBJECTS_APPLYING_ONGOING
    assert wait.message.startswith("1 of 3 objects not applied: ")
    assert name in wait.message


def test_source_that_cannot_be_read_holds_the_others_back() -> None:
    wait = wait_for_delivery(SourceObjects("ConfigMap team/x", faults=("it does not exist",)), report())

    assert wait is not None
    assert (wait.reason, wait.message) == (Reason.SOURCE_INCOMPLETE, "it does not exist")


@pytest.mark.parametrize(
    ("state", "reason"),
    [(HealthState.IN_PROGRESS, Reason.OBJECTS_IN_PROGRESS), (HealthState.FAILED, Reason.OBJECTS_FAILED)],
)
def test_unhealthy_object_of_the_source_is_named(state: HealthState, reason: Reason) -> None:
    wait = wait_for_health(SOURCE, report(), HealthReport((ill(OTHER), ill(PLACED, state)), 4))

    assert wait is not None
    assert wait.reason is reason
    assert wait.message.startswith("1 of 3 objects are not healthy yet: Deployment.apps kube-system/placed: 0 of 1")


def test_unknown_health_is_not_taken_for_good() -> None:
    wait = wait_for_health(SOURCE, report(), None)

    assert wait is not None
    assert wait.reason is Reason.HEALTH_UNKNOWN
