"""Objects as they are sent: stamps, namespaces, digests and marks."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given

from clusterstacks.deliver.apply.ownership import OWNED_LABEL, PART_OF_LABEL
from clusterstacks.deliver.apply.record_store import RECORD_LABEL, record_name
from clusterstacks.deliver.apply.targets import (
    defined_kinds,
    digest_of,
    documents,
    mark_of,
    resolve,
    sent_texts,
    stamped,
    with_data,
)
from clusterstacks.model.errors import SpecError
from clusterstacks.net.kube.client import Client
from clusterstacks.net.kube.errors import KindNotServed
from clusterstacks.net.kube.resources import Resource
from tests.support.builders.documents import JSON
from tests.support.builders.manifests import config_map, crd, cron_job, deployment, named

if TYPE_CHECKING:
    from clusterstacks.model.objects import Manifest

SERVED = {
    ("", "ConfigMap"): Resource("", "v1", "ConfigMap", "configmaps", namespaced=True),
    ("storage.k8s.io", "StorageClass"): Resource("storage.k8s.io", "v1", "StorageClass", "storageclasses", False),
    ("policy", "PodDisruptionBudget"): Resource("policy", "v1", "PodDisruptionBudget", "poddisruptionbudgets", True),
    ("apiextensions.k8s.io", "CustomResourceDefinition"): Resource(
        "apiextensions.k8s.io", "v1", "CustomResourceDefinition", "customresourcedefinitions", namespaced=False
    ),
}


class Discovery(Client):
    """Answers for kinds only, and counts the questions."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    async def resource(self, group: str, kind: str, version: str = "") -> Resource:
        self.asked.append(f"{kind}.{group}/{version}")
        if (group, kind) not in SERVED:
            raise KindNotServed(f"the server does not serve {kind}")
        return SERVED[group, kind]


async def test_namespace_is_kept_defaulted_or_dropped_by_the_scope_of_the_kind() -> None:
    manifests = [
        config_map("a"),
        config_map("b", "theirs"),
        named("storage.k8s.io/v1", "StorageClass", "c", "written"),
    ]

    targets = await resolve(Discovery(), manifests, default_namespace="kube-system")

    assert [target.id.namespace for target in targets] == ["kube-system", "theirs", ""]
    assert [target.manifest["metadata"].get("namespace") for target in targets] == ["kube-system", "theirs", None]


async def test_kind_of_a_crd_in_the_same_delivery_needs_no_discovery() -> None:
    client = Discovery()
    group = "example.org"
    manifests = [
        named(f"{group}/v1", "Widget", "a"),
        named(f"{group}/v1", "Globe", "b", "written"),
        crd("Widget", group),
        crd("Globe", group, scope="Cluster"),
    ]

    targets = await resolve(client, manifests, default_namespace="n")

    assert [target.id.namespace for target in targets[:2]] == ["n", ""]
    assert all(target.new_kind for target in targets[:2])
    assert client.asked == ["CustomResourceDefinition.apiextensions.k8s.io/v1"]


@pytest.mark.parametrize(
    ("manifest", "refusal"),
    [
        (named("policy/v1beta1", "PodDisruptionBudget", "a"), "does not serve policy/v1beta1 (served: v1"),
        (named("example.org/v1", "Gadget", "a"), "does not serve Gadget"),
        (named("example.org/v9", "Widget", "a"), "does not serve example.org/v9 (served: v1"),
        (config_map("a", key=object()), "cannot be written as JSON"),  # type: ignore[arg-type]  # what YAML may give
    ],
)
async def test_unsendable_object_has_a_reason(manifest: Manifest, refusal: str) -> None:
    targets = await resolve(Discovery(), [manifest, crd("Widget", "example.org")], default_namespace="n")

    assert refusal in targets[0].refusal
    assert targets[0].resource is None


async def test_last_of_two_documents_for_one_object_wins() -> None:
    manifests = [config_map("a", key="first"), config_map("b"), config_map("a", "n", key="second")]

    targets = await resolve(Discovery(), manifests, default_namespace="n")

    assert [target.id.name for target in targets] == ["b", "a"]
    assert targets[1].manifest["data"] == {"key": "second"}


