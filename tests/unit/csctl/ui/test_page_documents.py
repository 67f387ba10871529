from __future__ import annotations

from datetime import date
from typing import Any

import pytest

from clusterstacks.csctl.ui.page_documents import cluster_document, fleet_document
from clusterstacks.csctl.verbs.status import list_clusters
from clusterstacks.model.objects import ObjectKey
from clusterstacks.plan.clusters.cluster_tree import Snapshot

CLASS = "local-demo-1-35-v1"
TODAY = date(2026, 11, 20)


def condition(kind: str, status: str = "True", reason: str = "", severity: str = "") -> dict[str, str]:
    return {"type": kind, "status": status, "reason": reason, "severity": severity}


@pytest.mark.regression("U-30")
@pytest.mark.parametrize(
    ("conditions", "paused", "ready"),
    [
        ([condition("Ready")], False, True),
        ([condition("Ready"), condition("Healthy", "False", "ObjectsInProgress", "Info")], False, True),
        ([condition("Ready"), condition("InSync", "Unknown", "DriftUnknown")], False, True),
        ([condition("Ready")], True, True),
        ([condition("Ready", "False", "RollingOut", "Info")], False, False),
    ],
)
def test_u_30_the_page_and_csctl_status_have_one_judgement_about_ready(
    conditions: list[dict[str, str]], *, paused: bool, ready: bool
) -> None:
    metadata = {"name": "one", "namespace": "team"}
    topology = {"classRef": {"name": CLASS}, "version": "v1.35.4"}
    cluster: dict[str, Any] = {"apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "Cluster", "metadata": metadata}
    cluster["spec"] = {"topology": topology, "paused": paused}
    addon = {"metadata": {"name": "cluster-addon-one", "namespace": "team"}, "status": {"conditions": conditions}}
    addon["spec"] = {"clusterRef": {"name": "one"}, "clusterStack": CLASS}
    snapshot = Snapshot(clusters=[cluster], addons=[addon])

    (listed,) = list_clusters([[cluster], [addon], [], []])
    (row,) = fleet_document({"here": snapshot}, {}, TODAY)["clusters"]
    page = cluster_document(snapshot, ObjectKey("team", "one"))

    assert page is not None
    assert (listed.document()["ready"], row["ready"], page["ready"]) == (ready, ready, ready)
    assert (row["state"] == "done") is not listed.troubled


@pytest.mark.regression("U-34")
def test_u_34_clusters_of_all_contexts_are_in_one_document_with_labels_and_release() -> None:
    def snapshot(*names: str) -> Snapshot:
        topology = {"topology": {"classRef": {"name": CLASS}, "version": "v1.35.4"}}
        metadata = {"namespace": "team", "labels": {"stage": "prod", "odd": 1}}
        clusters = [{"metadata": {**metadata, "name": name}, "spec": topology} for name in names]
        return Snapshot(clusters=clusters)

    document = fleet_document({"eu": snapshot("one", "two"), "us": snapshot("one")}, {}, TODAY)

    assert [(row["context"], row["name"], row["group"]) for row in document["clusters"]] == [
        ("eu", "one", CLASS),
        ("eu", "two", CLASS),
        ("us", "one", CLASS),
    ]
    assert document["clusters"][0]["labels"] == {"stage": "prod"}
    assert [(one["context"], one["exists"], one["clusters"]) for one in document["releases"]] == [
        ("eu", False, 2),
        ("us", False, 1),
    ]


def test_page_of_a_cluster_without_a_stack_shows_its_syncs() -> None:
    metadata = {"name": "one", "namespace": "team"}
    cluster: dict[str, Any] = {"apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "Cluster", "metadata": metadata}
    synced = [{"kind": "Secret", "name": "clouds", "status": "synced"}]
    failing = condition("Ready", "False", "SourceIncomplete", "Error") | {"message": "Secret x does not exist"}
    bindings = [
        {
            "metadata": {"name": f"{sync}.one", "namespace": namespace},
            "spec": {"syncName": sync, "clusterName": "one"},
            "status": {"ready": sync == "clouds", "resources": synced, "conditions": [said]},
        }
        for namespace, sync, said in (
            ("team", "operator", failing),
            ("team", "clouds", condition("Ready")),
            ("other", "foreign", condition("Ready")),
        )
    ]
    snapshot = Snapshot(clusters=[cluster], bindings=bindings)

    (row,) = fleet_document({"here": snapshot}, {}, TODAY)["clusters"]
    page = cluster_document(snapshot, ObjectKey("team", "one"))

    assert (row["state"], row["ready"], row["message"]) == ("failed", True, "sync operator: Secret x does not exist")
    assert page is not None
    assert page["syncs"] == ["clouds", "operator"]
    assert [(found["title"], found["state"]) for found in page["findings"]] == [
        ("sync clouds", "done"),
        ("sync operator", "failed"),
    ]
    assert [node["title"] for node in page["graph"]["nodes"]][-3:] == ["syncs", "clouds", "operator"]
