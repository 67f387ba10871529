"""The order of an upgrade with two workers: one timeline of the audit logs of management and workload API server."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from clusterstacks.model.documents import at, mappings, text
from clusterstacks.model.kinds.names import UPGRADE_HOLD_ANNOTATION
from clusterstacks.net.pool import Pool
from tests.support.builders.e2e_objects import cluster, create, delivered, namespace, set_topology, stack
from tests.support.builders.hooked_stack import HookedStack
from tests.support.builders.stacks import stage
from tests.support.observing.request_audit import AuditedRequest, RequestAudit
from tests.support.running.kubectl import Kubectl
from tests.support.running.local_environment import AUDIT_LOG
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.support.running.local_environment import Local

HOME, STACK, SECONDS = "upgrade-order", "order", 240
OLD, NEW = "v1.35.4", "v1.36.3"
HOOKS = {
    "BeforeClusterUpgrade": ["network"],
    "AfterControlPlaneUpgrade": ["ccm", "proxy"],
    "AfterWorkersUpgrade": ["agent"],
    "AfterClusterUpgrade": ["storage"],
}
PLACES = {HOME, "default", "kube-system"}
"""Namespaces of the objects in the timeline; other tests write in others."""
RELEASE = f"/metadata/annotations/{UPGRADE_HOLD_ANNOTATION.replace('/', '~1')}"
"""Path in the JSON patch that releases the upgrade."""
ADDONS = [addon for addons in HOOKS.values() for addon in addons]
RELEASES = HookedStack(
    name=STACK,
    hooks={hook: [stage(addon) for addon in addons] for hook, addons in HOOKS.items()},
    installed=ADDONS,
)


class Timeline:
    """The successful writes of both servers, by the clock of their machine."""

    def __init__(self, *logs: Path) -> None:
        found = [write for log in logs for write in RequestAudit(log).since_last() if write.namespace in PLACES]
        self._writes = sorted((one for one in found if one.code < 300 and not one.dry_run), key=lambda one: one.began)

    def first(self, kind: str, matches: Callable[[AuditedRequest], bool]) -> AuditedRequest:
        found = [one for one in self._writes if one.kind == kind and matches(one)]
        assert found, (
            f"no such write of {kind}: {[(one.began, one.content) for one in self._writes if one.kind == kind]}"
        )
        return found[0]

    def delivery(self, addon: str) -> AuditedRequest:
        """Return the write that brings an addon to the new release."""
        return self.first("configmaps", lambda one: one.name == addon and at(one.content, "data", "minor") == "1-36")


def versions(*path: str) -> Callable[[AuditedRequest], bool]:
    """Match a write of a status after which only the new version is left."""
    return lambda one: {text(found, "version") for found in mappings(one.content, *path)} == {NEW}


def reconciled(write: AuditedRequest) -> bool:
    conditions = {text(one, "type"): one for one in mappings(write.content, "status", "conditions")}
    return text(conditions.get("TopologyReconciled", {}), "status") == "True"


@pytest.mark.regression("D26")
async def test_stages_follow_control_plane_workers_and_the_end_of_the_upgrade_in_this_order(
    local: Local, tmp_path: Path
) -> None:
    first, second = (RELEASES.build(version, tmp_path, local.releases) for version in (OLD, NEW))
    workers: dict[str, Any] = {"machineDeployments": [{"class": "default", "name": "pool", "replicas": 2}]}
    kubectl = Kubectl(local.state.kubeconfig, HOME)
    async with Pool() as pool:
        client = local.management(pool)
        await create(client, namespace(HOME))
        with local.operator(HOME):
            for minor in ("1.35", "1.36"):
                await create(client, stack(HOME, minor, name=STACK, versions=["v1"]))
            kubectl("wait", "--for=condition=Ready", "--timeout=300s", "clusterstack", "--all")
            await create(client, cluster(HOME, "one", first.class_name, OLD, workers=workers))
            await eventually(lambda: delivered(client, HOME, "one", first.class_name), seconds=SECONDS)

            async def has_workers() -> bool:
                found = await client.get(await client.resource("cluster.x-k8s.io", "Cluster"), "one", HOME)
                reported = mappings(found, "status", "workers", "versions")
                assert [(text(one, "version"), one.get("replicas")) for one in reported] == [(OLD, 2)], reported
                return True

            await eventually(has_workers, seconds=SECONDS, about="two workers")
            await set_topology(client, HOME, "one", second.class_name, NEW)
            await eventually(lambda: delivered(client, HOME, "one", second.class_name), seconds=SECONDS)

    workload = local.state.cluster_kubeconfig(HOME, "one").parent
    logs = Timeline(*(directory / AUDIT_LOG for directory in (local.state.kubeconfig.parent, workload)))
    network, ccm, proxy, agent, storage = map(logs.delivery, ADDONS)
    released = logs.first("clusters", lambda one: RELEASE in json.dumps(one.content))
    ordered = logs.first("localcontrolplanes", lambda one: text(one.content, "spec", "version") == NEW)
    control_plane = logs.first("localcontrolplanes/status", versions("status", "versions"))
    pool_rolls = logs.first(
        "machinedeployments", lambda one: text(one.content, "spec", "template", "spec", "version") == NEW
    )
    rolled = versions("status", "workers", "versions")
    end = logs.first("clusters/status", lambda one: one.began > pool_rolls.began and reconciled(one))
    # Two controllers of Cluster API write the versions of the workers and the condition, in any order.
    all_workers = logs.first("clusters/status", lambda one: one == end or rolled(one))

    assert network.ended < released.began < ordered.began, "Cluster API waits for the stages before the upgrade"
    assert network.began < ccm.began
    assert control_plane.ended < ccm.began < proxy.began, "after the control plane, in the order of clusteraddon.yaml"
    assert control_plane.ended < pool_rolls.began < all_workers.began, "Cluster API rolls the workers second"
    assert max(all_workers.began, proxy.began) < agent.began, "after the workers"
    assert max(end.began, agent.began) < storage.began, "after the cluster"
