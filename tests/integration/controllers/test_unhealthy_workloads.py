"""Addons that become unhealthy and healthy again in a cluster with controllers, a scheduler and simulated kubelets.

The messages are those of the table in docs/explanation/health.md.
"""

from __future__ import annotations

import asyncio
import re
import ssl
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from aiohttp import web

from clusterstacks.dev import binaries, toolchain
from clusterstacks.dev.kube_components import Components
from clusterstacks.dev.loopback import LOOPBACK, free_port
from clusterstacks.dev.private_files import key_files
from clusterstacks.dev.provider.kwok_stages import POD_FAILS
from clusterstacks.dev.provider.workload_components import NODE
from clusterstacks.dev.provider.workload_servers import WantedServer, WorkloadServers
from clusterstacks.dev.state_directory import StateDirectory
from clusterstacks.model.kinds.clusteraddon import addon_name
from clusterstacks.model.kinds.names import ADDONS_HEALTHY_CONDITION, ADDONS_READY_CONDITION, CLUSTER_KIND, Kind
from clusterstacks.model.objects import ObjectKey
from clusterstacks.model.versions import KubernetesVersion
from clusterstacks.net.kube.pki import Authority
from clusterstacks.operator.controllers import addon_sweep
from tests.support.builders.manifests import deployment, named, pod_template
from tests.support.builders.stacks import KUBERNETES, stage, templates
from tests.support.running.world import condition_of, is_ready

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterator

    from clusterstacks.dev.apiserver import ApiServer
    from clusterstacks.dev.etcd import Etcd
    from clusterstacks.model.objects import Manifest
    from tests.support.running.world import World

ADDON = addon_name("one")
PAGE = Path(__file__).parents[3] / "docs" / "explanation" / "health.md"
SINCE = "2026-11-23T02:00:00Z"
"""The time that the table shows."""
PORT = "10250"
"""The port that the table shows."""
METRICS = "v1beta1.metrics.k8s.io"
SYSTEM = "kube-system"


@pytest.fixture(scope="module")
def workload_server(etcd: Etcd, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ApiServer]:
    """A workload cluster of ``csctl dev up --with workloads``."""
    programs = binaries.resolve([*toolchain.WORKLOAD_CLUSTER, *toolchain.WORKLOADS])
    bench = Components(StateDirectory(tmp_path_factory.mktemp("simulated")), programs)
    servers = WorkloadServers(bench, etcd.access)
    wanted = WantedServer(ObjectKey("default", "simulated"), "simulated", KubernetesVersion.parse(KUBERNETES))
    yield asyncio.run(servers.ensure(wanted))
    asyncio.run(servers.stop_all())


