"""Workers of the local environment: Cluster API's own MachineDeployments, and a Node for each Machine."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from clusterstacks.dev.provider import kinds
from clusterstacks.model.documents import at, mappings, text
from clusterstacks.model.kinds.names import CLUSTER_API_GROUP, CLUSTER_CLASS_KIND, CLUSTER_KIND
from clusterstacks.net.kube.errors import NotFound, Unreachable
from clusterstacks.net.pool import Pool
from tests.support.builders import e2e_objects
from tests.support.builders.e2e_objects import create
from tests.support.builders.manifests import named
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from clusterstacks.model.objects import Manifest
    from clusterstacks.net.kube.client import Client
    from tests.support.running.local_environment import Local

SPACE, SECONDS = "workers", 240
OLD, NEW = "v1.34.2", "v1.35.4"


def reference(kind: str) -> dict[str, Any]:
    version = f"{kinds.GROUP}/{kinds.VERSION}"
    return {"templateRef": {"apiVersion": version, "kind": f"{kind}Template", "name": "workers"}}


def cluster_class() -> list[Manifest]:
    version = f"{kinds.GROUP}/{kinds.VERSION}"
    templates = [named(version, kind, "workers", SPACE, spec={"template": {"spec": {}}}) for kind in kinds.TEMPLATES]
    pool = {"class": "default", "infrastructure": reference(kinds.MACHINE)}
    pool["bootstrap"] = reference(kinds.BOOTSTRAP_CONFIG)
    spec = {
        "infrastructure": reference(kinds.CLUSTER),
        "controlPlane": reference(kinds.CONTROL_PLANE),
        "workers": {"machineDeployments": [pool]},
    }
    return [*templates, named(f"{CLUSTER_API_GROUP}/v1beta2", CLUSTER_CLASS_KIND, "workers", SPACE, spec=spec)]


async def machines(management: Client) -> dict[str, str]:
    """The nodes and versions of the Machines that are available."""
    found = (await management.list(await management.resource(CLUSTER_API_GROUP, "Machine"), SPACE)).items
    return {
        text(one, "status", "nodeRef", "name"): text(one, "spec", "version")
        for one in found
        if any((c.get("type"), c.get("status")) == ("Available", "True") for c in mappings(one, "status", "conditions"))
    }


async def nodes(workload: Client) -> dict[str, str]:
    """The nodes with their versions that are ready."""
    found = (await workload.list(await workload.resource("", "Node"))).items
    return {
        one["metadata"]["name"]: text(one, "status", "nodeInfo", "kubeletVersion")
        for one in found
        if any((c.get("type"), c.get("status")) == ("Ready", "True") for c in mappings(one, "status", "conditions"))
    }


async def test_each_machine_is_a_node_and_an_upgrade_replaces_the_workers_after_the_control_plane(local: Local) -> None:
    async with Pool() as pool:
        management = local.management(pool)
        await create(management, e2e_objects.namespace(SPACE))
        for manifest in cluster_class():
            await create(management, manifest)
        workers = {"machineDeployments": [{"class": "default", "name": "pool", "replicas": 2}]}
        await create(management, e2e_objects.cluster(SPACE, "one", "workers", OLD, workers=workers))

        async def settled(version: str, count: int) -> dict[str, str]:
            try:
                seen, wanted = await nodes(local.workload(SPACE, "one", pool)), await machines(management)
            except Unreachable as error:
                raise AssertionError(error.message) from None  # the upgrade restarts the API server
            assert seen == wanted, (seen, wanted)
            assert list(seen.values()) == [version] * count, seen
            return seen

        async def available() -> bool:
            clusters = await management.resource(CLUSTER_API_GROUP, CLUSTER_KIND)
            found = await management.get(clusters, "one", SPACE)
            assert at(found, "status", "workers", "availableReplicas") == 2, found.get("status")
            return True

        await eventually(available, seconds=SECONDS, about="two available workers")
        before = await eventually(lambda: settled(OLD, 2), seconds=SECONDS, about="two nodes")

        await e2e_objects.set_topology(management, SPACE, "one", "workers", NEW)
        after = await eventually(lambda: settled(NEW, 2), seconds=SECONDS, about="two nodes of the new version")
        assert not before.keys() & after.keys()

        clusters = await management.resource(CLUSTER_API_GROUP, CLUSTER_KIND)
        fewer = {"machineDeployments": [{"class": "default", "name": "pool", "replicas": 1}]}
        await management.merge_patch(clusters, "one", {"spec": {"topology": {"workers": fewer}}}, SPACE)
        await eventually(lambda: settled(NEW, 1), seconds=SECONDS, about="one node")

        await management.delete(clusters, "one", SPACE)

        async def gone() -> bool:
            try:
                await management.get(clusters, "one", SPACE)
            except NotFound:
                return True
            return False

        await eventually(gone, seconds=SECONDS, about="the end of the Cluster")
        for kind in (kinds.MACHINE, kinds.BOOTSTRAP_CONFIG, kinds.CONTROL_PLANE):
            assert not (await management.list(await management.resource(kinds.GROUP, kind), SPACE)).items
