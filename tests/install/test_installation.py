"""The operator on a real node, from ``helm install`` to its removal; the tests run in this order."""

from __future__ import annotations

import time
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import pytest

from clusterstacks.dev.demo.scenario import build_first, build_second, examples
from clusterstacks.model.kinds.crd_manifests import all_crds
from tests.support.running.node_cluster import FIGURES, FIRST, LEASE, NAMESPACE, SECOND

if TYPE_CHECKING:
    from collections.abc import Set as AbstractSet

    from clusterstacks.model.objects import Manifest
    from tests.support.running.node_cluster import NodeCluster

pytestmark = pytest.mark.timeout(1800)
CLUSTER = "first"
"""The Cluster of examples/cluster.yaml."""
RESTRICTED = "pod-security.kubernetes.io/enforce=restricted"
WAIT = "--timeout=300s"
KEPT = {"Namespace", "ConfigMap", "Lease", "Secret", "ServiceAccount", "CustomResourceDefinition", "APIService"}
"""Kinds that ``helm uninstall`` leaves: the definitions, for which the API server has an APIService, and objects of the
namespace."""


def condition_time(pod: Manifest, kind: str) -> datetime:
    (found,) = [one for one in pod["status"]["conditions"] if one["type"] == kind]
    return datetime.fromisoformat(found["lastTransitionTime"])


@pytest.fixture(scope="module")
def before(node: NodeCluster) -> set[tuple[str, str, str]]:
    """All objects of the cluster before the installation."""
    return node.objects()


@pytest.fixture(scope="module")
def installed(node: NodeCluster, before: set[tuple[str, str, str]]) -> NodeCluster:
    """Install the chart in a namespace with enforced Pod Security, and create a stack and a cluster."""
    assert not [one for one in before if "clusterstack" in one[2] and one[0] == "Deployment"]
    node.kubectl("create", "namespace", NAMESPACE)
    node.kubectl("label", "namespace", NAMESPACE, RESTRICTED)
    node.install(FIRST, "--take-ownership")  # the environment has installed the CRDs
    first = build_first(node.root / "releases")
    node.push_release(first)
    node.kubectl("apply", f"--filename={examples() / 'clusterstack.yaml'}")
    node.await_release(first)
    node.kubectl("apply", f"--filename={examples() / 'cluster.yaml'}")
    node.await_addons(first)
    return node


def test_two_replicas_run_where_pod_security_is_enforced(installed: NodeCluster) -> None:
    refused = installed.operator.tried("run", "plain", "--image=registry.test/any")
    pods = installed.pods()

    assert "violates PodSecurity" in refused.stderr
    assert [len(pods), {one["status"]["phase"] for one in pods}] == [2, {"Running"}]
    assert {one["status"]["containerStatuses"][0]["restartCount"] for one in pods} == {0}
    started = [(condition_time(one, "Ready") - condition_time(one, "PodScheduled")).total_seconds() for one in pods]
    FIGURES["seconds from the creation of a pod to Ready"] = ", ".join(f"{one:.0f}" for one in started)


def test_a_cluster_has_the_addons_of_its_stack_and_logs_are_readable(installed: NodeCluster) -> None:
    installed.kubectl("wait", "--for=condition=ClusterStackAddonsReady", WAIT, f"cluster/{CLUSTER}")
    leading = installed.await_leader()

    assert '"level":"info"' in installed.operator("logs", leading, "--tail=5")
    for pod in installed.pods():
        role = "leader" if pod["metadata"]["name"] == leading else "other replica"
        FIGURES[f"resident memory with 1 cluster, {role}"] = f"{installed.memory(pod) / 1e6:.0f} MB"


def test_a_stack_in_use_is_protected_by_the_webhook_behind_its_service(installed: NodeCluster) -> None:
    refused = installed.kubectl.tried("delete", "clusterstack", "demo", "--dry-run=server")

    assert "denied the request" in refused.stderr


