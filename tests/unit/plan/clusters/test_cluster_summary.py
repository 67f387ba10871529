"""What is said about one Cluster from its manifest and its ClusterAddon."""

from __future__ import annotations

from typing import Any

import pytest

from clusterstacks.plan.clusters.cluster_summary import ClusterSummary, summarize

OLD, NEW = "local-demo-1-35-v1", "local-demo-1-35-v2"


def condition(kind: str, status: str = "True", reason: str = "", message: str = "") -> dict[str, str]:
    return {"type": kind, "status": status, "reason": reason, "message": message}


def cluster(class_name: str = OLD, version: str = "v1.35.4", running: str = "v1.35.4", **more: Any) -> dict[str, Any]:
    return {
        "apiVersion": "cluster.x-k8s.io/v1beta2",
        "kind": "Cluster",
        "metadata": {"name": "one", "namespace": "team-a"},
        "spec": {"topology": {"classRef": {"name": class_name}, "version": version}, **more},
        "status": {"controlPlane": {"versions": [{"version": running}]}},
    }


def addon(*conditions: dict[str, str], delivered: str = OLD, **status: Any) -> dict[str, Any]:
    return {
        "spec": {"clusterRef": {"name": "one"}, "clusterStack": delivered},
        "status": {"conditions": list(conditions), **status},
    }


def said(summary: ClusterSummary) -> dict[str, str]:
    """Return the texts that tables and trees show."""
    return {
        "ready": summary.ready.status,
        "class": summary.class_name,
        "release": summary.release_change,
        "kubernetes": summary.kubernetes_change,
        "stage": str(summary.stage),
        "reason": summary.concern.reason,
    }


STAGES = [{"action": "apply", "name": "network", "phase": "done"}, {"action": "apply", "name": "dns", "phase": "x"}]
READY, UNREADY = condition("Ready"), condition("Ready", "False", "HelmChartMissing", "no\n chart")
UNHEALTHY = condition("Healthy", "False", "ObjectsFailed", "a Pod fails")


@pytest.mark.parametrize(
    ("one", "its_addon", "expected"),
    [
        (cluster(), addon(READY), {"ready": "True", "release": "v1", "kubernetes": "v1.35.4", "reason": ""}),
        (cluster(), addon(UNREADY), {"ready": "False", "reason": "HelmChartMissing"}),
        (cluster(), addon(READY, UNHEALTHY), {"ready": "True", "reason": "ObjectsFailed"}),
        (cluster(NEW), addon(UNREADY, stages=STAGES), {"class": NEW, "release": "v1 → v2", "stage": "2/2"}),
        (cluster("local-demo-1-36-v2"), addon(READY), {"release": "1.35-v1 → 1.36-v2"}),
        (cluster("mine"), addon(READY), {"release": f"{OLD}, not managed any more"}),
        (cluster(NEW), addon(UNREADY, delivered=""), {"release": "→ v2", "stage": ""}),
        (cluster(version="v1.36.1"), addon(READY), {"kubernetes": "v1.35.4 → v1.36.1"}),
        (cluster(running="broken"), addon(READY), {"kubernetes": "→ v1.35.4"}),
        (cluster(running=""), addon(READY, observedKubernetesVersion="v1.35.4"), {"kubernetes": "v1.35.4"}),
        (cluster(), addon(READY, upgradeHold={"state": "Held"}), {"reason": "UpgradeHeld"}),
        (cluster(paused=True), addon(READY, upgradeHold={"state": "Held"}), {"reason": "Paused"}),
        (cluster(), None, {"ready": "Unknown", "reason": "NoAddons", "release": "→ v1"}),
    ],
)
def test_state_of_a_cluster(one: dict[str, Any], its_addon: dict[str, Any] | None, expected: dict[str, str]) -> None:
    assert said(summarize(one, its_addon)).items() >= expected.items()


@pytest.mark.parametrize(
    ("one", "its_addon", "belongs"),
    [(cluster(), None, True), (cluster("mine"), addon(READY), True), (cluster("mine"), None, False)],
)
def test_cluster_belongs_to_a_stack_by_its_class_or_its_addons(
    one: dict[str, Any], its_addon: dict[str, Any] | None, *, belongs: bool
) -> None:
    assert summarize(one, its_addon).of_cluster_stack is belongs


def test_cluster_that_cluster_api_reports_as_unavailable_is_not_ready() -> None:
    unavailable = cluster()
    unavailable["status"]["conditions"] = [condition("Available", "False", "NotAvailable", "no\n node")]

    found = summarize(unavailable, addon(READY)).ready

    assert (found.status, found.reason, found.message) == ("False", "NotAvailable", "no node")


def test_conditions_of_the_cluster_count_for_a_user_who_may_not_read_cluster_addons() -> None:
    mirrored = cluster()
    mirrored["status"]["conditions"] = [
        condition("ClusterStackAddonsReady"),
        condition("ClusterStackAddonsHealthy", "False", "ObjectsFailed"),
    ]

    found = summarize(mirrored, None)

    assert (found.ready.status, found.conditions["Healthy"].status) == ("True", "False")
    assert found.concern.reason == "ObjectsFailed"


def test_delivered_addons_have_their_version_or_their_release() -> None:
    delivered = [
        {"name": "dns", "objects": 9, "version": "1.0.0", "release": OLD},
        {"name": "cni", "objects": 20, "release": OLD},
    ]

    found = summarize(cluster(), addon(READY, condition("InSync", "False", "ObjectsChanged"), addons=delivered))

    assert (found.objects, found.addons) == (29, (("dns", "1.0.0"), ("cni", OLD)))
    assert found.concern.reason == "ObjectsChanged"


def test_objects_without_spec_and_status_are_summarized() -> None:
    bare = {"metadata": {"name": "bare", "namespace": "x"}}

    assert summarize(bare, bare).key.name == "bare"


@pytest.mark.regression("U-36")
@pytest.mark.parametrize(
    ("one", "its_addon", "cause"),
    [
        (cluster(paused=True), None, "Cluster team-a/one is paused: unpause it by spec.paused"),
        (cluster(paused=True), addon(READY) | {"spec": {"paused": True}}, "Cluster team-a/one is paused: unpause it"),
        (cluster(), addon(READY) | {"spec": {"paused": True}}, "its ClusterAddon is paused: 'csctl resume team-a/one'"),
    ],
)
def test_u_36_a_pause_names_the_object_that_is_paused(
    one: dict[str, Any], its_addon: dict[str, Any] | None, cause: str
) -> None:
    summary = summarize(one, its_addon)

    assert summary.concern.message.startswith(cause)
    assert summary.document()["paused"] is True
