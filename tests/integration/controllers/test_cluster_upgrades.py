"""ClusterUpgrades carried out by the operator, with its webhooks and a played Cluster API."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from typing import TYPE_CHECKING, Any

from clusterstacks.model.kinds.names import API_VERSION, CLUSTER_KIND, GROUP, UPGRADE_STEP_ANNOTATION, Kind
from clusterstacks.net.kube.client import Client
from clusterstacks.net.kube.errors import Unreachable
from clusterstacks.operator.controllers.clusterupgrade.step_record import MANAGER
from tests.integration.clusters.test_plans import document, nodes_roll, offered
from tests.support.builders.manifests import named
from tests.support.builders.remote_repositories import repository
from tests.support.running.admission import guarded, refusal
from tests.support.running.kubectl import Kubectl
from tests.support.running.world import condition_of
from tests.support.waiting import eventually

if TYPE_CHECKING:
    import pytest

    from clusterstacks.model.objects import Manifest
    from tests.support.running.world import World
    from tests.support.servers.registries import RegistryServer

ONE = {"names": ["one"]}
RBAC = "rbac.authorization.k8s.io"


def upgrade(world: World, to: str, name: str = "up", clusters: Manifest = ONE, **spec: Any) -> Manifest:
    spec = {"clusters": clusters, "to": to, **spec}
    return named(API_VERSION, Kind.CLUSTER_UPGRADE, name, world.namespace, spec=spec)


async def phase(world: World, wanted: str, name: str = "up") -> Manifest:
    def has(found: Manifest) -> bool:
        status = found.get("status", {})
        assert status.get("phase") == wanted, status
        return bool(status.get("observedGeneration") == found["metadata"]["generation"])

    found: Manifest = (await world.until(Kind.CLUSTER_UPGRADE, name, has))["status"]
    return found


async def entry(world: World, says: str, name: str = "up") -> Manifest:
    """Wait until the first Cluster of an upgrade says something, and return its state."""

    def has(found: Manifest) -> bool:
        (first, *_) = found.get("status", {}).get("clusters") or [{}]
        assert says in f"{first.get('doing', '')} {first.get('message', '')}", found.get("status")
        return True

    found: Manifest = (await world.until(Kind.CLUSTER_UPGRADE, name, has))["status"]["clusters"][0]
    return found


async def test_steps_are_taken_once_each_although_no_answer_of_the_api_server_arrives(
    world: World, registry: RegistryServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After each write of the controller its reconcile ends as if the operator was killed, and begins anew."""
    written: Counter[str] = Counter()
    send = Client.merge_patch

    async def lossy(client: Client, resource: Any, name: str, patch: Any, namespace: str = "", **how: Any) -> Manifest:
        answer = await send(client, resource, name, patch, namespace, **how)
        if how.get("manager") == MANAGER:
            written[json.dumps(patch["spec"] if "spec" in patch else patch["metadata"]["annotations"])] += 1
        if how.get("manager") == MANAGER or (resource.kind == Kind.CLUSTER_UPGRADE and written["status"] % 2 == 0):
            written["status"] += resource.kind == Kind.CLUSTER_UPGRADE
            raise Unreachable("the answer was lost")
        written["status"] += resource.kind == Kind.CLUSTER_UPGRADE
        return answer

    async with repository(world, registry) as remote, guarded(world, allowed_sources=remote.allowed):
        first, second = await offered(world, remote)
        await world.cluster("one", first.class_name)
        await world.addons_ready("one", first.class_name)
        plan = (await document(world, "plan", "--to", second.release))["steps"]
        monkeypatch.setattr(Client, "merge_patch", lossy)
        async with nodes_roll(world, "one"):
            await world.create(upgrade(world, second.release, progressDeadline="1h"))
            status = await phase(world, "Done")
        monkeypatch.undo()
        assert (status["done"], status["running"], status["failed"]) == ("1/1", 0, 0)
        assert (status["clusters"][0]["phase"], status["clusters"][0]["step"]) == ("Done", f"{len(plan)}/{len(plan)}")
        written.pop("status")
        assert [*written.values()] == [1] * len(plan)
        cluster = await world.get(CLUSTER_KIND, "one")
        assert json.loads(cluster["metadata"]["annotations"][UPGRADE_STEP_ANNOTATION])["number"] == len(plan)
        done = await world.get(Kind.CLUSTER_UPGRADE, "up")
        assert condition_of(done, "Ready")["message"] == "1/1 clusters have the target"

        # A target below the versions of the Cluster, and one that follows what is published and is reached.
        await world.create(upgrade(world, first.release, "down"))
        assert (await phase(world, "Blocked", "down"))["done"] == "0/1"
        await world.delete(await world.get(Kind.CLUSTER_UPGRADE, "down"))
        await world.create(upgrade(world, "latest", "follow"))
        assert (await phase(world, "Done", "follow"))["clusters"][0]["target"] == second.release


async def test_a_version_that_is_set_back_twice_stops_the_cluster_with_the_name_of_the_writer(
    world: World, registry: RegistryServer
) -> None:
    # The webhook would refuse to set it back.
    async with repository(world, registry) as remote, world.operator(allowed_sources=remote.allowed):
        first, second = await offered(world, remote)
        await world.cluster("one", first.class_name)
        await world.addons_ready("one", first.class_name)
        clusters = await world.client.resource("cluster.x-k8s.io", CLUSTER_KIND)
        before = (await world.get(CLUSTER_KIND, "one"))["spec"]["topology"]

        async with nodes_roll(world, "one"):
            await world.create(upgrade(world, second.release))
            for _ in range(2):
                await world.until(CLUSTER_KIND, "one", lambda one: bool(one["spec"]["topology"] != before))
                back = {"spec": {"topology": before}}
                await world.client.merge_patch(clusters, "one", back, world.namespace, manager="argocd-controller")
            state = await entry(world, "(field manager argocd-controller)")
        assert state["phase"] in {"Running", "Failed"}


