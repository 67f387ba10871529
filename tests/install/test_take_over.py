"""The Go operator's Helm release taken over and rolled back on a real node; this program is its ``/manager``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from clusterstacks.dev.demo.scenario import build_first, examples
from clusterstacks.model.kinds.crd_manifests import all_crds
from tests.support.builders.go_chart import ALL, CERTIFICATES, NAMESPACE, write_go_chart
from tests.support.builders.manifests import lost, named
from tests.support.running.node_cluster import CHART, CLASS_KINDS, FIGURES, FIRST, IMAGE_HOST, NAME, serve_cert_manager

if TYPE_CHECKING:
    from pathlib import Path

    from clusterstacks.model.objects import Manifest
    from tests.support.running.node_cluster import NodeCluster

pytestmark = pytest.mark.timeout(1800)
CLUSTER = "first"
"""The Cluster of examples/cluster.yaml."""
WAIT = "--timeout=300s"
OBJECTS = "clusterstacks,clusterstackreleases,clusteraddons,clusters,clusterclasses"
CHANGING = ("resourceVersion", "generation", "observedGeneration", "managedFields")
"""Fields that every write changes, also one that only adds defaults."""
LOOKED_AT = ("Healthy", "InSync")
"""Conditions of addons that a look from time to time decides."""
HELM = (f"--namespace={NAMESPACE}", "--wait", WAIT)
GO_WEBHOOKS = "cso-validating-webhook-configuration"


@pytest.fixture
def go(node: NodeCluster, tmp_path: Path) -> NodeCluster:
    """The chart of the Go operator, with this program as ``/manager``, a stack and a cluster."""
    serve_cert_manager(node)
    node.kubectl("delete", WAIT, "--ignore-not-found", *(f"crd/{one['metadata']['name']}" for one in all_crds()))
    node.kubectl("create", "namespace", NAMESPACE)
    go = node.with_operator(NAMESPACE, "cso")
    for name in CERTIFICATES:
        go.operator.create(named("v1", "Secret", name, NAMESPACE))
    kinds = ",".join(f"{one['kind']}.{one['group']}" for one in CLASS_KINDS)
    groups = sorted({one["group"] for one in CLASS_KINDS})
    definitions = {"apiGroups": ["apiextensions.k8s.io"], "resources": ["customresourcedefinitions"], "verbs": ["get"]}
    chart = write_go_chart(
        tmp_path,
        image=f"{IMAGE_HOST}/{NAME}:{FIRST}",
        args=("--leader-elect=true", "--source-plain-http", "--source-interval=2s", f"--class-kinds={kinds}"),
        repository=f"{node.registry.host}/stacks",
        further_rules=[{"apiGroups": groups, "resources": ["*"], "verbs": ALL}, definitions],
    )
    # Helm reuses values that a user has set, and not the defaults of the chart.
    go.helm("install", "cso", str(chart), f"--values={chart / 'values.yaml'}", *HELM)
    first = build_first(node.root / "releases")
    go.push_release(first)
    go.kubectl("apply", f"--filename={examples() / 'clusterstack.yaml'}")
    go.await_release(first)
    go.kubectl("apply", f"--filename={examples() / 'cluster.yaml'}")
    go.await_addons(first)
    go.await_reconciled_by_leader()
    return go


def test_an_upgrade_takes_over_the_go_operator_and_a_rollback_returns_it_without_writes_to_clusters(
    go: NodeCluster,
) -> None:
    objects, definitions, written = served(go), uids(go), go.workload_writes(CLUSTER)

    image = ("--set", f"takeOver=true,image.repository={IMAGE_HOST}/{NAME}")
    go.helm("upgrade", "cso", str(CHART), "--reset-then-reuse-values", *image, *HELM)
    taken_over = settled(go, replicas=2)

    assert taken_over.keys() == objects.keys()
    assert lost(taken_over, objects) == []
    assert uids(go).items() >= definitions.items()
    assert go.workload_writes(CLUSTER) - written == {}
    refused = go.kubectl.tried("delete", "clusterstack", "demo", "--dry-run=server")
    assert "denied the request" in refused.stderr
    assert GO_WEBHOOKS not in go.kubectl("get", "validatingwebhookconfigurations", "--output=name")

    go.helm("rollback", "cso", *HELM)
    returned = settled(go, replicas=1)

    assert returned.keys() == objects.keys()
    assert lost(returned, objects) == []
    assert uids(go).items() >= definitions.items()
    assert go.workload_writes(CLUSTER) - written == {}
    assert GO_WEBHOOKS in go.kubectl("get", "validatingwebhookconfigurations", "--output=name")
    FIGURES["writes to the cluster during the take-over and the rollback"] = "0"

    go.kubectl("delete", "cluster", CLUSTER, WAIT)
    go.kubectl("delete", "validatingwebhookconfiguration", GO_WEBHOOKS)
    go.kubectl("delete", "clusterstack", "demo", WAIT)
    go.kubectl("wait", "--for=delete", "clusterclass", "--all", WAIT)
    go.helm("uninstall", "cso", *HELM)
    go.kubectl("delete", "namespace", NAMESPACE, WAIT)


def settled(node: NodeCluster, *, replicas: int) -> dict[str, Any]:
    """Wait until only the pods of this revision run and one of them leads and has reconciled; give the objects."""
    node.operator("rollout", "status", "deployment/cso-controller-manager", WAIT)
    node.until(lambda: len(node.pods()) == replicas, f"{replicas} pods")
    names = {one["metadata"]["name"] for one in node.pods()}
    node.until(lambda: node.leader().rpartition("_")[0] in names, "a leader of this revision")
    node.await_reconciled_by_leader()
    # The definitions of the other operator lack fields of the status, so addons are delivered again, without writes.
    node.kubectl("wait", "--for=condition=Ready", WAIT, "clusteraddons", "--all")
    node.kubectl("wait", "--for=condition=ClusterStackAddonsReady", WAIT, f"cluster/{CLUSTER}")
    return served(node)


def served(node: NodeCluster) -> dict[str, Any]:
    """Return all fields of the objects as the API server serves them, without what changes by itself."""
    found = node.kubectl.get(OBJECTS)["items"]
    return {f"{one['kind']} {one['metadata']['name']}": _lasting(_without_cluster_api(one)) for one in found}


def _without_cluster_api(manifest: Manifest) -> Manifest:
    """Leave out what Cluster API writes at any time: its annotations and the status, except our conditions."""
    if not manifest["apiVersion"].startswith("cluster.x-k8s.io/"):
        return manifest
    annotations = manifest["metadata"].get("annotations", {})
    kept = {key: value for key, value in annotations.items() if ".cluster.x-k8s.io/" not in key}
    conditions = manifest.get("status", {}).get("conditions", [])
    ours = [one for one in conditions if one["type"].startswith("ClusterStack")]
    return {**manifest, "metadata": {**manifest["metadata"], "annotations": kept}, "status": {"conditions": ours}}


def _lasting(document: Any) -> Any:
    """Conditions become a map from type to status; those that a look from time to time decides are left out."""
    if isinstance(document, list):
        return [_lasting(one) for one in document]
    if not isinstance(document, dict):
        return document
    found = {key: _lasting(value) for key, value in document.items() if key not in CHANGING}
    if isinstance(conditions := document.get("conditions"), list):
        found["conditions"] = {one["type"]: one["status"] for one in conditions if not one["type"].endswith(LOOKED_AT)}
    return found


def uids(node: NodeCluster) -> dict[str, str]:
    """The identities of our definitions: a definition that was deleted and created again has lost its objects."""
    found = node.kubectl.get("crds")["items"]
    ours = [one["metadata"] for one in found if one["spec"]["group"] == "clusterstack.x-k8s.io"]
    return {one["name"]: one["uid"] for one in ours}
