"""A tenant attacks the operator of ``csctl dev up`` in every known way; another tenant is served meanwhile."""

from __future__ import annotations

import asyncio
import base64
import gzip
import io
import json
import os
import signal
import subprocess
import time
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import aiohttp
import pytest

from clusterstacks.deliver.apply.record_store import RECORD_LABEL, SECRET_TYPE, SECRETS
from clusterstacks.dev import state_directory, teardown
from clusterstacks.dev.binaries import silent
from clusterstacks.dev.demo.scenario import build_first
from clusterstacks.dev.state_directory import StateDirectory
from clusterstacks.model.kinds.clusteraddon import addon_name
from clusterstacks.net.kube.client import Client
from clusterstacks.net.kube.errors import Forbidden, Invalid
from clusterstacks.net.kube.kubeconfig import load_kubeconfig
from clusterstacks.net.pool import Pool
from tests.support.builders.e2e_objects import addon_of, cluster, create, delivered, namespace, set_topology, stack
from tests.support.observing.loop_probe import LoopProbe
from tests.support.running.csctl import Csctl
from tests.support.running.kubectl import Kubectl
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

    from clusterstacks.model.objects import Manifest

STALL_SECONDS = 0.5
"""CPU time of the operator that one answer may wait for: 42 ms on a busy machine, and seconds without bounds."""
MEMORY_BYTES = 64 * 1024 * 1024
"""Growth of the operator's memory at its peak."""

LOG_LINES = 100
"""Lines of the operator's log in the message of a failure; arbitrary."""

PROVIDER, ATTACKER, NEIGHBOUR = "stacks", "attacker", "neighbour"
DEEP = 1100


