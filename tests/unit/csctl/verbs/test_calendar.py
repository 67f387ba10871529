"""``csctl compat calendar`` of a management cluster and of releases, on a given day."""

from __future__ import annotations

import asyncio
import json
from contextlib import asynccontextmanager
from datetime import date
from typing import TYPE_CHECKING, Any

import pytest

from clusterstacks.csctl.shared import output
from clusterstacks.csctl.shared.cluster_options import ManagementCluster
from clusterstacks.csctl.shared.support_calendar import print_calendar, read_calendar
from clusterstacks.model.objects import ObjectKey
from clusterstacks.net.kube.connection import Connection
from clusterstacks.plan.compat.library import facts
from clusterstacks.plan.compat.support import calendar
from clusterstacks.plan.compat.support_facts import support_ends
from tests.support.builders.fleets import Fleet, management_cluster
from tests.support.builders.releases import METADATA, write_release
from tests.support.running.csctl import call_csctl

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from tests.support.fakes.api_server import FakeApi

NOW = date(2027, 3, 10)
"""Ten days after 1.35 leaves support."""


@pytest.fixture
def management(monkeypatch: pytest.MonkeyPatch) -> ManagementCluster:
    """The example Clusters: three run 1.35, and a plan leads to 1.36."""
    api = management_cluster()
    asyncio.run(Fleet(api).examples())

    @asynccontextmanager
    async def connected(_: ManagementCluster, **options: Any) -> AsyncIterator[FakeApi]:  # noqa: ARG001 - as it is called
        yield api

    monkeypatch.setattr(ManagementCluster, "connected", connected)
    monkeypatch.setattr(ManagementCluster, "connection", lambda _: Connection("https://127.0.0.1:1", namespace="team"))
    return ManagementCluster()


def shown(
    management: ManagementCluster, capsys: pytest.CaptureFixture[str], form: str, today: date, name: str = ""
) -> str:
    cluster = ObjectKey(*name.split("/")) if name else None
    uses, ways = asyncio.run(read_calendar(management, cluster, today))
    print_calendar(calendar(uses, support_ends(), facts().support_end), ways, today, form, "Cluster")
    return capsys.readouterr().out


def test_a_minor_that_left_support_is_shown_with_its_clusters_and_the_way(
    management: ManagementCluster, capsys: pytest.CaptureFixture[str]
) -> None:
    lines = shown(management, capsys, "text", NOW).splitlines()

    assert [line for line in lines if not line.startswith("    https://")] == [
        "cilium 1.17.0 left support on 2026-07-29 (224 days ago): 4 Clusters",
        "Kubernetes 1.35 left support on 2027-02-28 (10 days ago): 4 Clusters, 2 steps",
        "    Cluster team-a/healthy: 2 steps to v1.36.1",
        "    Cluster team-a/upgrading: 1 step to v1.36.1",
        "cinder-csi 1.35.0: no fact is known: 4 Clusters",
        "openstack-cloud-controller-manager 1.35.0: no fact is known: 4 Clusters",
    ]
    sources = [line for line in lines if line.startswith("    https://")]
    assert len(sources) == 2
    assert all(source.endswith("(read 2026-11-20)") for source in sources)


def test_no_way_is_searched_while_a_minor_stays_supported(
    management: ManagementCluster, capsys: pytest.CaptureFixture[str]
) -> None:
    found = json.loads(shown(management, capsys, "json", date(2026, 6, 1)))

    assert found["today"] == "2026-06-01"
    minor = next(one for one in found["versions"] if one["name"] == "Kubernetes")
    assert (minor["version"], minor["state"], minor["supportEnds"]) == ("1.35", "Supported", "2027-02-28")
    assert [one for one in found["versions"] if one["ways"]] == []


def test_without_a_supported_minor_in_any_release_the_calendar_says_so(
    management: ManagementCluster, capsys: pytest.CaptureFixture[str]
) -> None:
    late = json.loads(shown(management, capsys, "json", date(2027, 12, 1), "team-a/healthy"))

    minor = next(one for one in late["versions"] if one["name"] == "Kubernetes")
    assert minor["usedBy"] == ["team-a/healthy"]
    (way,) = minor["ways"]
    assert way == {
        "cluster": "team-a/healthy",
        "to": None,
        "steps": None,
        "problem": "no release of its stack has a supported minor yet",
    }


def test_a_directory_of_releases_needs_no_cluster(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_release(tmp_path / "local-tiny-1-35-v2", {"metadata.yaml": METADATA.format(version="v2").encode()})

    assert call_csctl("compat", "calendar", tmp_path, "-o", "json") == 0

    (minor,) = json.loads(capsys.readouterr().out)["versions"]
    assert (minor["version"], minor["supportEnds"], minor["usedBy"]) == ("1.35", "2027-02-28", ["local-tiny-1-35-v2"])
    assert minor["source"].startswith("https://")
    assert call_csctl("compat", "calendar", tmp_path, "--context", "prod") == output.MUST_CHANGE
    assert "require CLUSTER, or no argument" in capsys.readouterr().err
