"""LIVE-H1 with the Go operator's CRDs, which drop the facts: no write loop, and a remedy is reported."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING

import pytest

from clusterstacks.model.kinds.clusteraddon import addon_name
from clusterstacks.model.kinds.crd_manifests import all_crds
from clusterstacks.model.kinds.names import CLUSTER_KIND, DIGEST_ANNOTATION, Kind
from clusterstacks.net.kube.client import Client
from clusterstacks.net.kube.kubeconfig import parse_kubeconfig
from clusterstacks.net.pool import Pool
from clusterstacks.operator.controllers.status_reconciler import StatusPatch, StatusReconciler
from clusterstacks.release.sources.verified_content import VerifiedContent
from tests.regressions.test_pins import SIGNED, attacked, is_verified, requiring
from tests.support.builders.manifests import deployment
from tests.support.builders.stacks import stage, templates
from tests.support.running import world as operating
from tests.support.running.admission import guarded, ranged, refusal
from tests.support.servers.api_servers import started_api_server

if TYPE_CHECKING:
    from collections.abc import Iterator

    from clusterstacks.dev.apiserver import ApiServer
    from clusterstacks.dev.etcd import Etcd
    from clusterstacks.model.objects import Manifest
    from tests.support.running.world import World

pytestmark = pytest.mark.regression("LIVE-H1")

OLD, NEW = "v1.35.4", "v1.36.1"

GO_STATUS = {"conditions", "kubernetesVersion", "ready", "resources"}
"""Fields of a ClusterStackRelease's status in the CRD of the Go operator 0.1.0-alpha.8."""
GO_RESOURCE = {"error", "group", "kind", "name", "namespace", "status", "version"}


def go_crds() -> list[Manifest]:
    """Our CRDs, with no more in the status of a ClusterStackRelease than the Go operator's has."""
    crds = copy.deepcopy(all_crds())
    (release,) = (one for one in crds if one["spec"]["names"]["kind"] == Kind.CLUSTER_STACK_RELEASE)
    schema = release["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    status = schema["properties"]["status"]["properties"]
    for name in status.keys() - GO_STATUS:
        del status[name]
    resource = status["resources"]["items"]["properties"]
    for name in resource.keys() - GO_RESOURCE:
        del resource[name]
    (addon,) = (one for one in crds if one["spec"]["names"]["kind"] == Kind.CLUSTER_ADDON)
    del addon["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["status"]["properties"]["history"]
    return crds


@pytest.fixture(scope="module")
def api_server(etcd: Etcd, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ApiServer]:
    """A management cluster with the CRDs of the Go operator."""
    yield from started_api_server("go-crds", etcd, tmp_path_factory)


@pytest.fixture(autouse=True)
async def installed(api_server: ApiServer) -> None:
    if api_server.url in operating._installed:
        return
    async with Pool() as pool:
        client = Client(parse_kubeconfig(api_server.kubeconfig, base=None), pool)
        await operating.install(client, [*go_crds(), *operating.foreign_crds()])
    operating._installed.add(api_server.url)


def counting(monkeypatch: pytest.MonkeyPatch, kind: Kind = Kind.CLUSTER_STACK_RELEASE) -> list[str]:
    """Note each write of the status of objects of a kind."""
    writes: list[str] = []
    patch_status = StatusReconciler._patch_status

    async def noted(self: StatusReconciler, draft: StatusPatch, patch: Manifest) -> tuple[Manifest, Manifest] | None:
        if self.kind == kind:
            writes.append(", ".join(sorted(patch)))
        return await patch_status(self, draft, patch)

    monkeypatch.setattr(StatusReconciler, "_patch_status", noted)
    return writes


world = operating.world


@pytest.mark.regression("LIVE-H1")
async def test_with_the_crds_of_the_go_operator_status_is_not_written_in_a_loop(
    world: World, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    name, files = ranged(world.stack, "v1", OLD, ">=1.34 <1.37", cilium=("1.17.2", ">=1.30 <1.36"))
    world.publish(name, files)
    async with world.operator():
        await world.create(world.stack.manifest(world.namespace, "v1"))
        release = await world.release_ready(name)
        await world.cluster("one", name.class_name, version=OLD)
    caplog.clear()
    writes = counting(monkeypatch)

    async with guarded(world, cache_dir=world.cache.with_name("empty")) as operator:
        for _ in range(3):
            await world.look_again(operator, "clusterstackrelease", release)
        first = len(writes)
        for _ in range(3):
            await world.look_again(operator, "clusterstackrelease", release)
        cluster = await world.get(CLUSTER_KIND, "one")
        told = await refusal(world.patch(cluster, {"spec": {"topology": {"version": NEW}}}))
    events = await world.events(await world.get(Kind.CLUSTER_STACK_RELEASE, name.release))

    assert "facts" not in (await world.get(Kind.CLUSTER_STACK_RELEASE, name.release))["status"]
    assert first <= 1, writes
    assert len(writes) == first, writes
    of_releases = "CustomResourceDefinition of ClusterStackRelease does"
    reports = [one.message for one in caplog.records if of_releases in one.message]
    assert len(reports) == 1, reports
    assert "of ClusterStackRelease does not have all fields of status.digest, status.facts" in reports[0]
    assert [one["reason"] for one in events].count("StatusFieldsPruned") >= 1
    assert "cilium 1.17.2" in told, told


@pytest.mark.regression("LIVE-H1")
async def test_a_history_that_the_crds_drop_causes_no_write_of_its_own(
    world: World, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = world.stack.release("v1")
    waits = stage("app") | {"waitFor": "Healthy"}
    charts = {"app": templates(deployment(world.namespace, "default"))}
    world.publish(name, world.stack.files("v1", charts, hooks={"AfterControlPlaneInitialized": [waits]}))
    async with world.operator() as operator:
        await world.create(world.stack.manifest(world.namespace, "v1"))
        await world.release_ready(name)
        await world.cluster("one", name.class_name)
        addon = addon_name("one")
        await world.says(Kind.CLUSTER_ADDON, addon, "Ready", "ObjectsInProgress")
        await world.at_rest()
        writes = counting(monkeypatch, Kind.CLUSTER_ADDON)
        for _ in range(3):
            await world.look_again(operator, "clusteraddon", await world.addon("one"))
        waiting = await world.addon("one")

    assert "history" not in waiting["status"]
    assert writes == []
    reports = [one.message for one in caplog.records if "of ClusterAddon does not have all fields" in one.message]
    assert len(reports) == 1, reports
    assert "status.history" in reports[0]


@pytest.mark.regression("SEC-30")
async def test_with_the_crds_of_the_go_operator_releases_are_verified_again_without_a_loop(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with requiring(world), attacked(world) as attack:
        assert not VerifiedContent.of((await attack.release())["status"]).digest
    writes = counting(monkeypatch)

    async with requiring(world) as operator:
        release = await world.until(Kind.CLUSTER_STACK_RELEASE, attack.name.release, is_verified)
        for _ in range(3):
            await world.look_again(operator, "clusterstackrelease", release)
        first = len(writes)
        for _ in range(3):
            await world.look_again(operator, "clusterstackrelease", release)
        assert len(writes) == first, writes
        assert is_verified(await attack.release())
        await attack.delivers_again()

        pin = {"metadata": {"annotations": {DIGEST_ANNOTATION: attack.evil}}}
        await world.patch(release, pin)
        await attack.addon_waits(f"pinned to {attack.evil}", attack.good)
        await world.until(Kind.CLUSTER_STACK_RELEASE, attack.name.release, lambda one: not is_verified(one))
        assert await attack.delivered() == SIGNED
