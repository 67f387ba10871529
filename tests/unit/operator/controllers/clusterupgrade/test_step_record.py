"""The annotation by which a Cluster says which step was taken last, and whether it was set back."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from clusterstacks.model.kinds.addon_annotations import ADDON_ANNOTATION
from clusterstacks.model.kinds.clusterapi import ClusterView, cluster_view
from clusterstacks.model.kinds.names import UPGRADE_STEP_ANNOTATION
from clusterstacks.operator.controllers.clusterupgrade.step_record import MANAGER, StepRecord, other_writer
from clusterstacks.operator.controllers.clusterupgrade.stepper import Patch

if TYPE_CHECKING:
    from clusterstacks.model.objects import Manifest

TARGET = "p-s-1-35-v1"


def cluster(class_name: str = "p-s-1-34-v1", version: str = "v1.34.2", **annotations: str) -> ClusterView:
    metadata = {"name": "one", "namespace": "team", "uid": "1", "resourceVersion": "7", "annotations": annotations}
    topology = {"classRef": {"name": class_name}, "version": version}
    return cluster_view({"metadata": metadata, "spec": {"topology": topology}})


def taken(view: ClusterView, patch: dict[str, Any]) -> tuple[Manifest, dict[str, str]]:
    """Return the patch of the next step, and the annotation of the Cluster afterwards."""
    body = StepRecord.of(view, "u", TARGET).next(view, "u", TARGET, Patch([{"patch": patch}], "7"))
    return body, {UPGRADE_STEP_ANNOTATION: body["metadata"]["annotations"][UPGRADE_STEP_ANNOTATION]}


MOVE = {"spec": {"topology": {"classRef": {"name": "p-s-1-35-v1"}, "version": "v1.35.4"}}}


def test_a_step_is_written_with_its_number_and_the_precondition() -> None:
    body, note = taken(cluster(), MOVE)

    assert body["spec"] == MOVE["spec"]
    assert body["metadata"]["resourceVersion"] == "7"
    record = StepRecord.of(cluster("p-s-1-35-v1", "v1.35.4", **note), "u", TARGET)
    assert record.number == 1
    assert not record.set_back(cluster("p-s-1-35-v1", "v1.35.4"))


@pytest.mark.parametrize(
    ("present", "is_set_back"),
    [
        (cluster("p-s-1-35-v1", "v1.35.4"), False),
        (cluster("p-s-1-34-v1", "v1.34.2"), True),
        (cluster("p-s-1-35-v1", "v1.34.2"), True),
        (cluster("p-s-1-34-v1", "v1.35.4"), True),
        (cluster("p-s-1-35-v2", "v1.35.7"), False),
    ],
)
def test_a_class_or_version_from_before_the_step_is_set_back(present: ClusterView, *, is_set_back: bool) -> None:
    _, note = taken(cluster(), MOVE)
    record = StepRecord.of(cluster(**note), "u", TARGET)
    assert record.set_back(present) is is_set_back


def test_an_annotation_from_before_the_step_is_set_back() -> None:
    name = f"{ADDON_ANNOTATION}cni"
    _, note = taken(cluster(), {"metadata": {"annotations": {name: "p-s-1-34-v2"}}})
    record = StepRecord.of(cluster(**note), "u", TARGET)

    assert record.set_back(cluster())
    assert not record.set_back(cluster(**{name: "p-s-1-34-v2"}))
    assert not record.set_back(cluster(**{name: "p-s-1-34-v3"}))


def test_a_step_that_is_set_back_is_noted_also_when_another_is_taken_in_between() -> None:
    _, note = taken(cluster(), MOVE)
    _, again = taken(cluster(**note), {"metadata": {"annotations": {f"{ADDON_ANNOTATION}cni": "p-s-1-34-v2"}}})
    record = StepRecord.of(cluster(**again), "u", TARGET)
    assert (record.number, record.set_backs) == (2, 1)

    name = f"{ADDON_ANNOTATION}cni"
    _, further = taken(cluster(**again, **{name: "p-s-1-34-v2"}), MOVE)
    record = StepRecord.of(cluster(**further), "u", TARGET)
    assert (record.number, record.set_backs) == (3, 1)
    assert record.set_back(cluster(**further))


@pytest.mark.parametrize(
    "note",
    [
        *("", "{", "[]", "7", "null", '{"by": "u"}', '{"by": 7, "target": []}'),
        json.dumps({"by": "u", "target": TARGET, "number": "x"}),
        json.dumps({"by": "u", "target": TARGET, "number": 1, "before": 7}),
        json.dumps({"by": "another", "target": TARGET, "number": 3}),
        json.dumps({"by": "u", "target": "v1.36.3", "number": 3}),
    ],
)
def test_annotation_that_is_not_readable_is_that_of_no_step(note: str) -> None:
    assert StepRecord.of(cluster(**{UPGRADE_STEP_ANNOTATION: note}), "u", TARGET) == StepRecord()


def test_the_last_other_writer_of_the_topology_is_named() -> None:
    def entry(manager: str, time: str, fields: dict[str, Any], **more: str) -> Manifest:
        return {"manager": manager, "time": time, "fieldsV1": fields, **more}

    topology: Manifest = {"f:spec": {"f:topology": {"f:version": {}}}}
    managed = [
        entry("kubectl", "2026-01-01T00:00:00Z", topology),
        entry("argocd-controller", "2026-01-02T00:00:00Z", topology),
        entry(MANAGER, "2026-01-03T00:00:00Z", topology),
        entry("capi-topology", "2026-01-04T00:00:00Z", {"f:spec": {"f:infrastructureRef": {}}}),
        entry("capi", "2026-01-05T00:00:00Z", topology, subresource="status"),
    ]
    assert other_writer({"metadata": {"managedFields": managed}}) == "argocd-controller"
    assert other_writer({}) == "that is not known"
