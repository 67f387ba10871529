"""The ClusterUpgrade that does what a user asks for, and how it ended."""

from __future__ import annotations

import asyncio
from typing import Any
from unittest.mock import AsyncMock

import pytest

from clusterstacks.csctl.shared.upgrade_objects import UpgradeRequest
from clusterstacks.csctl.shared.upgrade_run import find_running, has_ended, unfinished
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


def found(upgrade: dict[str, Any] | None, request: UpgradeRequest) -> str | None:
    key = asyncio.run(find_running(AsyncMock(find=AsyncMock(return_value=upgrade)), request))
    return str(key) if key is not None else None


def test_without_the_kind_the_error_names_what_csctl_can_do() -> None:
    client = AsyncMock(resource=AsyncMock(side_effect=KindNotServed("not served")))
    with pytest.raises(SpecError, match="or take the steps in csctl with --here"):
        asyncio.run(find_running(client, PROD))
    many = UpgradeRequest(namespace="team", to="v1.36.3", labels="ring=canary")
    with pytest.raises(SpecError) as refused:
        asyncio.run(find_running(client, many))
    assert "csctl install" in refused.value.message
    assert "--here" not in refused.value.message


def test_same_upgrade_is_followed_unless_it_is_done_or_has_other_settings() -> None:
    assert found(None, PROD) is None
    assert found(upgrade(phase="Done"), PROD) is None
    for phase in ("", "Running", "Blocked"):
        assert found(upgrade(phase=phase), PROD) == "team/prod-v1.36.3"
    later = UpgradeRequest(namespace="team", to="v1.36.3", cluster="prod", window="02:00+4h")
    with pytest.raises(SpecError, match="with other settings than these"):
        found(upgrade(), later)
