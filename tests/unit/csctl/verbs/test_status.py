from __future__ import annotations

import asyncio
import json
import re
import subprocess
import sys
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest

from clusterstacks.csctl.shared import output
from clusterstacks.csctl.shared.cluster_options import ManagementCluster
from clusterstacks.csctl.shared.management_objects import served
from clusterstacks.model.kinds.names import CLUSTER_API_GROUP, CLUSTER_KIND, GROUP, Kind
from clusterstacks.model.versions import KubernetesMinor
from clusterstacks.net.kube.connection import Connection
from clusterstacks.net.kube.errors import Forbidden, KindNotServed
from clusterstacks.plan.clusters.cluster_summary import summarize
from clusterstacks.plan.compat import support_facts
from clusterstacks.plan.compat.support import SupportEnd
from clusterstacks.runtime.leader_election import LEASES
from tests.support.builders.fleets import MORE_KINDS, NEW, OLD, Fleet, ago, condition
from tests.support.fakes.api_server import FakeApi
from tests.support.fakes.management_cluster import KINDS
from tests.support.running.csctl import call_csctl

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from clusterstacks.net.kube.resources import ObjectList, Resource

MODULES = (
    "clusterstacks.csctl.verbs.status",
    "clusterstacks.csctl.shared.live_view",
    "clusterstacks.plan.clusters.permissions",
    "clusterstacks.net.kube.client",
    "clusterstacks.net.kube.kubeconfig",
)
HEAVY = ("clusterstacks.runtime.informer", "cryptography", "pydantic", "rich", "uvloop")


def printed(script: str) -> str:
    return subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout.strip()


def test_status_loads_no_heavy_library() -> None:
    """Importing pydantic alone would take a quarter of the 0.5 s that the verb may take."""
    loaded = json.loads(printed(f"import json, sys, {', '.join(MODULES)}; print(json.dumps([*sys.modules]))"))

    assert not {*HEAVY} & {*loaded}


def test_the_imports_of_a_connection_read_no_cas_of_the_system(tmp_path: Path) -> None:
    """aiohttp reads them twice at its import, which takes a tenth of the time of the verb."""
    cluster = {"server": "https://127.0.0.1:1"}
    config = {
        "clusters": [{"name": "one", "cluster": cluster}],
        "contexts": [{"name": "one", "context": {"cluster": "one"}}],
        "current-context": "one",
    }
    (tmp_path / "kubeconfig").write_text(json.dumps(config))
    script = f"""
import asyncio, pathlib, ssl
read, loaded = ssl.SSLContext.set_default_verify_paths, []
def count(context):
    read(context)
    loaded.append(context.cert_store_stats()["x509"])
ssl.SSLContext.set_default_verify_paths = count
from clusterstacks.csctl.shared.cluster_options import ManagementCluster
async def connect():
    async with ManagementCluster(pathlib.Path({str(tmp_path / "kubeconfig")!r})).connected():
        pass
asyncio.run(connect())
print(set(loaded))
"""
    assert printed(script) == "{0}"