@pytest.mark.parametrize(
    "spec",
    [
        None,
        {},
        {"group": "example.org", "names": [], "scope": "Namespaced", "versions": []},
        {"group": "a/b", "names": {"kind": "A", "plural": "as"}, "scope": "Namespaced", "versions": [{"name": "v1"}]},
        {
            "group": "example.org",
            "names": {"kind": "A", "plural": "../as"},
            "scope": "Namespaced",
            "versions": [{"name": "v1", "served": True}],
        },
    ],
)
def test_invalid_crd_defines_no_kind(spec: Any) -> None:
    manifest = named("apiextensions.k8s.io/v1", "CustomResourceDefinition", "a", spec=spec)

    assert defined_kinds([manifest]) == {}


def test_unserved_versions_of_a_crd_are_ignored() -> None:
    manifest = crd("Widget", "example.org", versions=("v1", "v2"))
    manifest["spec"]["versions"][0]["served"] = False

    assert list(defined_kinds([manifest])["example.org", "Widget"]) == ["v2"]


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


def test_pod_templates_of_cron_jobs_and_without_metadata_get_the_label() -> None:
    job = cron_job("a")
    del job["spec"]["jobTemplate"]["spec"]["template"]["metadata"]

    sent = stamped(job, namespace="n", part_of="set")

    assert labels_of(sent, "spec", "jobTemplate", "spec", "template") == {OWNED_LABEL: "owned"}


@pytest.mark.parametrize("spec", [None, {}, {"template": None}, {"template": []}, []])
def test_workload_without_a_pod_template_is_sent_unchanged(spec: Any) -> None:
    sent = stamped(named("apps/v1", "Deployment", "a", spec=spec), namespace="n")

    assert sent["spec"] == spec


def test_cluster_wide_objects_never_get_a_namespace() -> None:
    sent = stamped(named("storage.k8s.io/v1", "StorageClass", "a", "written"), namespace="")

    assert "namespace" not in sent["metadata"]


def test_server_managed_fields_are_not_sent() -> None:
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


def test_part_of_label_of_the_chart_is_replaced() -> None:
    manifest = config_map("a")
    manifest["metadata"]["labels"] = {PART_OF_LABEL: "another"}

    assert PART_OF_LABEL not in labels_of(stamped(manifest, namespace="n"))
    assert labels_of(stamped(manifest, namespace="n", part_of="set"))[PART_OF_LABEL] == "set"


@pytest.mark.parametrize("manifest", [deployment("a"), cron_job("a"), config_map("a")])
def test_rendered_manifest_is_not_changed(manifest: Any) -> None:
    before = copy.deepcopy(manifest)

    stamped(manifest, namespace="n", part_of="set")

    assert manifest == before


def test_null_labels_and_annotations_are_empty() -> None:
    manifest = config_map("a")
    manifest["metadata"] |= {"labels": None, "annotations": None}

    assert sent_texts(stamped(manifest, namespace="n")) == ({OWNED_LABEL: "owned"}, {})


def test_lists_are_replaced_by_their_items() -> None:
    inner = {"apiVersion": "v1", "kind": "List", "items": [config_map("b")]}
    outer = {"apiVersion": "v1", "kind": "List", "items": [config_map("a"), inner]}

    assert [one["metadata"]["name"] for one in documents([outer, config_map("c")])] == ["a", "b", "c"]


