"""Plans of live Clusters, executed step by step, and explained denials."""

from __future__ import annotations

import asyncio
import base64
import json
import os
import shlex
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from clusterstacks.model.kinds.clusteraddon import addon_name
from clusterstacks.model.kinds.names import (
    ADDONS_READY_CONDITION,
    CLUSTER_API_GROUP,
    CLUSTER_KIND,
    SOURCE_CREDENTIALS_LABEL,
    Kind,
)
from clusterstacks.net.kube.errors import Conflict
from clusterstacks.plan.clusters.hold_annotation import is_held
from clusterstacks.runtime.informer import Informer
from tests.support.builders.remote_repositories import repository
from tests.support.builders.stacks import config_map, stage, templates
from tests.support.running.admission import guarded, of_minor, ranged
from tests.support.running.csctl import csctl_run
from tests.support.running.kubectl import Kubectl
from tests.support.running.world import finished_status, is_ready
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping
    from pathlib import Path

    from clusterstacks.model.names import ReleaseName
    from clusterstacks.model.objects import Manifest
    from tests.support.builders.remote_repositories import Repository
    from tests.support.running.world import World
    from tests.support.servers.registries import RegistryServer

OLD, NEW = "v1.35.4", "v1.36.1"
CILIUM = ">=1.30 <1.36"
ROLL_SECONDS = 0.5
"""How long the played Cluster API takes for a new specification; longer than the operator, whose waits must not end."""


async def csctl(
    world: World, verb: str, cluster: str, *arguments: str, kubeconfig: Path | None = None
) -> tuple[int, str, str]:
    """Exit code, output and messages of csctl, called as its users call it."""
    kept = {name: os.environ[name] for name in ("PATH", "HOME") if name in os.environ}
    where = f"--kubeconfig={kubeconfig or world.management_kubeconfig}"
    environ = {**kept, "XDG_DATA_HOME": str(world.cache)}
    run = await asyncio.to_thread(csctl_run, verb, cluster, where, *arguments, environ=environ)
    return run.returncode, run.stdout, run.stderr


async def document(world: World, verb: str, *arguments: str, **how: Any) -> dict[str, Any]:
    code, out, err = await csctl(world, verb, f"{world.namespace}/one", *arguments, "-o", "json", **how)
    assert code in {0, 3}, err
    found: dict[str, Any] = json.loads(out)
    return found


def releases(world: World) -> tuple[tuple[ReleaseName, Mapping[str, bytes]], tuple[ReleaseName, Mapping[str, bytes]]]:
    """Class 1-35 works with 1.36 too, its cilium does not; the release of 1-36 has one that works with both."""
    first = ranged(world.stack, "v1", OLD, ">=1.34 <1.37", cilium=("1.17.2", CILIUM), dns=("1.0.0", ">=1.30"))
    later = of_minor(world.stack, "1.36")
    cilium, dns = ("1.18.0", ">=1.33 <1.38"), ("1.1.0", ">=1.35")
    return first, ranged(later, "v2", NEW, ">=1.36 <1.38", cilium=cilium, dns=dns)


async def offered(world: World, remote: Repository) -> tuple[ReleaseName, ReleaseName]:
    """Two ranged releases in a registry, and the ClusterStacks that follow it."""
    (first, files), (second, more) = releases(world)
    await remote.publish(first, files)
    await remote.publish(second, more)
    await world.create(world.stack.manifest(world.namespace, "v1", source=remote.source()))
    later = of_minor(world.stack, "1.36").manifest(world.namespace, "v2", source=remote.source())
    later["metadata"]["name"] += "-36"
    await world.create(later)
    await world.release_ready(first)
    await world.release_ready(second)
    return first, second


async def settled(world: World, addons: Mapping[str, str]) -> None:
    """Play Cluster API that rolls the nodes, and wait until the cluster has these versions of addons."""
    cluster = await world.get(CLUSTER_KIND, "one")
    await world.finish(cluster, cluster["spec"]["topology"]["version"])

    def holds(addon: Manifest) -> bool:
        has = {one["name"]: one.get("version") for one in (addon.get("status") or {}).get("addons") or []}
        return is_ready(addon) and has == addons

    await world.until(Kind.CLUSTER_ADDON, addon_name("one"), holds)


