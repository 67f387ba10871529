from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from clusterstacks.cli.shared.object_tables import TABLES

NOW = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)
TABLE = {table.names[0]: table for table in TABLES}
OLD, NEW = "local-demo-1-35-v1", "local-demo-1-35-v2"


def metadata(name: str, created: str = "2026-03-01T11:00:00Z") -> dict[str, Any]:
    return {"name": name, "namespace": "team-a", "creationTimestamp": created}


def condition(kind: str, status: str = "True", reason: str = "", message: str = "") -> dict[str, str]:
    return {"type": kind, "status": status, "reason": reason, "message": message}


def cluster(class_name: str = OLD, version: str = "v1.35.4", running: str = "v1.35.4", **more: Any) -> dict[str, Any]:
    return {
        "apiVersion": "cluster.x-k8s.io/v1beta2",
        "kind": "Cluster",
        "metadata": metadata("one"),
        "spec": {"topology": {"classRef": {"name": class_name}, "version": version}, **more},
        "status": {"controlPlane": {"versions": [{"version": running}]}},
    }


def addon(*conditions: dict[str, str], delivered: str = OLD, **status: Any) -> dict[str, Any]:
    return {
        "metadata": metadata("cluster-addon-one"),
        "spec": {"clusterRef": {"name": "one"}, "clusterStack": delivered},
        "status": {"conditions": list(conditions), **status},
    }


def row(kind: str, one: dict[str, Any], *addons: dict[str, Any]) -> dict[str, str]:
    table = TABLE[kind]
    (cells,) = table.rows([one], addons, NOW, wide=True, namespaces=True)
    return dict(zip(table.header(wide=True, namespaces=True), cells, strict=True))


STAGES = [{"action": "apply", "name": "network", "phase": "done"}, {"action": "apply", "name": "dns", "phase": "x"}]
READY, UNREADY = condition("Ready"), condition("Ready", "False", "HelmChartMissing", "no\n chart")
UNHEALTHY = condition("Healthy", "False", "ObjectsFailed", "a Pod fails")


@pytest.mark.parametrize(
    ("one", "its_addon", "cells"),
    [
        (cluster(), addon(READY), {"READY": "True", "RELEASE": "v1", "KUBERNETES": "v1.35.4", "REASON": ""}),
        (cluster(), addon(UNREADY), {"READY": "False", "REASON": "HelmChartMissing", "MESSAGE": "no chart"}),
        (cluster(), addon(READY, UNHEALTHY), {"READY": "True", "REASON": "ObjectsFailed", "HEALTHY": "False"}),
        (cluster(NEW), addon(UNREADY, stages=STAGES), {"CLASS": NEW, "RELEASE": "v1 → v2", "STAGE": "2/2"}),
        (cluster("local-demo-1-36-v2"), addon(READY), {"RELEASE": "1.35-v1 → 1.36-v2"}),
        (cluster("mine"), addon(READY), {"RELEASE": f"{OLD} → mine"}),
        (cluster(NEW), addon(UNREADY, delivered=""), {"RELEASE": "→ v2", "STAGE": ""}),
        (cluster(version="v1.36.1"), addon(READY), {"KUBERNETES": "v1.35.4 → v1.36.1"}),
        (cluster(running="broken"), addon(READY), {"KUBERNETES": "→ v1.35.4"}),
        (cluster(running=""), addon(READY, observedKubernetesVersion="v1.35.4"), {"KUBERNETES": "v1.35.4"}),
        (cluster(), addon(READY, upgradeHold={"state": "Held"}), {"REASON": "UpgradeHeld"}),
        (cluster(paused=True), addon(READY, upgradeHold={"state": "Held"}), {"REASON": "Paused"}),
        (cluster(), None, {"READY": "Unknown", "REASON": "NoAddons", "RELEASE": "→ v1"}),
        (cluster("mine"), None, {"READY": "", "REASON": "", "CLASS": "mine", "MESSAGE": ""}),
    ],
)
def test_row_of_a_cluster(one: dict[str, Any], its_addon: dict[str, Any] | None, cells: dict[str, str]) -> None:
    found = row("clusters", one, *([its_addon] if its_addon else []))

    assert found.items() >= {"NAMESPACE": "team-a", "NAME": "one", "AGE": "60m", **cells}.items()


def test_cluster_that_cluster_api_reports_as_unavailable_is_not_ready() -> None:
    unavailable = cluster()
    unavailable["status"]["conditions"] = [condition("Available", "False", "NotAvailable", "no node")]

    found = row("clusters", unavailable, addon(READY))

    assert (found["READY"], found["REASON"], found["MESSAGE"]) == ("False", "NotAvailable", "no node")


def test_conditions_of_the_cluster_count_for_a_user_who_may_not_read_cluster_addons() -> None:
    mirrored = cluster()
    mirrored["status"]["conditions"] = [
        condition("ClusterStackAddonsReady"),
        condition("ClusterStackAddonsHealthy", "False", "ObjectsFailed"),
    ]

    found = row("clusters", mirrored)

    assert (found["READY"], found["HEALTHY"], found["REASON"]) == ("True", "False", "ObjectsFailed")


def test_row_of_a_cluster_addon_says_what_was_delivered() -> None:
    delivered = [
        {"name": "dns", "objects": 9, "version": "1.0.0", "release": OLD},
        {"name": "cni", "objects": 20, "release": OLD},
    ]

    found = row("addons", addon(READY, condition("InSync", "False", "ObjectsChanged"), addons=delivered))

    assert (found["OBJECTS"], found["ADDONS"]) == ("2 addons, 29 objects", f"dns 1.0.0, cni {OLD}")
    assert (found["CLUSTER"], found["IN SYNC"], found["REASON"]) == ("one", "False", "ObjectsChanged")


def test_rows_of_a_stack_and_a_release() -> None:
    spec = {"provider": "local", "name": "demo", "kubernetesVersion": "1.35", "channel": "stable"}
    status = {"usableVersions": "v1, v2", "latestRelease": f"{NEW} | v1.35.4", "conditions": [READY]}
    stack = row("stacks", {"metadata": metadata("demo"), "spec": spec, "status": status})
    release = row("releases", {"metadata": metadata(NEW), "status": {"conditions": [UNREADY], "digest": "sha256:1"}})

    assert (stack["READY"], stack["USABLE"], stack["LATEST"], stack["SUBSCRIBED"]) == ("True", "v1, v2", NEW, "yes")
    assert (release["READY"], release["REASON"], release["DIGEST"]) == ("False", "HelmChartMissing", "sha256:1")


@pytest.mark.parametrize("kind", TABLE)
def test_object_without_spec_and_status_has_a_row(kind: str) -> None:
    assert row(kind, {"metadata": {"name": "bare", "namespace": "x"}})["NAME"] == "bare"


def test_narrow_table_in_one_namespace_has_ready_after_the_name() -> None:
    for table in TABLES:
        assert table.header(wide=False, namespaces=False)[:2] == ("NAME", "READY")
        (cells,) = table.rows([{"metadata": metadata("x")}], [], NOW, wide=False, namespaces=False)
        assert len(cells) == len(table.columns)
