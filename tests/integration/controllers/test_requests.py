"""Requests to the management cluster: an installation, an upgrade and a restart need no more than these.

They are counted by the API server's audit log, by user agent. A test that plays Cluster API decides when a Cluster
changes, so the counts do not depend on time. Watches that the server ends after a minute are opened again, so each kind
is counted once. If a number has to grow, change it here and in docs/benchmarks.md.
"""

from __future__ import annotations

from collections import Counter
from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING, Any
from unittest.mock import AsyncMock

import pytest
import yaml

from clusterstacks.operator import source_wiring
from clusterstacks.operator.app import COMPONENT
from clusterstacks.operator.controllers import held_reports
from clusterstacks.operator.controllers.clusterstackrelease import registration
from clusterstacks.operator.controllers.clusterstackrelease.source_check import SourceCheck
from clusterstacks.operator.controllers.workload_clients import Workloads
from clusterstacks.runtime.background_tasks import BackgroundTasks
from tests.support.builders.stacks import config_map, templates
from tests.support.observing.audit_log import audit_flags
from tests.support.observing.request_audit import ALL_REQUESTS, RequestAudit, of_agent
from tests.support.running.world import SECONDS, attempts, busy_workers, condition_of, is_ready
from tests.support.servers.api_servers import started_api_server
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from clusterstacks.dev.apiserver import ApiServer
    from clusterstacks.dev.etcd import Etcd
    from clusterstacks.model.names import ReleaseName
    from clusterstacks.model.objects import Manifest
    from clusterstacks.operator.app import Operator
    from tests.support.running.world import World

STACK = Counter(
    {
        "get clusterstacks": 1,
        "create clusterstackreleases": 2,
        "get clusterstackreleases": 2,
        "patch clusterstackreleases": 2,  # the digest of the download
        "patch clusterstackreleases/status": 6,  # objects to apply, applied, class accepted
        "apply tinyclustertemplates": 2,
        "apply clusterclasses": 2,
        "get clusterclasses": 4,  # after the apply; where Cluster API has not accepted it by then, once more
        "get tinyclustertemplates": 2,  # then, to name a template that is missing
        "list tinyclustertemplates": 1,
        "watch tinyclustertemplates": 1,
        "patch clusterstacks/status": 6,  # both releases advance at the same time: each ready one, and what it has then
        "create events": 5,  # two created, three ready
    }
)
LIVE_READS = Counter({"get clusteraddons": 1, "get clusters": 1, "get clusterstackreleases": 1, "get secrets": 1})
"""Before a delivery everything is read from the server."""
INSTALLATION = LIVE_READS + Counter(
    {
        "create clusteraddons": 1,
        "patch clusters/status": 2,  # waiting, delivered
        "patch clusteraddons/status": 2,  # the same
        "patch clusteraddons": 1,  # what is delivered, in spec
        "patch clusters": 1,  # the hold of upgrades
        "create events": 2,  # of the Cluster and of the ClusterAddon
    }
)
UPGRADE = LIVE_READS + Counter(
    {
        "patch clusters/status": 2,  # begun, delivered
        "patch clusteraddons/status": 2,  # the same
        "patch clusteraddons": 1,
        "create events": 1,
    }
)
SAME_VALUES = Counter({"patch clusteraddons/status": 1})  # the digest of the inputs
"""After a change of what templates can read, and do not; Cluster API causes some in each installation."""
BEGINNING = Counter({"patch clusteraddons/status": 1})
"""At once after the class changed; all else waits for Cluster API for up to a second."""
KINDS = (
    "clusterstacks",
    "clusterstackreleases",
    "clusteraddons",
    "compatibilityrules",
    "clusterupgrades",
    "clusterresourcesyncs",
    "clusterresourcesyncbindings",
    "clusterresourcesets",
    "clusters",
    "clusterclasses",
    "tinyclustertemplates",
)
RESTART = Counter(
    {
        "get /apis": 1,
        "list validatingwebhookconfigurations": 1,  # leftovers of the Go operator
        **{f"{verb} {kind}": 1 for verb in ("list", "watch") for kind in KINDS},
    }
)
"""The same for any number of clusters."""