async def test_upgrades_that_cannot_begin_say_why(world: World, registry: RegistryServer) -> None:
    async with repository(world, registry) as remote, guarded(world, allowed_sources=remote.allowed):
        first, second = await offered(world, remote)
        await world.cluster("one", first.class_name)
        await world.addons_ready("one", first.class_name)
        unchanged = (await world.get(CLUSTER_KIND, "one"))["spec"]

        await world.create(upgrade(world, second.release, suspend=True))
        assert (await phase(world, "Suspended"))["done"] == "0/1"
        await entry(world, "spec.suspend is true")
        await asyncio.sleep(1)  # times of creation have whole seconds
        await world.create(upgrade(world, second.release, "younger"))
        await phase(world, "Waiting", "younger")
        await entry(world, "the older ClusterUpgrade up has this Cluster", "younger")

        await world.create(upgrade(world, second.release, "missing", {"names": ["absent"]}))
        await phase(world, "Blocked", "missing")
        await entry(world, f"Clusters of namespace {world.namespace}: one", "missing")
        nothing = {"selector": {"matchLabels": {"ring": "canary"}}}
        await world.create(upgrade(world, second.release, "nothing", nothing))
        await phase(world, "Blocked", "nothing")
        found = await world.get(Kind.CLUSTER_UPGRADE, "nothing")
        assert (
            "matches no Cluster. The Clusters of the namespace have no labels"
            in condition_of(found, "Ready")["message"]
        )

        shut = {"days": ["Mon"], "start": "02:00", "duration": "1s", "timeZone": "Europe/Berlin"}
        await world.patch(await world.get(Kind.CLUSTER_UPGRADE, "younger"), {"spec": {"window": shut}})
        await world.delete(await world.get(Kind.CLUSTER_UPGRADE, "up"))
        await entry(world, "waits for the window, which opens on Mon", "younger")
        absent = second.release.replace("v2", "v9")
        changed = {"spec": {"window": None, "to": absent}}
        await world.patch(await world.get(Kind.CLUSTER_UPGRADE, "younger"), changed)
        await phase(world, "Blocked", "younger")
        await entry(world, f"release {absent} is not among those that could be read", "younger")
        assert (await world.get(CLUSTER_KIND, "one"))["spec"] == unchanged


async def test_a_writer_without_the_right_to_update_clusters_is_refused(world: World) -> None:
    role = named(f"{RBAC}/v1", "Role", "upgrades", world.namespace)
    role["rules"] = [{"apiGroups": [GROUP], "resources": ["clusterupgrades"], "verbs": ["create", "patch", "get"]}]
    subject = {"kind": "User", "name": "jane", "apiGroup": RBAC}
    reference = {"apiGroup": RBAC, "kind": "Role", "name": "upgrades"}
    binding = named(f"{RBAC}/v1", "RoleBinding", "upgrades", world.namespace, roleRef=reference, subjects=[subject])
    await world.create(role)
    await world.create(binding)
    kubectl = Kubectl(world.management_kubeconfig, world.namespace)
    manifest = upgrade(world, "latest")
    async with guarded(world):
        refused = await asyncio.to_thread(kubectl.tried, "create", "--as=jane", "-f-", manifest=manifest)
        assert f"user jane may not update clusters.cluster.x-k8s.io in namespace {world.namespace}" in refused.stderr

        invalid: list[tuple[Manifest, str]] = [
            ({"clusters": {**ONE, "selector": {}}}, "spec.clusters has both names and selector: write one of them"),
            ({"clusters": {}}, "spec.clusters has neither names nor selector: write one of them"),
            ({"to": "newest"}, "'newest' is not a valid target"),
            ({"window": {"start": "02:00", "duration": "169h"}}, "more than zero, and at most a week"),
            (
                {"window": {"start": "02:00", "duration": "1h", "timeZone": "Europe/Berlim"}},
                "did you mean Europe/Berlin",
            ),
        ]
        for spec, says in invalid:
            wrong = {**manifest, "spec": {**manifest["spec"], **spec}}
            assert says in await refusal(world.create(wrong)), spec

        # The right is asked for again when the spec changes, and not when a label does.
        await world.create(manifest)
        patch = ("patch", "--as=jane", "cupg", "up", "--type=merge", "--patch")
        refused = await asyncio.to_thread(kubectl.tried, *patch, '{"spec": {"suspend": true}}')
        assert "user jane may not update clusters" in refused.stderr
        await asyncio.to_thread(kubectl, *patch, '{"metadata": {"labels": {"a": "b"}}}')
        rules = [*role["rules"], {"apiGroups": ["cluster.x-k8s.io"], "resources": ["clusters"], "verbs": ["update"]}]
        await world.patch(role, {"rules": rules})

        async def allowed() -> bool:
            tried = await asyncio.to_thread(kubectl.tried, *patch, '{"spec": {"suspend": true}}')
            return tried.returncode == 0

        await eventually(allowed, about="the change by a writer who may update Clusters")
