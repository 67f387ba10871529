"""Rights of the operator, and secrecy of kubeconfigs."""

from __future__ import annotations

import copy
import logging
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from clusterstacks.model.kinds.names import Kind
from tests.support.builders.stacks import config_map, templates
from tests.support.running.world import condition_of, is_ready

if TYPE_CHECKING:
    from pathlib import Path

    from tests.support.running.world import World


async def restricted(world: World, directory: Path, *rules: dict[str, Any]) -> Path:
    """Write the kubeconfig of a user who may do nothing but this, in the management cluster."""
    name = f"operator-{world.namespace}"
    role = {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRole",
        "metadata": {"name": name},
        "rules": [*rules],
    }
    reference = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": name}
    subject = {"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": name}
    await world.create(role)
    await world.create({**role, "kind": "ClusterRoleBinding", "roleRef": reference, "subjects": [subject]})
    document = yaml.safe_load(world.management_kubeconfig.read_text())
    document["users"][0]["user"]["as"] = name
    path = directory / "restricted"
    path.write_text(yaml.safe_dump(document))
    return path


def rule(groups: list[str], resources: list[str], verbs: str = "get list watch create patch update delete") -> Any:
    return {"apiGroups": groups, "resources": resources, "verbs": verbs.split()}


OURS = rule(["clusterstack.x-k8s.io"], ["*"])
CLUSTER_API = rule(["cluster.x-k8s.io"], ["*"])
CORE = rule([""], ["secrets", "namespaces", "events"])
PROVIDERS = rule(["infrastructure.cluster.x-k8s.io"], ["*"])


@pytest.mark.regression("D68")
async def test_forbidden_apply_of_a_class_object_names_the_missing_rule(world: World, tmp_path: Path) -> None:
    name = world.stack.release("v1")
    world.publish(name, world.stack.files("v1", {}))
    kubeconfig = await restricted(world, tmp_path, OURS, CLUSTER_API, CORE)
    async with world.operator(kubeconfig=str(kubeconfig)):
        await world.create(world.stack.manifest(world.namespace, "v1"))
        found = await world.says(Kind.CLUSTER_STACK_RELEASE, name.release, "HelmChartApplied")

        for word in ("tinyclustertemplates", "infrastructure.cluster.x-k8s.io", "'patch'"):
            assert word in found["message"]
        roles = await world.client.resource("rbac.authorization.k8s.io", "ClusterRole")
        rules = [OURS, CLUSTER_API, CORE, PROVIDERS]
        await world.client.merge_patch(roles, f"operator-{world.namespace}", {"rules": rules})
        await world.until(Kind.CLUSTER_STACK_RELEASE, name.release, is_ready, nudging=True)


@pytest.mark.regression("D69")
async def test_kubeconfig_is_in_no_log_event_status_or_file(world: World, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    name = world.stack.release("v1")
    refused = {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": world.namespace}, "spec": {}}
    charts = {"cni": templates(config_map(world.namespace)), "bad": templates(refused)}
    world.publish(name, world.stack.files("v1", charts))
    broken = copy.deepcopy(dict(world.workload_kubeconfig))
    broken["users"][0]["user"]["exec"] = {"command": "/bin/sh", "args": ["TOP-SECRET"]}
    async with world.operator():
        await world.create(world.stack.manifest(world.namespace, "v1"))
        await world.release_ready(name)
        await world.cluster("one", name.class_name)
        await world.says(Kind.CLUSTER_ADDON, "cluster-addon-one", "HelmChartApplied")
        await world.connect("one", broken)
        addon = await world.until(
            Kind.CLUSTER_ADDON,
            "cluster-addon-one",
            lambda one: condition_of(one, "ClusterReady").get("status") == "False",
            nudging=True,
        )
        events = await world.client.list(await world.client.resource("", "Event"), world.namespace)
        cluster = await world.get("Cluster", "one")

    seen = [caplog.text, str(addon), str(cluster), str(events.items)]
    seen += [path.read_text(errors="replace") for path in world.cache.rglob("*") if path.is_file()]
    user = world.workload_kubeconfig["users"][0]["user"]
    secrets = [user["client-key-data"], "TOP-SECRET", "PRIVATE KEY"]
    assert not [secret for secret in secrets for text in seen if secret in text]