TOO_MANY = 429


@pytest.fixture(scope="module")
def audit_directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("audit")


@pytest.fixture(scope="module")
def api_server(etcd: Etcd, audit_directory: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ApiServer]:
    """Play a management cluster of this module alone, which notes all requests."""
    flags = audit_flags(audit_directory, ALL_REQUESTS)
    yield from started_api_server("counted", etcd, tmp_path_factory, flags=flags)


@pytest.fixture
def audit(api_server: ApiServer, audit_directory: Path) -> RequestAudit:
    assert api_server.process.exit_code is None
    return RequestAudit(audit_directory / "audit.log")


@pytest.fixture(autouse=True)
def downloads_are_awaited(monkeypatch: pytest.MonkeyPatch) -> None:
    """A reconcile reads its object again after a download that it did not wait for, as on a busy machine."""
    awaited = partial(BackgroundTasks, initial_wait=timedelta(seconds=SECONDS))
    monkeypatch.setattr(source_wiring, "BackgroundTasks", awaited)


@pytest.fixture(autouse=True)
def sources_are_not_checked(monkeypatch: pytest.MonkeyPatch) -> None:
    """A source is checked at a random time of its interval; no test takes long enough for this one."""
    monkeypatch.setattr(registration, "SourceCheck", partial(SourceCheck, interval=timedelta(days=1000)))


def assert_at_most(expected: Counter[str], found: Counter[str]) -> None:
    assert found - expected == Counter(), f"more than {sum(expected.values())}: {found}"


def counted(audit: RequestAudit) -> Counter[str]:
    """Count the operator's requests since the last call.

    Those that the server puts off because it serves a new CustomResourceDefinition for the first time do not count.
    """
    requests = [one for one in of_agent(audit.since_last(), COMPONENT) if one.code != TOO_MANY]
    watches = {str(one) for one in requests if one.verb == "watch"}
    return Counter(str(one) for one in requests if one.verb != "watch") + Counter(watches)


async def started(audit: RequestAudit) -> None:
    """Wait until the operator watches the kinds that it always watches."""
    missing = {f"watch {kind}" for kind in KINDS[:-1]} | {"list validatingwebhookconfigurations"}

    async def look() -> bool:
        missing.difference_update(counted(audit))
        return not missing

    await eventually(look, seconds=SECONDS, about="the start of the operator")


async def offered(world: World, *versions: str) -> list[ReleaseName]:
    names = [world.stack.release(version) for version in versions]
    for name, version in zip(names, versions, strict=True):
        files = world.stack.files(version, {"cni": templates(config_map(world.namespace, release=version))})
        world.publish(name, files)
    await world.create(world.stack.manifest(world.namespace, *versions))
    for name in names:
        await world.release_ready(name)
    return names


async def installed(
    world: World, name: str, release: ReleaseName, kubeconfig: Mapping[str, Any] | None = None
) -> Manifest:
    """Create a Cluster; it waits until the operator has reported that its control plane is not ready."""
    cluster = await world.cluster(name, release.class_name, ready=False)
    await world.connect(name, kubeconfig)
    await world.until("Cluster", name, lambda one: condition_of(one, "ClusterStackAddonsReady"))
    await world.says("ClusterAddon", f"cluster-addon-{name}", "ClusterReady")
    await world.finish(cluster)
    await delivered(world, name, release)
    return cluster


async def delivered(world: World, name: str, release: ReleaseName) -> None:
    """Wait for the last request of a delivery, which is the event."""
    await world.addons_ready(name, release.class_name)
    message = f"the addons of class {release.class_name} are delivered"
    cluster = await world.get("Cluster", name)

    async def recorded() -> bool:
        return any(one["message"] == message for one in await world.events(cluster))

    await eventually(recorded, seconds=SECONDS, about="the event")


