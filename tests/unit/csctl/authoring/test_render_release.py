from __future__ import annotations

from typing import Any

import pytest

from clusterstacks.csctl.authoring.render_release import images_of

POD: dict[str, Any] = {
    "initContainers": [{"name": "a", "image": "init:1"}],
    "containers": [{"name": "b", "image": "main:1"}, {"name": "c", "image": "init:1"}, {"name": "d"}],
    "ephemeralContainers": [{"name": "e", "image": "debug:1"}],
    "volumes": [{"name": "f", "image": {"reference": "data:1"}}, {"name": "g", "emptyDir": {}}],
}
ALL = ("data:1", "debug:1", "init:1", "main:1")


def workload(api_version: str, kind: str, *path: str) -> dict[str, Any]:
    spec: dict[str, Any] = POD
    for key in reversed(path):
        spec = {key: spec}
    return {"apiVersion": api_version, "kind": kind, "metadata": {"name": "x"}, **spec}


@pytest.mark.parametrize(
    "manifest",
    [
        workload("v1", "Pod", "spec"),
        workload("v1", "PodTemplate", "template", "spec"),
        workload("v1", "ReplicationController", "spec", "template", "spec"),
        workload("apps/v1", "DaemonSet", "spec", "template", "spec"),
        workload("apps/v1", "Deployment", "spec", "template", "spec"),
        workload("apps/v1", "ReplicaSet", "spec", "template", "spec"),
        workload("apps/v1", "StatefulSet", "spec", "template", "spec"),
        workload("batch/v1", "CronJob", "spec", "jobTemplate", "spec", "template", "spec"),
        workload("batch/v1", "Job", "spec", "template", "spec"),
    ],
    ids=lambda manifest: manifest["kind"],
)
def test_images_of_every_workload_kind_are_found(manifest: dict[str, Any]) -> None:
    assert images_of([manifest, manifest]) == ALL


@pytest.mark.parametrize(
    "manifest",
    [
        {},
        {"apiVersion": "v1", "kind": "Pod"},
        {"apiVersion": "v1", "kind": "Pod", "spec": [1]},
        {"apiVersion": "v1", "kind": "Pod", "spec": {"containers": {"image": "x"}, "volumes": ["x"]}},
        workload("example.com/v1", "Deployment", "spec", "template", "spec"),
    ],
)
def test_objects_without_pods_have_no_images(manifest: dict[str, Any]) -> None:
    assert images_of([manifest]) == ()
