from __future__ import annotations

import pytest

from clusterstacks.csctl.authoring.example_objects import make_example_objects, read_example_objects
from clusterstacks.model.errors import SpecError
from clusterstacks.model.names import parse_class
from clusterstacks.model.versions import KubernetesVersion

NAME, VERSION = parse_class("test-tiny-1-35-v1"), KubernetesVersion(1, 35, 4)
CLUSTER = "apiVersion: cluster.x-k8s.io/v1beta2\nkind: Cluster\nmetadata: {name: a, namespace: b}\n"
REFERENCES = """\
spec:
  controlPlaneRef: {apiGroup: a, kind: Pilot, name: a}
  infrastructureRef: {apiGroup: a, kind: Ground, name: a}
"""


def test_example_objects_are_found_by_the_references_of_the_cluster() -> None:
    text = f"{CLUSTER}{REFERENCES}---\nkind: Ground\n---\nkind: Pilot\n---\nkind: OtherCluster\n"
    examples = read_example_objects(text.encode(), "a.yaml")

    assert (examples.control_plane, examples.infrastructure) == ({"kind": "Pilot"}, {"kind": "Ground"})


def test_without_references_example_objects_are_found_by_kind() -> None:
    examples = read_example_objects(f"{CLUSTER}---\nkind: XControlPlane\n---\nkind: XCluster\n".encode(), "a.yaml")

    assert (examples.control_plane, examples.infrastructure) == ({"kind": "XControlPlane"}, {"kind": "XCluster"})


@pytest.mark.parametrize("text", ["", "[]", "a: 1", f"{CLUSTER}---\n{CLUSTER}", "{"])
def test_file_without_exactly_one_cluster_is_rejected(text: str) -> None:
    with pytest.raises(SpecError, match=r"a\.yaml"):
        read_example_objects(text.encode(), "a.yaml")


def test_class_without_variables_gives_an_example_cluster() -> None:
    examples = make_example_objects(NAME, VERSION, [])

    assert examples.data["Cluster"]["spec"]["topology"]["class"] == "test-tiny-1-35-v1"
    assert read_example_objects(examples.text().encode(), "a.yaml") == examples


def test_defaults_inside_of_a_variable_are_filled_in_as_cluster_api_does() -> None:
    schema = {"type": "object", "default": {}, "properties": {"a": {"default": 1}, "b": {"type": "string"}}}
    variables = [{"name": "x", "schema": {"openAPIV3Schema": schema}}, {"name": "y", "schema": {}}]
    cluster_class = {"apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "ClusterClass", "spec": {"variables": variables}}

    assert make_example_objects(NAME, VERSION, [cluster_class]).cluster["spec"]["topology"]["variables"] == [
        {"name": "x", "value": {"a": 1}}
    ]