@pytest.mark.parametrize(
    ("manifest", "complaint"),
    [
        ("text", "object 2 is not a mapping"),
        ({"kind": "ConfigMap", "metadata": {"name": "a"}}, "has no apiVersion"),
        ({"apiVersion": "v1", "metadata": {"name": "a"}}, "has no kind"),
        ({"apiVersion": "v1", "kind": "ConfigMap"}, r"\(ConfigMap\) has no metadata.name"),
        ({"apiVersion": "v1", "kind": "Job", "metadata": {"generateName": "a-"}}, "generateName"),
        ({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a", "namespace": 1}}, "a metadata.namespace"),
        ({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a", "labels": ["b"]}}, "metadata.labels"),
        ({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a", "annotations": "b"}}, "metadata.annotations"),
    ],
)
def test_invalid_documents_are_rejected_with_their_position(manifest: Any, complaint: str) -> None:
    with pytest.raises(SpecError, match=complaint):
        list(documents([config_map("a"), manifest]))


@pytest.mark.regression("SEC-41")
@pytest.mark.parametrize("kind", ["addon", "healthy", "installation", "sync"])
def test_charts_contain_no_delivery_records(kind: str) -> None:
    by_name = named("v1", "Secret", record_name("cni", kind))
    by_label = named("v1", "Secret", "any", "kube-system", metadata={"name": "any", "labels": {RECORD_LABEL: kind}})
    for record in (by_name, by_label, {"apiVersion": "v1", "kind": "List", "items": [by_name]}):
        with pytest.raises(SpecError, match="has the name or the label of the operator's delivery records"):
            list(documents([config_map("a"), record]))
    others = [named("v1", "ConfigMap", record_name("cni", kind)), named("v1", "Secret", "cluster-stack-addons")]
    assert list(documents(others)) == others


@given(JSON)
def test_arbitrary_documents_are_stamped_or_rejected(document: Any) -> None:
    try:
        objects = list(documents([document, {"apiVersion": "v1", "kind": "Pod", "metadata": document}]))
    except SpecError:
        return
    for one in objects:
        stamped(one, namespace="n", part_of="set")


SENT: dict[str, Any] = {"metadata": {"name": "a", "labels": {"ours": "1"}, "annotations": {"ours": "2"}}}


def live(generation: int = 3, version: str = "77", **texts: Any) -> dict[str, Any]:
    metadata = {"name": "a", "generation": generation, "resourceVersion": version, **SENT["metadata"], **texts}
    return {"metadata": metadata}


def test_digest_ignores_the_order_of_keys() -> None:
    assert digest_of({"a": 1, "b": 2}) == digest_of({"b": 2, "a": 1})
    assert digest_of(config_map("a")) != digest_of(deployment("a"))


def test_status_update_does_not_change_the_mark() -> None:
    assert mark_of(live(version="78"), SENT) == mark_of(live(), SENT)


def test_changed_spec_changes_the_mark() -> None:
    assert mark_of(live(generation=4), SENT) != mark_of(live(), SENT)


def test_kinds_without_generation_are_marked_by_their_resource_version() -> None:
    assert mark_of(live(generation=0), SENT).resource_version == "77"
    assert mark_of(live(generation=0, version="78"), SENT) != mark_of(live(generation=0), SENT)


@pytest.mark.parametrize("field", ["labels", "annotations"])
def test_change_of_our_labels_or_annotations_changes_the_mark_and_of_others_does_not(field: str) -> None:
    ours: dict[str, str] = SENT["metadata"][field]

    def mark(texts: dict[str, str]) -> Any:
        return mark_of(live(**{field: texts}), SENT)  # type: ignore[arg-type]  # mypy fits the value to every parameter

    assert mark(ours | {"others": "x"}) == mark_of(live(), SENT)
    assert mark({"ours": "x"}) != mark_of(live(), SENT)
    assert mark({}) != mark_of(live(), SENT)


@pytest.mark.regression("CASE-04")
@pytest.mark.parametrize(
    ("fields", "sent"),
    [
        ({"stringData": {"a": "x"}}, {"data": {"a": "eA=="}}),
        (
            {"stringData": {"a": "\u00e9", "b": ""}, "data": {"a": "eA==", "c": "eQ=="}},
            {"data": {"a": "w6k=", "b": "", "c": "eQ=="}},
        ),
        ({"stringData": {"a": "x"}, "data": None}, {"data": {"a": "eA=="}}),
        ({"stringData": {"a": None}}, {"data": {"a": ""}}),
        ({"stringData": None, "data": {"a": "eA=="}}, {"data": {"a": "eA=="}}),
        ({"stringData": {}}, {}),
    ],
)
def test_string_data_is_sent_as_the_server_stores_it(fields: Manifest, sent: Manifest) -> None:
    assert with_data(named("v1", "Secret", "a", **fields)) == named("v1", "Secret", "a", **sent)


@pytest.mark.parametrize(
    "manifest",
    [
        named("v1", "Secret", "a", data={"a": "eA=="}),
        named("v1", "Secret", "a", data={"a": "eA=="}, stringData={"a": "x", "b": 5}),
        named("v1", "Secret", "a", stringData="x"),
        named("v1", "Secret", "a", stringData={"a": "x"}, data="x"),
        named("example.org/v1", "Secret", "a", stringData={"a": "x"}),
    ],
)
def test_other_objects_and_values_that_the_server_rejects_are_sent_as_they_are(manifest: Manifest) -> None:
    assert with_data(manifest) is manifest