@dataclass(slots=True)
class OperatorProcess:
    """The environment's operator, which can be started again with its own command line."""

    pid: int
    log: Path
    again: subprocess.Popen[bytes] | None = None

    @property
    def arguments(self) -> list[str]:
        return Path(f"/proc/{self.pid}/cmdline").read_text().rstrip("\0").split("\0")

    def port(self, flag: str) -> int:
        value = next(one for one in self.arguments if one.startswith(f"--{flag}="))
        return int(value.rpartition(":")[2] if ":" in value else value.rpartition("=")[2])

    def lives(self) -> bool:
        try:
            return Path(f"/proc/{self.pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
        except FileNotFoundError:
            return False

    def end(self) -> None:
        if self.again is not None:
            self.again.terminate()
            self.again.wait(200)

    def restart(self) -> None:
        command = self.arguments
        environment = Path(f"/proc/{self.pid}/environ").read_text().rstrip("\0").split("\0")
        os.kill(self.pid, signal.SIGTERM)
        for _ in range(2000):
            if not self.lives():
                break
            time.sleep(0.1)
        with self.log.open("ab") as log:
            self.again = subprocess.Popen(
                command, env=dict(one.split("=", 1) for one in environment), stdout=log, stderr=log
            )
        self.pid = self.again.pid


@dataclass(slots=True, kw_only=True)
class Scene:
    """The environment and clients of the management cluster, the attacker's cluster and the neighbour's."""

    state: StateDirectory
    operator: OperatorProcess
    management: Client
    workload: Client
    neighbour: Client
    kubectl: Kubectl
    class_name: str
    scratch: Path
    kubeconfig: bytes
    figures: dict[str, str] = field(default_factory=dict)
    changes: int = 0

    @contextmanager
    def attacked(self, what: str) -> Iterator[None]:
        """Expect the operator to live through the block without stall and without growth."""
        with LoopProbe(self.operator.pid, self.operator.port("health-probe-bind-address")) as probe:
            yield
            growth = probe.memory_growth
        assert self.operator.lives(), f"{what}: the operator ended"
        self.figures[what] = f"{probe.longest_stall * 1000:.0f} ms of CPU in one answer, {growth / 2**20:.0f} MiB more"
        assert not probe.problem, f"{what}: {probe.problem}"
        assert probe.longest_stall < STALL_SECONDS, self.figures
        assert growth < MEMORY_BYTES, self.figures

    async def neighbour_is_served(self) -> None:
        """Change a value of the neighbour's Cluster: the operator has to see it and to deliver to its cluster."""
        value = await self.change_value("good", NEIGHBOUR)
        deployments = await self.neighbour.resource("apps", "Deployment")

        async def changed() -> bool:
            deployment = await self.neighbour.get(deployments, "demo-metrics", "kube-system")
            return f"={value}" in json.dumps(deployment["spec"])

        await eventually(changed, about="the delivery of the neighbour's new value")

    async def look_at_attacker(self) -> None:
        """Have the operator deliver to the attacker's cluster, as its user can at any time."""
        await self.change_value("one", ATTACKER)

    async def change_value(self, name: str, home: str) -> str:
        """Change a value of the addons of a Cluster, and return it."""
        self.changes += 1
        clusters = await self.management.resource("cluster.x-k8s.io", "Cluster")
        variable = {"name": "metricsResolution", "value": f"{20 + self.changes}s"}
        await self.management.merge_patch(clusters, name, {"spec": {"topology": {"variables": [variable]}}}, home)
        return variable["value"]

    async def says(self, *words: str) -> None:
        """Wait until the attacker's ClusterAddon says why it is not ready."""

        async def look() -> bool:
            addon = await addon_of(self.management, ATTACKER, "one")
            text = json.dumps((addon or {}).get("status"))
            assert all(word in text for word in words), text
            return True

        try:
            await eventually(look, about=f"a condition with {words}")
        except AssertionError as error:
            raise AssertionError(f"{error}\n{await self.situation()}") from error

    async def situation(self) -> str:
        """Return why the operator may not have seen the attacker's kubeconfig, for the message of a failed test."""
        current = await kubeconfig_of(self.management)
        fields = ("involvedObject", "reason", "message", "lastTimestamp")
        events = (await self.management.list(await self.management.resource("", "Event"), ATTACKER)).items
        log = "".join(state_directory.read_log(self.state, "operator")).splitlines()
        return "\n".join(
            (
                f"the operator {'runs' if self.operator.lives() else 'ended'}",
                f"the kubeconfig is {'the good one' if current == self.kubeconfig else 'hostile'}",
                *(json.dumps({name: event.get(name) for name in fields}) for event in events),
                *log[-LOG_LINES:],
                *(self.operator.log.read_text().splitlines()[-LOG_LINES:] if self.operator.log.exists() else ()),
            )
        )

    async def write_kubeconfig(self, text: bytes) -> None:
        secrets = await self.management.resource("", "Secret")
        patch = {"data": {"value": base64.b64encode(text).decode()}}
        await self.management.merge_patch(secrets, "one-kubeconfig", patch, ATTACKER)

    def post(self, path: str, text: str) -> None:
        """Create an object from JSON that our own client could not write."""
        file = self.scratch / "object.json"
        file.write_text(text)
        self.kubectl("create", f"--raw={path}", f"--filename={file}")


@pytest.fixture
async def scene(tmp_path: Path) -> AsyncIterator[Scene]:
    releases = tmp_path / "releases"
    releases.mkdir()
    first = build_first(releases)
    csctl = Csctl(tmp_path / "states")
    state = StateDirectory(tmp_path / "states" / "cluster-stacks" / "default")
    operator = None
    try:
        await asyncio.to_thread(csctl, "up", "--detach", f"--release-dir={releases}")
        operator = OperatorProcess(csctl.components()["operator"]["pid"], tmp_path / "operator.log")
        async with Pool() as pool:
            management = Client(load_kubeconfig([state.kubeconfig]), pool)
            for name in (PROVIDER, ATTACKER, NEIGHBOUR):
                await create(management, namespace(name))
            await create(management, stack(PROVIDER, versions=["v1"], autoSubscribe=False))
            classes: Any = {"classRef": {"name": first.class_name, "namespace": PROVIDER}}
            kubectl = Kubectl(state.kubeconfig, ATTACKER)
            kubectl("wait", "-n", PROVIDER, "--for=condition=Ready", "--timeout=300s", "clusterstack", "--all")
            for home, name in ((ATTACKER, "one"), (NEIGHBOUR, "good")):
                await create(management, cluster(home, name, first.class_name, **classes))
            for home, name in ((ATTACKER, "one"), (NEIGHBOUR, "good")):
                await eventually(lambda home=home, name=name: delivered(management, home, name, first.class_name))  # type: ignore[misc]
            workload, neighbour = (
                Client(load_kubeconfig([state.cluster_kubeconfig(*one)]), pool)
                for one in ((ATTACKER, "one"), (NEIGHBOUR, "good"))
            )
            yield Scene(
                state=state,
                operator=operator,
                management=management,
                workload=workload,
                neighbour=neighbour,
                kubectl=kubectl,
                class_name=first.class_name,
                scratch=tmp_path,
                kubeconfig=await kubeconfig_of(management),
            )
    finally:
        if operator is not None:
            operator.end()
        await asyncio.to_thread(teardown.down, state, silent)


async def kubeconfig_of(management: Client) -> bytes:
    secrets = await management.resource("", "Secret")
    secret = await management.get(secrets, "one-kubeconfig", ATTACKER)
    return base64.b64decode(secret["data"]["value"])


@pytest.mark.regression("SEC-1")
@pytest.mark.timeout(1200)
async def test_to_6_an_attacking_tenant_neither_stops_nor_robs_its_neighbour(scene: Scene) -> None:
    await deeply_nested_objects(scene)
    await hostile_kubeconfigs(scene)
    await hostile_records(scene)
    await providers_of_others(scene)
    await classes_that_are_not_offered(scene)
    await forged_questions(scene)
    await asyncio.to_thread(scene.operator.restart)
    await scene.neighbour_is_served()
    print(json.dumps(scene.figures, indent=1))  # noqa: T201  # shown with -s, for docs/benchmarks.md


async def deeply_nested_objects(scene: Scene) -> None:
    deep = "[" * DEEP + "]" * DEEP
    hostile = {**cluster(ATTACKER, "deep", "no-such-class")}
    hostile["spec"]["topology"]["variables"] = [{"name": "x", "value": "DEEP"}]
    classes = {
        "apiVersion": "cluster.x-k8s.io/v1beta2",
        "kind": "ClusterClass",
        "metadata": {"name": "deep", "namespace": ATTACKER},
        "spec": {
            "infrastructure": {"templateRef": template("Cluster")},
            "controlPlane": {"templateRef": template("ControlPlane")},
        },
    }
    operation = {"op": "add", "path": "/spec/template/spec/x", "value": "DEEP"}
    selector = {
        "apiVersion": template("")["apiVersion"],
        "kind": template("Cluster")["kind"],
        "matchResources": {"infrastructureCluster": True},
    }
    definition = {"selector": selector, "jsonPatches": [operation]}
    classes["spec"]["patches"] = [{"name": "deep", "definitions": [definition]}]  # type: ignore[index]
    with scene.attacked("nested objects"):
        for kind, manifest in (("clusters", hostile), ("clusterclasses", classes)):
            path = f"/apis/cluster.x-k8s.io/v1beta2/namespaces/{ATTACKER}/{kind}"
            await asyncio.to_thread(scene.post, path, json.dumps(manifest).replace('"DEEP"', deep))
        await scene.neighbour_is_served()


def template(part: str) -> Manifest:
    return {
        "apiVersion": "local.clusterstack.x-k8s.io/v1alpha1",
        "kind": f"Local{part}Template",
        "name": "plain",
    }


async def hostile_kubeconfigs(scene: Scene) -> None:
    merges = "a0: &a0 {x: y}\n" + "".join(
        f"a{level}: &a{level} {{<<: [{', '.join([f'*a{level - 1}'] * 10)}]}}\n" for level in range(1, 9)
    )
    texts = {
        "nested kubeconfig": "a: " + "[" * 200_000,
        "merge keys": merges,
        "many lists": "[" + "[]," * 260_000,
    }
    for what, text in texts.items():
        with scene.attacked(what):
            await scene.write_kubeconfig(text.encode())
            await scene.look_at_attacker()
            await scene.says("one-kubeconfig")
            await scene.neighbour_is_served()
    await scene.write_kubeconfig(scene.kubeconfig)
    await scene.look_at_attacker()
    await eventually(lambda: delivered(scene.management, ATTACKER, "one", scene.class_name), about="recovery")


async def hostile_records(scene: Scene) -> None:
    bomb = gzip.compress(b'{"pad":[' + b",".join([b"[]"] * 10_000_000) + b"]}")
    with scene.attacked("records"):
        for number in range(6):
            name = f"cluster-stack-addon-bomb{number}"
            record = {
                "apiVersion": "v1",
                "kind": "Secret",
                "metadata": {"name": name, "namespace": "kube-system", "labels": {RECORD_LABEL: "addon"}},
                "type": SECRET_TYPE,
                "data": {"record": base64.b64encode(bomb).decode()},
            }
            await scene.workload.create(SECRETS, record, "kube-system")
        await scene.look_at_attacker()
        await scene.says("cluster-stack-addon-bomb")
        await scene.neighbour_is_served()
    for number in range(6):
        await scene.workload.delete(SECRETS, f"cluster-stack-addon-bomb{number}", "kube-system")
    await scene.look_at_attacker()
    await eventually(lambda: delivered(scene.management, ATTACKER, "one", scene.class_name), about="recovery")


async def providers_of_others(scene: Scene) -> None:
    secrets = await scene.management.resource("", "Secret")
    victim = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "victim", "namespace": NEIGHBOUR}}
    await scene.management.create(secrets, victim)
    release = {
        "apiVersion": "clusterstack.x-k8s.io/v1alpha1",
        "kind": "ClusterStackRelease",
        "metadata": {"name": "local-robber-1-35-v1", "namespace": ATTACKER},
        "spec": {"providerRef": {"apiVersion": "v1", "kind": "Secret", "name": "victim", "namespace": NEIGHBOUR}},
    }
    with pytest.raises((Forbidden, Invalid), match="providerRef"):
        await create(scene.management, release)
    foreign = template("Cluster") | {"namespace": PROVIDER}
    robber = stack(ATTACKER, name="robber", noProvider=False, providerRef=foreign, versions=["v1"])
    with pytest.raises((Forbidden, Invalid), match="providerRef"):
        await create(scene.management, robber)
    assert (await scene.management.get(secrets, "victim", NEIGHBOUR))["metadata"].get("ownerReferences") is None