async def test_commands_of_a_plan_executed_in_order_reach_the_target(world: World, registry: RegistryServer) -> None:
    async with repository(world, registry) as remote, guarded(world, allowed_sources=remote.allowed):
        first, second = await offered(world, remote)
        await world.cluster("one", first.class_name)
        await world.addons_ready("one", first.class_name)
        key = f"{world.namespace}/one"

        refused = await document(world, "why", NEW)
        assert not refused["allowed"]
        assert [one["id"] for one in refused["facts"]] == ["component:cilium@1.17.2:kubernetes"]
        assert "https://example.org/m" in refused["facts"][0]["text"]
        assert refused["steps"][0]["name"] == "cilium"
        code, told, _ = await csctl(world, "why", key, NEW)
        assert code == 0
        assert f"1. update addon cilium from 1.17.2 to 1.18.0 (from release {second})" in told

        plan = await document(world, "plan", "--to", second.release)
        code, text, err = await csctl(world, "plan", key, "--to", second.release)
        assert (code, err) == (0, "")
        commands = [
            line.strip()
            for line in text.splitlines()
            if line.strip().startswith(f"kubectl patch cluster -n {world.namespace} one ")
        ]
        steps = [step for step in plan["steps"] if step["patch"] is not None]
        assert len(commands) == len(steps) >= 3
        has = plan["from"]["addons"]
        for command, step in zip(commands, steps, strict=True):
            answer = await kubectl(world, *shlex.split(command)[1:])
            assert "patched" in answer, answer
            if step["kind"] == "addon":
                has = {**has, step["name"]: step["to"]}
            await settled(world, has)
            if step["name"] == "cilium":
                assert (await document(world, "why", NEW))["allowed"]

        assert has == plan["to"]["addons"] == {"cilium": "1.18.0", "dns": "1.1.0"}
        cluster = await world.get(CLUSTER_KIND, "one")
        assert cluster["spec"]["topology"]["classRef"]["name"] == second.class_name
        assert cluster["spec"]["topology"]["version"] == NEW
        assert not [key for key in cluster["metadata"].get("annotations", {}) if "clusterstack" in key]
        assert (await document(world, "plan", "--to", second.release))["steps"] == []
        assert "already has v1.36.1" in (await csctl(world, "why", key, NEW))[1]


@pytest.mark.regression("LIVE-H5")
async def test_printed_commands_of_a_plan_can_be_executed(world: World, registry: RegistryServer) -> None:
    """Each printed command at once, in its order, and nothing else: none fails."""
    async with repository(world, registry) as remote, guarded(world, allowed_sources=remote.allowed):
        first, second = await offered(world, remote)
        await world.cluster("one", first.class_name)
        await world.addons_ready("one", first.class_name)
        async with nodes_roll(world, "one"):
            code, text, err = await csctl(world, "plan", f"{world.namespace}/one", "--to", second.release)
            assert (code, err) == (0, "")
            commands = [line.strip() for line in text.splitlines() if line.strip().startswith("kubectl ")]
            for command in commands:
                tried = await asyncio.to_thread(
                    Kubectl(world.management_kubeconfig, world.namespace).tried, *shlex.split(command)[1:]
                )
                assert tried.returncode == 0, f"{command}\n{tried.stderr}\nof:\n{text}"
        addon = await world.addon("one")
        cluster = await world.get(CLUSTER_KIND, "one")
        assert is_ready(addon)
        assert {one["name"]: one["version"] for one in addon["status"]["addons"]} == {
            "cilium": "1.18.0",
            "dns": "1.1.0",
        }
        assert addon["status"]["observedClusterGeneration"] == cluster["metadata"]["generation"]
        assert addon["status"]["observedKubernetesVersion"] == NEW
        assert (await document(world, "plan", "--to", second.release))["steps"] == []


@asynccontextmanager
async def nodes_roll(world: World, name: str) -> AsyncIterator[None]:
    """Play Cluster API beside the test: a new version or class is first refused to be reconciled, then it is there."""

    changed = asyncio.Event()
    informer = Informer(world.client, CLUSTER_API_GROUP, CLUSTER_KIND, namespace=world.namespace)
    informer.subscribe(lambda _: changed.set())

    async def react() -> None:
        done = 0
        while True:
            await changed.wait()
            changed.clear()
            cluster = await world.get(CLUSTER_KIND, name)
            generation, version = cluster["metadata"]["generation"], cluster["spec"]["topology"]["version"]
            if generation == done:
                continue
            await asyncio.sleep(ROLL_SECONDS)
            status = finished_status(version)
            conditions = (cluster.get("status") or {}).get("conditions") or []
            ours = [one for one in conditions if one["type"].startswith("ClusterStack")]
            mine = [{**one, "observedGeneration": generation} for one in status["conditions"]]
            guard = {"metadata": {"resourceVersion": cluster["metadata"]["resourceVersion"]}}
            with suppress(Conflict):  # by a later write, which is a change as well
                await world.patch(cluster, {**guard, "status": {**status, "conditions": [*mine, *ours]}}, "status")
                done = generation

    async def play() -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(informer.run())
            group.create_task(react())

    task = asyncio.create_task(play())
    try:
        yield
        assert not task.done(), task.exception()
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