def test_few_collections_of_garbage_happen_while_a_verb_runs() -> None:
    """With the thresholds of Python a hundred happen, which find almost nothing."""
    script = """
import gc, sys
from clusterstacks.csctl import main
def imports():
    import clusterstacks.net.kube.client
    print(sum(one["collections"] for one in gc.get_stats()) - before, gc.isenabled())
main.csctl.main = lambda **_: imports()
before = sum(one["collections"] for one in gc.get_stats())
main.main()
"""
    collections, enabled = printed(script).split()

    assert (int(collections) < 5, enabled) == (True, "True")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--watch", "-o", "json"), "--watch cannot be combined with -o json"),
        (("--watch", "--context=a", "--context=b"), "--watch cannot be combined with several --context"),
        (("team/one", "--context=a", "--context=b"), "CLUSTER cannot be combined with several --context"),
        (("--shards", "--watch"), "--shards cannot be combined with CLUSTER, --syncs, --troubled or --watch"),
        (("--syncs", "-l", "a=b"), "--syncs cannot be combined with --selector"),
        (("team/one", "--syncs"), "CLUSTER cannot be combined with --selector, --syncs or --troubled"),
        (("team/", "--syncs"), "'team/' is not the name of an object (expected NAME or NAMESPACE/NAME"),
        (("team/one", "--troubled"), "CLUSTER cannot be combined with --selector, --syncs or --troubled"),
        (("team/one", "-n", "other"), "team/one is not in namespace other: remove --namespace, or correct it"),
        (("team/one", "-l", "a=b"), "CLUSTER cannot be combined with --selector"),
    ],
)
def test_contradicting_arguments_are_rejected(
    arguments: tuple[str, ...], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert call_csctl("status", *arguments) == output.MUST_CHANGE
    assert message in capsys.readouterr().err


class Tenant(FakeApi):
    """A management cluster whose user may list the objects of one namespace, or of all, but for one kind.

    It may not serve some kinds.
    """

    def __init__(self) -> None:
        super().__init__(*KINDS.values(), *MORE_KINDS, LEASES)
        self.missing: set[str] = set()
        self.own = ""
        self.secret = ""

    async def resource(self, group: str, kind: str, version: str = "") -> Resource:
        if kind in self.missing:
            raise KindNotServed(f"{kind}.{group} is not served")
        return await super().resource(group, kind, version)

    async def list(self, resource: Resource, namespace: str = "", **query: Any) -> ObjectList:
        if self.own not in {"", namespace} or resource.kind == self.secret:
            raise Forbidden(f"list {resource.kind}: 403", status=403, reason="Forbidden")
        return await super().list(resource, namespace, **query)


@pytest.fixture
def api(monkeypatch: pytest.MonkeyPatch) -> Tenant:
    """The example Clusters in the management cluster of csctl, whose context has namespace team-b."""
    api = Tenant()
    asyncio.run(Fleet(api).examples())

    @asynccontextmanager
    async def connected(_: ManagementCluster, **options: Any) -> AsyncIterator[Tenant]:  # noqa: ARG001 - as it is called
        yield api

    monkeypatch.setattr(ManagementCluster, "connected", connected)
    monkeypatch.setattr(support_facts, "support_ends", dict)  # the day of the test does not count
    monkeypatch.setattr(
        ManagementCluster, "connection", lambda _: Connection("https://127.0.0.1:1", namespace="team-b")
    )
    return api


def cells(text: str) -> list[list[str]]:
    """Return the cells of a table."""
    return [re.split(" {3,}", line.strip()) for line in text.splitlines()]


@pytest.mark.usefixtures("api")
def test_clusters_are_listed_with_the_releases_that_they_have(capsys: pytest.CaptureFixture[str]) -> None:
    assert call_csctl("status") == 0

    header, healthy, upgrading, drifted, refused, count = cells(capsys.readouterr().out)
    assert header == ["NAMESPACE", "NAME", "READY", "RELEASE", "NEWER", "KUBERNETES", "STAGE", "REASON", "SINCE"]
    assert healthy == ["✓", "team-a", "healthy", "True", OLD, "1.36-v1", "v1.35.4"]
    assert upgrading[2:6] == ["upgrading", "False", f"{OLD} → 1.36-v1", "1.36-v1"]
    assert upgrading[6:9] == ["v1.35.4 → v1.36.1", "2/3", "UpgradeHeld"]
    assert drifted[:4] == ["✗", "team-b", "drifted", "True"]
    assert drifted[-2:] == ["DriftFound", "12m"]
    assert refused[0] == "✓"
    assert count == [f"4 Clusters, 2 troubled; releases: {OLD} (4)"]


@pytest.mark.usefixtures("api")
def test_only_clusters_that_are_not_well_are_troubled(capsys: pytest.CaptureFixture[str]) -> None:
    assert call_csctl("status", "--troubled") == 0

    found = cells(capsys.readouterr().out)
    assert [row[2] for row in found[1:-1]] == ["upgrading", "drifted"]
    assert found[-1] == [f"4 Clusters, 2 troubled; releases: {OLD} (4)"]
    assert call_csctl("status", "--troubled", "-n", "team-a", "-o", "json") == 0
    (only,) = json.loads(capsys.readouterr().out)
    assert (only["name"], only["newer"]) == ("upgrading", [NEW])


@pytest.mark.usefixtures("api")
def test_minors_that_leave_support_are_below_the_table(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    day = datetime.now(UTC).date() - timedelta(days=40)
    ends = {KubernetesMinor(1, 35): SupportEnd(day, "https://example.org", "2026-11-20")}
    monkeypatch.setattr(support_facts, "support_ends", lambda: ends)

    assert call_csctl("status") == 0

    last = capsys.readouterr().out.splitlines()[-1]
    assert re.fullmatch(
        rf"(… )?Kubernetes 1.35 left support on {day} \(4[01] days ago\): 4 Clusters; 'csctl compat calendar' shows "
        "the way",
        last,
    )


@pytest.mark.regression("U-40")
def test_without_rights_in_all_namespaces_the_namespace_of_the_context_is_listed(
    api: Tenant, capsys: pytest.CaptureFixture[str]
) -> None:
    api.own = "team-b"

    assert call_csctl("status") == 0
    out, err = capsys.readouterr()
    assert [row[2] for row in cells(out)[1:-1]] == ["drifted", "refused"]
    expected = "Warning: you may not list the Clusters of all namespaces: only those of namespace team-b are shown\n"
    assert err == expected

    assert call_csctl("status", "-n", "team-a") == output.FAILED
    assert "list Cluster: 403" in capsys.readouterr().err


def test_releases_that_the_user_may_not_read_leave_one_column_empty(
    api: Tenant, capsys: pytest.CaptureFixture[str]
) -> None:
    api.secret = Kind.CLUSTER_STACK_RELEASE

    assert call_csctl("status") == 0
    out, err = capsys.readouterr()
    assert cells(out)[1][3:6] == ["True", OLD, "v1.35.4"]
    assert err == "Warning: list ClusterStackRelease: 403: newer releases are not shown\n"


def test_newest_events_of_a_cluster_are_below_its_tree(api: Tenant, capsys: pytest.CaptureFixture[str]) -> None:
    fleet = Fleet(api)
    fleet.events = 100
    for minute in (6, 7, 8, 10, 11, 12, 13):
        event = {"reason": f"Old{minute}", "message": "a\nb", "lastTimestamp": ago(minutes=minute)}
        asyncio.run(fleet.event("team-a", "Cluster/upgrading", **event))

    assert call_csctl("status", "team-a/upgrading") == 0
    tree, _, table = capsys.readouterr().out.partition("\n\n")
    assert tree.startswith("… Cluster team-a/upgrading")
    header, *events = cells(table)
    assert header == ["LAST SEEN", "TYPE", "REASON", "OBJECT", "MESSAGE"]
    assert [row[2] for row in events] == [
        *(f"Old{minute}" for minute in (12, 11, 10)),
        "ReleaseReady",
        *(f"Old{minute}" for minute in (8, 7, 6)),
        "TopologyVersion",
        "StageStarted",
        "ObjectsInProgress",
    ]
    assert events[0][1:] == ["Normal", "Old12", "Cluster/upgrading", "a b"]

    assert call_csctl("status", "team-a/upgrading", "-o", "json") == 0
    document = json.loads(capsys.readouterr().out)
    assert [one["reason"] for one in document["events"]] == [row[2] for row in events]


def test_state_of_a_cluster_is_described_without_the_right_to_read_events(
    api: Tenant, capsys: pytest.CaptureFixture[str]
) -> None:
    api.secret = "Event"

    assert call_csctl("status", "team-a/healthy") == 0
    out, err = capsys.readouterr()
    assert out.startswith("✓ Cluster team-a/healthy")
    assert err == "Warning: list Event: 403: events are not shown\n"


NOT_ESTABLISHED = condition(
    "Ready",
    ago(hours=12),
    "False",
    severity="Error",
    reason="ObjectsApplyingOngoing",
    message="1 of 2 objects not applied: CRD foo is not established",
)


@pytest.fixture
def synced(api: Tenant) -> Tenant:
    """Syncs of a Cluster of a stack, of one without a stack, and a ClusterResourceSet that is kept by the operator."""

    async def create() -> None:
        fleet = Fleet(api)
        await fleet.plain_cluster("team-b/plain")
        await fleet.sync("team-a/clouds", condition("Ready"))
        await fleet.sync(
            "team-b/operator",
            condition("Ready", ago(minutes=13), "False", reason="ClustersNotSynced", message="1 of 1 clusters"),
        )
        await fleet.binding("team-a/healthy", "clouds")
        await fleet.binding("team-b/plain", "operator", NOT_ESTABLISHED, ready=False)
        await fleet.binding("team-b/plain", "cni", owner="ClusterResourceSet")

    asyncio.run(create())
    return api


@pytest.mark.usefixtures("synced")
def test_tree_of_a_cluster_shows_its_syncs_with_or_without_a_cluster_stack(capsys: pytest.CaptureFixture[str]) -> None:
    assert call_csctl("status", "team-a/healthy") == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("✓ Cluster team-a/healthy  class")
    assert lines[lines.index("  ✓ syncs  1 of 1 delivered") + 1] == "    ✓ clouds  1 object in place"

    assert call_csctl("status", "team-b/plain") == 0
    tree = capsys.readouterr().out.splitlines()
    since = NOT_ESTABLISHED["lastTransitionTime"]
    why = f"ObjectsApplyingOngoing: 1 of 2 objects not applied: CRD foo is not established, since {since}"
    assert tree == [
        f"✗ Cluster team-b/plain  Kubernetes v1.35.4, ObjectsApplyingOngoing, since {since}",
        "  ✓ control plane  v1.35.4",
        "  ✓ workers md  1 of 1 available, v1.35.4",
        "    ✓ Machine md-1  v1.35.4 Running",
        "  ✗ syncs  1 of 2 delivered",
        "    ✓ cni  1 object in place",
        f"    ✗ operator  {why}",
    ]


@pytest.mark.usefixtures("synced")
def test_cluster_without_a_stack_is_listed_with_the_trouble_of_its_syncs(capsys: pytest.CaptureFixture[str]) -> None:
    assert call_csctl("status", "--troubled", "-n", "team-b") == 0
    _, drifted, plain, count = cells(capsys.readouterr().out)
    assert drifted[2] == "drifted"
    assert plain == ["✗", "team-b", "plain", "True", "v1.35.4", "ObjectsApplyingOngoing", "12h"]
    assert count == [f"3 Clusters, 2 troubled; releases: {OLD} (2)"]

    assert call_csctl("status", "-n", "team-b", "-o", "json") == 0
    (found,) = [one for one in json.loads(capsys.readouterr().out) if one["name"] == "plain"]
    assert found["message"] == f"sync operator: {NOT_ESTABLISHED['message']}"
    assert [(one["name"], one["ready"], one["objects"]) for one in found["syncs"]] == [
        ("cni", True, 1),
        ("operator", False, 1),
    ]


@pytest.mark.usefixtures("synced")
def test_syncs_are_listed_with_the_numbers_of_their_clusters(capsys: pytest.CaptureFixture[str]) -> None:
    assert call_csctl("status", "--syncs") == 0
    assert cells(capsys.readouterr().out) == [
        ["NAMESPACE", "NAME", "READY", "CLUSTERS", "SYNCED", "DRIFTED", "REASON", "SINCE"],
        ["✓", "team-a", "clouds", "True", "1", "1", "0"],
        ["✓", "team-b", "cni (ClusterResourceSet)", "True", "1", "1", "0"],
        ["…", "team-b", "operator", "False", "1", "0", "0", "ClustersNotSynced", "13m"],
        ["3 syncs, 1 troubled"],
    ]

    assert call_csctl("status", "--syncs", "--troubled", "-n", "team-b", "-o", "json") == 0
    (only,) = json.loads(capsys.readouterr().out)
    assert (only["kind"], only["name"], only["reason"]) == ("ClusterResourceSync", "operator", "ClustersNotSynced")
    assert call_csctl("status", "--syncs", "-n", "team-c") == 0
    assert capsys.readouterr().err == "There is no ClusterResourceSync.\n"


def test_installation_without_syncs_has_none(api: Tenant, capsys: pytest.CaptureFixture[str]) -> None:
    api.missing = {Kind.CLUSTER_RESOURCE_SYNC, Kind.CLUSTER_RESOURCE_SYNC_BINDING}

    assert call_csctl("status") == 0
    assert capsys.readouterr().err == ""
    assert call_csctl("status", "--syncs") == output.FAILED
    assert "does not serve ClusterResourceSync: install the operator" in capsys.readouterr().err


class Bare:
    """A management cluster without our definitions and Cluster API."""

    async def resource(self, group: str, kind: str, version: str = "") -> Any:
        raise KindNotServed(f"{group} {kind} {version}")


@pytest.mark.parametrize(
    ("group", "kind", "remedy"),
    [(GROUP, Kind.CLUSTER_STACK, "csctl install"), (CLUSTER_API_GROUP, CLUSTER_KIND, "clusterctl init")],
)
async def test_message_about_a_missing_kind_says_what_to_install(group: str, kind: str, remedy: str) -> None:
    client: Any = Bare()

    with pytest.raises(KindNotServed, match=f"does not serve {kind}: install .*'{remedy}'"):
        await served(client, group, kind)


def test_missing_kubeconfig_is_an_error_with_a_remedy(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("KUBECONFIG", raising=False)
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))

    assert call_csctl("status") == output.MUST_CHANGE
    assert "name one with --kubeconfig or with KUBECONFIG" in capsys.readouterr().err


def test_shards_are_listed_with_their_loads_and_the_commands_that_balance_them(
    api: Tenant, capsys: pytest.CaptureFixture[str]
) -> None:
    for name, holder in (("clusterstack.x-k8s.io", "operator-1"), ("emea.clusterstack.x-k8s.io", "emea-1")):
        lease = {"metadata": {"name": name, "namespace": "home"}, "spec": {"holderIdentity": holder}}
        asyncio.run(api.create(LEASES, lease, "home"))

    assert call_csctl("status", "--shards") == 0

    table, _, commands = capsys.readouterr().out.partition("To balance them, label:\n")
    assert [line.split()[:3] for line in table.splitlines()[1:3]] == [
        ["main", "operator-1", "4"],
        ["emea", "emea-1", "0"],
    ]
    assert "clusterstack.x-k8s.io/shard=emea --overwrite" in commands


def test_cluster_of_a_shard_that_does_not_run_is_not_ready_whatever_its_clusteraddon_says() -> None:
    told = {"type": "ClusterStackAddonsReady", "status": "False", "reason": "ShardNotRunning", "message": "shard emea"}
    cluster = {"metadata": {"name": "one", "namespace": "team"}, "status": {"conditions": [told]}}
    addon = {"spec": {"clusterStack": OLD}, "status": {"conditions": [{"type": "Ready", "status": "True"}]}}

    found = summarize(cluster, addon)

    assert (found.ready.status, found.concern.reason) == ("False", "ShardNotRunning")
