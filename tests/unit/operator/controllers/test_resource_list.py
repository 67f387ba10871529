"""Errors of objects within the size limit of a status."""

from __future__ import annotations

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from clusterstacks.deliver.apply.results import ObjectResult
from clusterstacks.model.kinds.meta import ResourceEntry
from clusterstacks.model.kinds.names import ResourceStatus
from clusterstacks.model.objects import ObjectId
from clusterstacks.operator.controllers.resource_list import (
    ERROR_BYTES,
    ERRORS_BYTES,
    bounded,
    describe_failures,
    entries,
    listed,
)

ETCD_BYTES = 1_500_000


def failing(number: int, error: str) -> ObjectResult:
    identity = ObjectId("infrastructure.cluster.x-k8s.io", "DemoMachineTemplate", "n" * 63, f"{'o' * 100}-{number}")
    return ObjectResult(identity, "v1beta1", synced=False, error=error, uid="u" * 36, digest="sha256:" + "d" * 64)


@pytest.mark.regression("SEC-19")
def test_two_thousand_failing_objects_fit_into_etcd() -> None:
    found = entries(failing(number, "x" * 3000) for number in range(2000))

    assert len(found) == 2000
    assert {one["status"] for one in found} == {"not-synced"}
    assert len(orjson.dumps(found)) < ETCD_BYTES / 2
    assert sum("error" in one for one in found) == ERRORS_BYTES // ERROR_BYTES


@pytest.mark.parametrize(
    "identity", [ObjectId("apps", "Deployment", "kube-system", "app"), ObjectId("", "Namespace", "", "app")], ids=str
)
def test_entry_is_what_the_model_writes(identity: ObjectId) -> None:
    model = ResourceEntry.model_validate({**identity._asdict(), "version": "v1", "status": "synced"})

    assert listed(identity, "v1", ResourceStatus.SYNCED) == model.document()


def test_error_of_usual_length_is_not_truncated() -> None:
    results = [failing(number, f"{number}: {'x' * 200}") for number in range(100)]

    assert [one["error"] for one in entries(results)] == [one.error for one in results]


def test_message_names_three_objects_and_counts_the_others() -> None:
    results = [failing(number, "x" * 3000) for number in range(10)]
    found = describe_failures([ObjectResult(results[0].id, "v1", synced=True), *results])

    assert found.endswith("; and 7 more objects fail")
    assert len(found) < 4 * ERROR_BYTES
    assert "more" not in describe_failures(results[:3])


@given(errors=st.lists(st.text(max_size=ERROR_BYTES), max_size=200))
def test_errors_never_exceed_their_limits(errors: list[str]) -> None:
    results = [failing(number, error * 3) for number, error in enumerate(errors)]
    stated = [one.get("error", "").encode() for one in entries(results)]

    assert all(len(error) <= ERROR_BYTES for error in stated)
    assert sum(map(len, stated)) <= ERRORS_BYTES


@given(error=st.text())
def test_short_error_is_unchanged(error: str) -> None:
    assert bounded(error[:500]) == error[:500]