def with_gate(world: World, version: str) -> ReleaseName:
    """Publish a release whose stage before an upgrade waits for a ConfigMap that does not exist."""
    gate = {"key": "gate", "apiVersion": "v1", "kind": "ConfigMap", "name": "gate", "namespace": "kube-system"}
    waits = stage("cni", waitForPostCondition={"objects": [gate], "conditions": 'gate.data.open == "true"'})
    hooks = {"AfterControlPlaneInitialized": [stage("cni")], "BeforeClusterUpgrade": [waits]}
    name, chart = world.stack.release(version), templates(config_map(world.namespace, release=version))
    world.publish(name, world.stack.files(version, {"cni": chart}, hooks=hooks))
    return name


async def test_held_upgrade_is_named_first_with_the_command_that_releases_it(world: World) -> None:
    newer = "v1.35.5"
    async with world.operator():
        first, second = (with_gate(world, version) for version in ("v1", "v2"))
        await world.create(world.stack.manifest(world.namespace, "v1", "v2"))
        for one in (first, second):
            await world.release_ready(one)
        await world.cluster("one", first.class_name)
        await world.addons_ready("one", first.class_name)
        await world.until(CLUSTER_KIND, "one", is_held)
        assert (await document(world, "why", second.release))["upgrade"] is None

        await world.set_class("one", second.class_name, version=newer)
        await world.says(CLUSTER_KIND, "one", ADDONS_READY_CONDITION, words=[f"holds the upgrade to {newer} since"])

        async def stage_is_noted() -> bool:
            return (await document(world, "why", newer))["upgrade"]["stage"] is not None

        await eventually(stage_is_noted, about="the stage in the status of the ClusterAddon")
        for verb, arguments in (("why", [newer]), ("plan", ["--to", newer])):
            held = (await document(world, verb, *arguments))["upgrade"]
            assert held["waitsFor"] == "Hold"
            assert held["stage"] == {
                "hook": "BeforeClusterUpgrade",
                "addon": "cni",
                "action": "apply",
                "phase": "waitingForPostCondition",
            }
            code, out, err = await csctl(world, verb, f"{world.namespace}/one", *arguments)
            assert code == 0, err
            line = out.splitlines()[0]
            assert line == (
                f"Held: Cluster API waits since {held['since']} with the upgrade of Cluster {world.namespace}/one to "
                f"{newer}, until the stages of BeforeClusterUpgrade are complete: {held['message']}; to release it by "
                f"hand, run '{held['release']}'"
            )
            assert (
                held["message"] == f"stage cni of {second} waits for ConfigMap kube-system/gate, which does not exist"
            )

        assert "annotated" in await kubectl(world, *shlex.split(held["release"])[1:])
        code, out, _ = await csctl(world, "why", f"{world.namespace}/one", newer)
        assert code == 0
        begins, nothing = out.splitlines()
        assert begins == (
            f"Upgrading Cluster {world.namespace}/one to class {second.class_name}, Kubernetes {newer}: "
            f"{held['message']}"
        )
        assert nothing == f"Nothing to do: Cluster {world.namespace}/one already asks for {newer}."


async def kubectl(world: World, *arguments: str) -> str:
    """Return the output of kubectl, run in another thread because the operator runs in this one."""
    tried = await asyncio.to_thread(Kubectl(world.management_kubeconfig, world.namespace).tried, *arguments)
    return tried.stdout + tried.stderr


