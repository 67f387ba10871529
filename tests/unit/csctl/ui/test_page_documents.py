from __future__ import annotations

from typing import Any

import pytest

from clusterstacks.csctl.ui.page_documents import cluster_document, fleet_document
from clusterstacks.csctl.verbs.status import list_clusters
from clusterstacks.model.objects import ObjectKey
from clusterstacks.plan.clusters.cluster_tree import Snapshot

CLASS = "local-demo-1-35-v1"


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

    (listed,) = list_clusters([[cluster], [addon], []])
    (row,) = fleet_document(snapshot)["clusters"]
    page = cluster_document(snapshot, ObjectKey("team", "one"))

    assert page is not None
    assert (listed.document()["ready"], row["ready"], page["ready"]) == (ready, ready, ready)
    assert (row["state"] == "done") is not listed.troubled
