"""The ClusterUpgrade that does what a user asks for, and how it ended."""

from __future__ import annotations

import asyncio
from typing import Any
from unittest.mock import AsyncMock

import pytest

from clusterstacks.csctl.shared import upgrade_run
from clusterstacks.csctl.shared.upgrade_objects import UpgradeRequest
from clusterstacks.csctl.shared.upgrade_run import find_running, has_ended, running_upgrade, unfinished
from clusterstacks.model.errors import SpecError
from clusterstacks.net.kube.errors import KindNotServed

PROD = UpgradeRequest(namespace="team", to="v1.36.3", cluster="prod")


def upgrade(
    name: str = "prod-v1.36.3", *, phase: str = "Running", to: str = "v1.36.3", **clusters: str
) -> dict[str, Any]:
    entries = [{"name": cluster, "phase": state, "message": f"{cluster} waits"} for cluster, state in clusters.items()]
    return {
        "metadata": {"name": name, "namespace": "team", "generation": 2, "creationTimestamp": "2026-11-27T10:00:00Z"},
        "spec": {"clusters": {"names": ["prod"]}, "to": to},
        "status": {"phase": phase, "observedGeneration": 2, "clusters": entries},
    }


def older(manifest: dict[str, Any]) -> dict[str, Any]:
    return {**manifest, "metadata": {**manifest["metadata"], "creationTimestamp": "2026-11-01T00:00:00Z"}}


@pytest.mark.parametrize(
    ("upgrades", "name"),
    [
        ([], None),
        ([upgrade()], "prod-v1.36.3"),
        ([upgrade(phase="")], "prod-v1.36.3"),
        ([upgrade(phase="Blocked")], "prod-v1.36.3"),
        ([upgrade(phase="Done")], None),
        ([upgrade("canary", prod="Running")], "canary"),
        ([upgrade("canary", prod="Done")], None),
        ([upgrade("canary", other="Running")], None),
        ([upgrade("b", prod="Waiting"), older(upgrade("c", prod="Waiting"))], "c"),
        ([older(upgrade("c", prod="Running")), upgrade()], "prod-v1.36.3"),
    ],
)
def test_upgrade_of_the_name_counts_or_the_oldest_that_has_the_cluster(
    upgrades: list[dict[str, Any]], name: str | None
) -> None:
    found = running_upgrade(upgrades, PROD)
    assert (found and found["metadata"]["name"]) == name


@pytest.mark.parametrize(
    ("phase", "observed", "ended"),
    [
        ("Done", 2, True),
        ("Stopped", 2, True),
        ("Blocked", 2, True),
        ("Running", 2, False),
        ("Suspended", 2, False),
        ("Waiting", 2, False),
        ("", 2, False),
        ("Done", 1, False),
    ],
)
def test_upgrade_has_ended_when_its_present_spec_has(phase: str, observed: int, *, ended: bool) -> None:
    manifest = upgrade(phase=phase)
    manifest["status"]["observedGeneration"] = observed
    assert has_ended(manifest) is ended


def test_only_clusters_that_do_not_go_on_are_named() -> None:
    assert unfinished(upgrade(a="Done", b="Failed", c="Blocked", d="Waiting")) == ["b: b waits", "c: c waits"]


def found(upgrades: list[dict[str, Any]] | Exception, request: UpgradeRequest, monkeypatch: pytest.MonkeyPatch) -> Any:
    failing = isinstance(upgrades, Exception)
    read = AsyncMock(side_effect=upgrades) if failing else AsyncMock(return_value=upgrades)
    monkeypatch.setattr(upgrade_run, "read_objects", read)
    return asyncio.run(find_running(AsyncMock(), request))


def test_without_the_kind_the_error_names_what_csctl_can_do(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(SpecError, match="or take the steps in csctl with --here"):
        found(KindNotServed("not served"), PROD, monkeypatch)
    many = UpgradeRequest(namespace="team", to="v1.36.3", labels="ring=canary")
    with pytest.raises(SpecError) as refused:
        found(KindNotServed("not served"), many, monkeypatch)
    assert "csctl install" in refused.value.message
    assert "--here" not in refused.value.message


def test_upgrade_to_another_target_is_named_with_the_way_out(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(SpecError, match=r"upgrades Cluster team/prod to v1\.35\.9: follow it") as refused:
        found([upgrade("canary", to="v1.35.9", prod="Running")], PROD, monkeypatch)
    assert "kubectl delete clusterupgrade -n team canary" in refused.value.message


def test_same_upgrade_with_other_settings_is_not_changed_silently(monkeypatch: pytest.MonkeyPatch) -> None:
    assert str(found([upgrade(prod="Running")], PROD, monkeypatch)) == "team/prod-v1.36.3"
    later = UpgradeRequest(namespace="team", to="v1.36.3", cluster="prod", window="02:00+4h")
    with pytest.raises(SpecError, match="with other settings than these"):
        found([upgrade(prod="Running")], later, monkeypatch)