async def secret(world: World, name: str, values: Mapping[str, str]) -> None:
    data = {key: base64.b64encode(value.encode()).decode() for key, value in values.items()}
    labels = {SOURCE_CREDENTIALS_LABEL: "true"}
    metadata = {"name": name, "namespace": world.namespace, "labels": labels}
    await world.create({"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "data": data})


async def tenant(world: World) -> Path:
    """A kubeconfig of a user who may read Clusters and objects of stacks, but no Secrets."""
    namespace, group = world.namespace, "rbac.authorization.k8s.io"
    rules = [
        {"apiGroups": ["cluster.x-k8s.io"], "resources": ["clusters"], "verbs": ["get", "list"]},
        {"apiGroups": ["clusterstack.x-k8s.io"], "resources": ["*"], "verbs": ["get", "list"]},
    ]
    metadata = {"name": "tenant", "namespace": namespace}
    await world.create({"apiVersion": f"{group}/v1", "kind": "Role", "metadata": metadata, "rules": rules})
    role = {"apiGroup": group, "kind": "Role", "name": "tenant"}
    subjects = [{"apiGroup": group, "kind": "User", "name": namespace}]
    binding = {"apiVersion": f"{group}/v1", "kind": "RoleBinding", "metadata": metadata}
    await world.create({**binding, "roleRef": role, "subjects": subjects})
    config = yaml.safe_load(world.management_kubeconfig.read_text())
    config["users"][0]["user"]["as"] = namespace
    place = world.releases.with_name("tenant.kubeconfig")
    place.write_text(yaml.safe_dump(config))
    return place


async def test_private_source_is_read_with_the_permissions_of_the_user(
    world: World, secure_registry: RegistryServer
) -> None:
    (first, files), (second, more) = releases(world)
    named = {"credentials": {"secretName": "login"}, "ca": {"secretName": "ca"}}
    login = {"username": secure_registry.username, "password": secure_registry.password}
    await secret(world, "login", login)
    await secret(world, "ca", {"ca.crt": secure_registry.ca})
    key = f"{world.namespace}/one"
    async with repository(world, secure_registry) as remote:
        for name, content in ((first, files), (second, more)):
            await remote.publish(name, content)
        await world.create(world.stack.manifest(world.namespace, "v1", source=remote.source(**named)))
        await world.cluster("one", first.class_name)

        plan = await document(world, "plan", "--to", NEW)
        assert [step["kind"] for step in plan["steps"]] == ["addon", "kubernetes"]
        assert any("create one there for Kubernetes 1.36" in one for one in plan["warnings"])

        kubeconfig = await tenant(world)
        code, out, err = await csctl(world, "plan", key, "--to", NEW, kubeconfig=kubeconfig)
        assert (code, out) == (2, "")
        assert f"release {first}, whose class it has, is not among those that could be read" in err
        assert "403 Forbidden" in err
        assert "give its releases with --releases DIR" in err
        assert secure_registry.password not in err

        given = f"--releases={remote.root}"
        code, out, err = await csctl(world, "plan", key, "--to", NEW, given, kubeconfig=kubeconfig)
        assert code == 0
        assert "update addon cilium from 1.17.2 to 1.18.0" in out
        assert "the rules of the provider are not checked" in err


async def test_directory_source_of_the_operator_requires_the_releases_option(world: World) -> None:
    for name, content in releases(world):
        world.publish(name, content)
    first, second = (name for name, _ in releases(world))
    await world.create(world.stack.manifest(world.namespace, "v1"))
    await world.cluster("one", first.class_name)
    key, given = f"{world.namespace}/one", f"--releases={world.releases}"

    code, _, err = await csctl(world, "why", key, NEW)
    assert code == 2
    assert f"ClusterStack {world.namespace}/{world.stack.word} has no spec.source" in err
    assert "give its releases with --releases DIR" in err
    code, out, _ = await csctl(world, "why", key, second.release, given)
    assert code == 0
    assert out.startswith(f"Refused: Cluster {key} cannot change to {second} now:")


async def test_clusters_without_a_usable_class_or_source_are_rejected(world: World) -> None:
    await world.cluster("foreign", "quick-start")
    for name, words in (
        ("none", "does not exist: 'csctl status -n"),
        ("foreign", "which is not from a cluster stack"),
    ):
        code, out, err = await csctl(world, "plan", f"{world.namespace}/{name}", "--to", NEW)
        assert (code, out) == (2, "")
        assert f"Cluster {world.namespace}/{name}" in err
        assert words in err
    nobody = await tenant(world)
    code, _, err = await csctl(world, "why", "kube-system/one", NEW, kubeconfig=nobody)
    assert code == 1
    assert "ask for the right to get clusters in namespace kube-system" in err