@pytest.fixture(autouse=True)
def often(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(addon_sweep, "INTERVAL", timedelta(seconds=0.2))
    monkeypatch.setattr(addon_sweep, "SOON_INTERVAL", timedelta(seconds=0.2))


@dataclass
class MetricsServer:
    """The server behind the APIService, which stops and starts."""

    context: ssl.SSLContext
    port: int = field(default_factory=free_port)
    runner: web.AppRunner | None = None

    async def start(self) -> None:
        application = web.Application()
        application.router.add_get("/{path:.*}", _empty)
        self.runner = web.AppRunner(application, shutdown_timeout=0)
        await self.runner.setup()
        await web.TCPSite(self.runner, LOOPBACK, self.port, ssl_context=self.context).start()

    async def stop(self) -> None:
        if self.runner:
            await self.runner.cleanup()
            self.runner = None


async def _empty(_: web.Request) -> web.Response:
    return web.json_response({"kind": "APIResourceList", "groupVersion": "metrics.k8s.io/v1beta1", "resources": []})


@asynccontextmanager
async def metrics_server(directory: Path) -> AsyncIterator[MetricsServer]:
    keys = key_files(directory, "metrics", lambda: Authority.create("tests").issue("metrics", addresses=(LOOPBACK,)))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(keys.certificate, keys.key)
    server = MetricsServer(context)
    await server.start()
    try:
        yield server
    finally:
        await server.stop()


def workload(kind: str, name: str, **spec: Any) -> Manifest:
    selector = {"matchLabels": {"app": name}}
    return named("apps/v1", kind, name, SYSTEM, spec={"selector": selector, "template": pod_template(name), **spec})


def aggregated_api(port: int) -> list[Manifest]:
    service = {"type": "ExternalName", "externalName": LOOPBACK, "ports": [{"port": port}]}
    group, version = "metrics.k8s.io", "v1beta1"
    spec = {
        "group": group,
        "version": version,
        "groupPriorityMinimum": 100,
        "versionPriority": 100,
        "insecureSkipTLSVerify": True,
        "service": {"name": "metrics-server", "namespace": SYSTEM, "port": port},
    }
    return [
        named("v1", "Service", "metrics-server", SYSTEM, spec=service),
        named("apiregistration.k8s.io/v1", "APIService", METRICS, spec=spec),
    ]


def failing_job() -> Manifest:
    template = pod_template("migrate")
    template["metadata"]["annotations"] = {POD_FAILS: "CrashLoopBackOff"}
    template["spec"]["restartPolicy"] = "Never"
    return named("batch/v1", "Job", "migrate", SYSTEM, spec={"backoffLimit": 0, "template": template})


def stuck_deployment() -> Manifest:
    manifest = deployment("dns", SYSTEM)
    manifest["spec"]["progressDeadlineSeconds"] = 1
    manifest["spec"]["template"]["metadata"]["annotations"] = {POD_FAILS: "ImagePullBackOff"}
    return manifest


@dataclass
class Addons:
    """The addons of the Cluster, and what a test does to them."""

    world: World
    table: dict[str, tuple[str, str]] = field(default_factory=dict)

    async def play(self, app: str, fails: str | None) -> None:
        """Let the Pods of a workload fail, or recover."""
        pods = await self.world.workload.resource("", "Pod")
        for pod in (await self.world.workload.list_metadata(pods, SYSTEM, labels=f"app={app}")).items:
            patch = {"metadata": {"annotations": {POD_FAILS: fails}}}
            await self.world.workload.merge_patch(pods, pod["metadata"]["name"], patch, SYSTEM)

    async def close_node(self, *, closed: bool) -> None:
        nodes = await self.world.workload.resource("", "Node")
        await self.world.workload.merge_patch(nodes, NODE, {"spec": {"unschedulable": closed}})

    async def delete_pods(self, app: str) -> None:
        pods = await self.world.workload.resource("", "Pod")
        for pod in (await self.world.workload.list_metadata(pods, SYSTEM, labels=f"app={app}")).items:
            await self.world.workload.delete(pods, pod["metadata"]["name"], SYSTEM)

    async def touch_service(self, number: int) -> None:
        """Make the API server look at the Service now; by itself it does after minutes."""
        services = await self.world.workload.resource("", "Service")
        patch = {"metadata": {"annotations": {"example.org/number": str(number)}}}
        await self.world.workload.merge_patch(services, "metrics-server", patch, SYSTEM)

    async def healthy(self) -> None:
        await self.world.until(
            Kind.CLUSTER_ADDON, ADDON, lambda one: condition_of(one, "Healthy").get("status") == "True"
        )
        await self.world.until(CLUSTER_KIND, "one", lambda one: not condition_of(one, ADDONS_HEALTHY_CONDITION))

    async def shows(self, case: str, on_addon: str = "Healthy", on_cluster: str = ADDONS_HEALTHY_CONDITION) -> Manifest:
        """Wait until both objects have reason and message of a row of the documentation; return the ClusterAddon."""
        reason, message = self.table.pop(case)

        def says(condition: str) -> Callable[[Manifest], bool]:
            def holds(manifest: Manifest) -> bool:
                found = condition_of(manifest, condition)
                shown = self.as_documented(found.get("message", ""))
                return (found.get("reason"), shown) == (reason, self.as_documented(message))

            return holds

        addon = await self.world.until(Kind.CLUSTER_ADDON, ADDON, says(on_addon))
        await self.world.until(CLUSTER_KIND, "one", says(on_cluster))
        return addon

    def as_documented(self, message: str) -> str:
        """Replace what differs between two runs by the values of the documentation."""
        message = re.sub(r"\d{4}-\d\d-\d\dT[\d:]+Z", SINCE, message)
        message = re.sub(rf"{LOOPBACK}:\d+", f"{LOOPBACK}:{PORT}", message)
        # The state of the addon when its timeout comes depends on the speed of the machine.
        message = re.sub(r" within .*; it stays", " within 3 s; it stays", message)
        return message.replace(f"-{self.world.stack.word}-", "-demo-")


def rows() -> dict[str, tuple[str, str]]:
    """The table of the documentation: case to reason and message."""
    _, _, text = PAGE.read_text().partition("| it happens | reason | message |\n")
    lines = text.partition("\n\n")[0].splitlines()[1:]
    cells = [[cell.strip().strip("`") for cell in line.strip("| ").split(" | ")] for line in lines]
    return {case: (reason, message) for case, reason, message in cells}


async def test_every_way_in_which_an_addon_becomes_unhealthy_has_its_message(world: World, tmp_path: Path) -> None:
    addons = Addons(world, rows())
    async with metrics_server(tmp_path) as server, world.operator():
        kept = [
            workload("StatefulSet", "queue", serviceName="queue"),
            workload("DaemonSet", "cni"),
            *aggregated_api(server.port),
        ]
        releases = {"v1": [deployment("dns", SYSTEM)], "v2": [deployment("dns", SYSTEM), failing_job()]}
        releases["v3"] = releases["v4"] = [stuck_deployment()]
        for version, objects in releases.items():
            charts = {"platform": templates(*kept, *objects)}
            waiting = {"waitFor": "Healthy", "timeout": "3s", "rollback": "OnFailure"} if version == "v4" else {}
            hooks = {"AfterControlPlaneInitialized": [{**stage("platform"), **waiting}]}
            world.publish(world.stack.release(version), world.stack.files(version, charts, hooks=hooks))
        await world.create(world.stack.manifest(world.namespace, *releases))
        for version in releases:
            await world.release_ready(world.stack.release(version))
        first, job, stuck, rolled_back = (world.stack.release(version).class_name for version in releases)
        await world.cluster("one", first)
        await world.addons_ready("one", first)
        await addons.healthy()

        for case, app, way in (
            ("a container crashes", "dns", "CrashLoopBackOff"),
            ("an image cannot be pulled", "cni", "ImagePullBackOff"),
            ("a readiness probe fails", "queue", "NotReady"),
        ):
            await addons.play(app, way)
            assert is_ready(await addons.shows(case)), "Ready does not depend on the health of these stages"
            await addons.play(app, None)
            await addons.healthy()

        await addons.close_node(closed=True)
        await addons.delete_pods("dns")
        await addons.shows("no node accepts a Pod")
        await addons.close_node(closed=False)
        await addons.healthy()

        await server.stop()
        await addons.touch_service(1)
        await addons.shows("the server of an APIService does not answer")
        await server.start()
        await addons.touch_service(2)
        await addons.healthy()

        for case, class_name in (("a Job fails", job), ("an upgrade makes no progress", stuck)):
            await world.set_class("one", class_name)
            await addons.shows(case)
            await world.set_class("one", first)
            await world.addons_ready("one", first)
            await addons.healthy()

        await world.set_class("one", rolled_back)
        await addons.shows("the same, and the stage has a rollback", "Ready", ADDONS_READY_CONDITION)
        await addons.healthy()
        assert not addons.table, "rows without a test"