def test_another_replica_acts_after_the_leader_is_killed(installed: NodeCluster) -> None:
    second = build_second(installed.root / "releases")
    name, before = installed.await_leader(), installed.leader()
    (leading,) = [one for one in installed.pods() if one["metadata"]["name"] == name]

    installed.kill_operator(leading)
    killed = datetime.now(UTC)
    installed.push_release(second)
    installed.until(lambda: installed.leader() not in {"", before}, "another leader")
    acquired = datetime.fromisoformat(installed.operator.get("lease", LEASE)["spec"]["acquireTime"])
    installed.await_release(second)
    patch = f'{{"spec":{{"topology":{{"classRef":{{"name":"{second.class_name}"}}}}}}}}'
    installed.kubectl("patch", "cluster", CLUSTER, "--type=merge", f"--patch={patch}")
    installed.await_addons(second)
    installed.operator("rollout", "status", "deployment/cluster-stack-operator", WAIT)

    FIGURES["seconds from kill -9 of the leader to the next leader"] = f"{(acquired - killed).total_seconds():.1f}"


def test_an_upgrade_writes_nothing_to_clusters_and_leaves_no_gap_in_admission(installed: NodeCluster) -> None:
    old = {one["metadata"]["name"] for one in installed.pods()}
    installed.await_reconciled_by_leader()
    written = installed.workload_writes(CLUSTER)

    with installed.probed("ClusterStack", "demo") as probe:
        began = time.monotonic()
        installed.install(SECOND)
        FIGURES["seconds of helm upgrade --wait"] = f"{time.monotonic() - began:.0f}"
        for name in old:
            installed.operator("wait", "--for=delete", WAIT, f"pod/{name}")
        installed.await_leader(*old)
        installed.await_reconciled_by_leader()

    images = {one["spec"]["containers"][0]["image"] for one in installed.pods()}
    assert {image.rpartition(":")[2] for image in images} == {SECOND}
    assert probe.failures == []
    assert probe.answered > 0
    assert installed.workload_writes(CLUSTER) - written == {}
    FIGURES["admission requests during the upgrade"] = f"{probe.answered}, 0 refused or unanswered"
    FIGURES["writes to the cluster during the upgrade"] = "0"


def test_a_node_that_starts_with_an_empty_disk_runs_the_operator_again_without_writes(installed: NodeCluster) -> None:
    written = installed.workload_writes(CLUSTER)
    containers = {container["containerID"] for container in _containers(installed)}
    holder = installed.leader()

    installed.environment.node.restart()

    def back() -> bool:
        found = _containers(installed)
        return len(found) >= len(containers) and all(
            one["ready"] and one["containerID"] not in containers for one in found
        )

    installed.until(back, "the return of the pods")
    installed.until(lambda: installed.leader() not in {"", holder}, "a leader after the restart")
    installed.await_reconciled_by_leader()
    assert installed.workload_writes(CLUSTER) - written == {}


def test_an_uninstallation_leaves_nothing(installed: NodeCluster, before: set[tuple[str, str, str]]) -> None:
    installed.kubectl("delete", "cluster", CLUSTER, WAIT)
    installed.kubectl("delete", "clusterstack", "demo", WAIT)
    installed.kubectl("wait", "--for=delete", "clusterclass", "--all", WAIT)
    installed.helm("uninstall", "cluster-stack-operator", f"--namespace={NAMESPACE}", "--wait")
    installed.until(lambda: _only({kind for kind, _, _ in installed.objects() - before}, KEPT), "the end of the rest")
    installed.kubectl("delete", "namespace", NAMESPACE, WAIT)
    installed.kubectl("delete", WAIT, "--ignore-not-found", *(f"crd/{one['metadata']['name']}" for one in all_crds()))

    installed.until(lambda: _only(installed.objects(), before), "the end of everything")


def _containers(node: NodeCluster) -> list[Manifest]:
    """The reported states of the containers of the operator's pods."""
    return [state for pod in node.pods() for state in pod["status"]["containerStatuses"]]


def _only(found: AbstractSet[object], expected: AbstractSet[object]) -> bool:
    """Assert that nothing is found but what is expected; the message has the rest."""
    assert found <= expected, found - expected
    return True
