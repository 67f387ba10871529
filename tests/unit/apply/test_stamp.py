from __future__ import annotations

import copy
from typing import Any

import pytest
from hypothesis import given

from clusterstacks.apply.ownership import OWNED_LABEL, PART_OF_LABEL
from clusterstacks.apply.targets import documents, sent_texts, stamped
from clusterstacks.domain.errors import SpecError
from tests.support.builders.documents import JSON
from tests.support.builders.manifests import config_map, cron_job, deployment, named


def labels_of(manifest: Any, *path: str) -> dict[str, str]:
    for step in path:
        manifest = manifest[step]
    labels: dict[str, str] = manifest["metadata"]["labels"]
    return labels


def test_objects_get_both_labels() -> None:
    sent = stamped(config_map("a"), namespace="n", part_of="set")

    assert sent["metadata"] == {
        "name": "a",
        "namespace": "n",
        "labels": {OWNED_LABEL: "owned", PART_OF_LABEL: "set"},
    }


def test_pod_templates_get_the_go_operators_label_only() -> None:
    """ArgoCD-like labels in templates would roll the workload whenever they change."""
    sent = stamped(deployment("a"), namespace="n", part_of="set")

    assert labels_of(sent, "spec", "template") == {"app": "a", OWNED_LABEL: "owned"}


def test_pod_templates_of_cron_jobs_and_those_without_metadata_too() -> None:
    job = cron_job("a")
    del job["spec"]["jobTemplate"]["spec"]["template"]["metadata"]

    sent = stamped(job, namespace="n", part_of="set")

    assert labels_of(sent, "spec", "jobTemplate", "spec", "template") == {OWNED_LABEL: "owned"}


@pytest.mark.parametrize("spec", [None, {}, {"template": None}, {"template": []}, []])
def test_a_workload_without_a_template_is_left_to_the_server(spec: Any) -> None:
    sent = stamped(named("apps/v1", "Deployment", "a", spec=spec), namespace="n")

    assert sent["spec"] == spec


def test_cluster_wide_objects_never_get_a_namespace() -> None:
    sent = stamped(named("storage.k8s.io/v1", "StorageClass", "a", "written"), namespace="")

    assert "namespace" not in sent["metadata"]


def test_what_only_servers_write_is_not_sent() -> None:
    manifest = config_map("a")
    manifest["metadata"] |= {
        "uid": "u",
        "resourceVersion": "1",
        "generation": 2,
        "managedFields": [],
        "creationTimestamp": None,
        "annotations": {"a": "b"},
    }

    assert set(stamped(manifest, namespace="n")["metadata"]) == {"name", "namespace", "labels", "annotations"}


def test_a_part_of_label_in_the_chart_counts_for_nothing() -> None:
    manifest = config_map("a")
    manifest["metadata"]["labels"] = {PART_OF_LABEL: "another"}

    assert PART_OF_LABEL not in labels_of(stamped(manifest, namespace="n"))
    assert labels_of(stamped(manifest, namespace="n", part_of="set"))[PART_OF_LABEL] == "set"


@pytest.mark.parametrize("manifest", [deployment("a"), cron_job("a"), config_map("a")])
def test_the_rendered_manifest_stays_as_it_is(manifest: Any) -> None:
    before = copy.deepcopy(manifest)

    stamped(manifest, namespace="n", part_of="set")

    assert manifest == before


def test_null_labels_and_annotations_count_as_none() -> None:
    manifest = config_map("a")
    manifest["metadata"] |= {"labels": None, "annotations": None}

    assert sent_texts(stamped(manifest, namespace="n")) == ({OWNED_LABEL: "owned"}, {})


def test_lists_stand_for_their_items() -> None:
    inner = {"apiVersion": "v1", "kind": "List", "items": [config_map("b")]}
    outer = {"apiVersion": "v1", "kind": "List", "items": [config_map("a"), inner]}

    assert [one["metadata"]["name"] for one in documents([outer, config_map("c")])] == ["a", "b", "c"]


@pytest.mark.parametrize(
    ("manifest", "complaint"),
    [
        ("text", "object 2 .* is not a mapping"),
        ({"kind": "ConfigMap", "metadata": {"name": "a"}}, "has no apiVersion"),
        ({"apiVersion": "v1", "metadata": {"name": "a"}}, "has no kind"),
        ({"apiVersion": "v1", "kind": "ConfigMap"}, r"\(ConfigMap\) has no metadata.name"),
        ({"apiVersion": "v1", "kind": "Job", "metadata": {"generateName": "a-"}}, "generateName"),
        ({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a", "namespace": 1}}, "a metadata.namespace"),
        ({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a", "labels": ["b"]}}, "metadata.labels"),
        ({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a", "annotations": "b"}}, "metadata.annotations"),
    ],
)
def test_documents_that_are_no_objects_are_refused_by_their_place(manifest: Any, complaint: str) -> None:
    with pytest.raises(SpecError, match=complaint):
        list(documents([config_map("a"), manifest]))


@given(JSON)
def test_documents_of_any_shape_are_stamped_or_refused(document: Any) -> None:
    try:
        objects = list(documents([document, {"apiVersion": "v1", "kind": "Pod", "metadata": document}]))
    except SpecError:
        return
    for one in objects:
        stamped(one, namespace="n", part_of="set")