async def annotated(world: World, name: str) -> None:
    """Annotate a Cluster, and wait until its ClusterAddon knows."""
    before = (await world.addon(name))["status"]["observedInputs"]
    cluster = await world.get("Cluster", name)
    await world.patch(cluster, {"metadata": {"annotations": {"example.org/unused": "x"}}})
    addon = await world.until(
        "ClusterAddon", f"cluster-addon-{name}", lambda one: one["status"]["observedInputs"] not in {"", before}
    )
    assert is_ready(addon)


async def set_topology_reconciled(world: World, status: str) -> None:
    """Set the condition of Cluster API, and keep the others."""
    cluster = await world.get("Cluster", "one")
    kind = "TopologyReconciled"
    conditions = [{**one, "status": status} if one["type"] == kind else one for one in cluster["status"]["conditions"]]
    await world.patch(cluster, {"status": {"conditions": conditions}}, "status")


async def at_rest(operator: Operator, **reconciles: int) -> None:
    """Wait until the controllers have ended at least so many reconciles, and nothing is left to do."""

    async def look() -> bool:
        depths = sum(len(controller.queue) for controller in operator._controllers.values())
        ended = all(attempts(operator, name) >= count for name, count in reconciles.items())
        return ended and not depths and not busy_workers(operator)

    await eventually(look, seconds=SECONDS, about="the end of all reconciles")


async def test_an_installation_an_upgrade_and_a_restart_send_no_more_requests_than_these(
    world: World, audit: RequestAudit, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with world.operator() as operator:
        await started(audit)
        first, second = await offered(world, "v1", "v2")
        await at_rest(operator, clusterstack=1)
        assert_at_most(STACK, counted(audit))
        await installed(world, "one", first)
        assert_at_most(INSTALLATION, counted(audit))
        await at_rest(operator)
        counted(audit)
        with monkeypatch.context() as patched:
            patched.setattr(Workloads, "connect", AsyncMock(side_effect=AssertionError("a connection")))
            await annotated(world, "one")
            assert_at_most(SAME_VALUES, counted(audit))
        await world.set_class("one", second.class_name)
        await delivered(world, "one", second)
        assert_at_most(UPGRADE, counted(audit))
        await at_rest(operator)
        await set_topology_reconciled(world, "False")
        await at_rest(operator)
        counted(audit)
        with monkeypatch.context() as patched:
            patched.setattr(held_reports, "HOLD", timedelta(hours=1))  # the test may take longer than a second
            await world.set_class("one", first.class_name)
            await world.says("ClusterAddon", "cluster-addon-one", "Ready", "RollingOut")
            await at_rest(operator)
            # Cluster API reconciles the topology of the Cluster undisturbed.
            assert_at_most(BEGINNING, counted(audit))
            await set_topology_reconciled(world, "True")
            await delivered(world, "one", first)
        assert_at_most(UPGRADE - BEGINNING, counted(audit))
        await at_rest(operator)
        await installed(world, "two", second, yaml.safe_load(world.management_kubeconfig.read_text()))
        await at_rest(operator)
    counted(audit)
    async with world.operator() as operator:
        await at_rest(operator, clusteraddon=2, clusterstackrelease=2, clusterstack=1)
        assert_at_most(RESTART, counted(audit))


async def test_a_topology_that_is_not_reconciled_within_a_second_is_reported(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(held_reports, "HOLD", timedelta(0))
    async with world.operator() as operator:
        first, second = await offered(world, "v1", "v2")
        await installed(world, "one", first)
        await at_rest(operator)
        await set_topology_reconciled(world, "False")
        await world.set_class("one", second.class_name)
        await world.says("ClusterAddon", "cluster-addon-one", "Ready", "WaitingForUpgrade")
        await world.says("Cluster", "one", "ClusterStackAddonsReady", "WaitingForUpgrade")
        await set_topology_reconciled(world, "True")
        await delivered(world, "one", second)