async def classes_that_are_not_offered(scene: Scene) -> None:
    stacks = await scene.management.resource("clusterstack.x-k8s.io", "ClusterStack")
    only_own = {"spec": {"clusterNamespaces": {"from": "Same"}}}
    own_class: Any = {"classRef": {"name": scene.class_name, "namespace": PROVIDER}}
    await scene.management.merge_patch(stacks, "demo-1-35", only_own, PROVIDER)

    with pytest.raises((Forbidden, Invalid), match="clusterNamespaces") as refused:
        await create(scene.management, cluster(ATTACKER, "thief", scene.class_name, **own_class))
    assert f"{PROVIDER}/demo-1-35" not in refused.value.message, "names of others are not told"
    addon: dict[str, Any] = {
        "apiVersion": "clusterstack.x-k8s.io/v1alpha1",
        "kind": "ClusterAddon",
        "metadata": {"name": "any-name", "namespace": ATTACKER},
        "spec": {
            "clusterStack": scene.class_name,
            "clusterRef": {"apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "Cluster", "name": "one"},
        },
    }
    with pytest.raises((Forbidden, Invalid), match=addon_name("one")):
        await create(scene.management, addon)
    await scene.management.merge_patch(stacks, "demo-1-35", {"spec": {"clusterNamespaces": None}}, PROVIDER)


async def forged_questions(scene: Scene) -> None:
    port = scene.operator.port("webhook-port")
    body = b'{"x":[' + b"[]," * ((8 << 20) // 3 - 8) + b"[]]}"

    async def forge(session: aiohttp.ClientSession) -> None:
        try:
            async with session.post(f"https://127.0.0.1:{port}/validate", data=io.BytesIO(body)) as response:
                await response.read()
        except aiohttp.ClientError:
            return  # a connection that is closed over a large body is a good answer

    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(ssl=False)) as session:
        with scene.attacked("forged questions"):
            forgeries = [asyncio.create_task(forge(session)) for _ in range(8)]
            await set_topology(scene.management, NEIGHBOUR, "good", scene.class_name)
            await scene.neighbour_is_served()
            await asyncio.gather(*forgeries)
