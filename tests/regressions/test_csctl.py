"""LIVE-H1: ``csctl plan``, ``why`` and ``compat`` need no source, no password and few rights."""

from __future__ import annotations

import asyncio
import json
import os
from typing import TYPE_CHECKING

import pytest
import yaml

from clusterstacks.model.kinds.addon_annotations import ADDON_ANNOTATION
from clusterstacks.model.kinds.names import Kind
from tests.support.running.admission import of_minor, ranged
from tests.support.running.csctl import csctl_run
from tests.support.running.world import is_ready

if TYPE_CHECKING:
    from pathlib import Path

    from clusterstacks.model.names import ReleaseName
    from tests.support.running.world import World

pytestmark = pytest.mark.regression("LIVE-H1")

OLD, NEW = "v1.35.4", "v1.36.1"
GROUP = "rbac.authorization.k8s.io"
OURS = ("clusterstacks", "clusterstackreleases", "clusteraddons")


async def csctl(kubeconfig: Path, *arguments: str) -> tuple[int, str, str]:
    """Exit code, output and messages of csctl in an environment that names no source."""
    kept = {name: os.environ[name] for name in ("PATH", "HOME") if name in os.environ}
    environ = {**kept, "XDG_DATA_HOME": str(kubeconfig.parent)}
    run = await asyncio.to_thread(csctl_run, *arguments, f"--kubeconfig={kubeconfig}", environ=environ)
    return run.returncode, run.stdout, run.stderr


async def user(world: World) -> Path:
    """A kubeconfig of a user who may only get and list what a plan needs."""
    name = f"{world.namespace}-user"
    rules = [
        {"apiGroups": ["cluster.x-k8s.io"], "resources": ["clusters"], "verbs": ["get", "list"]},
        {"apiGroups": ["clusterstack.x-k8s.io"], "resources": list(OURS), "verbs": ["get", "list"]},
    ]
    wide = [{"apiGroups": ["clusterstack.x-k8s.io"], "resources": ["compatibilityrules"], "verbs": ["get", "list"]}]
    subjects = [{"apiGroup": GROUP, "kind": "User", "name": name}]
    inside = {"name": name, "namespace": world.namespace}
    for kind, metadata, granted in (("Role", inside, rules), ("ClusterRole", {"name": name}, wide)):
        role = {"apiVersion": f"{GROUP}/v1", "kind": kind, "metadata": metadata, "rules": granted}
        binding = {**role, "kind": f"{kind}Binding", "subjects": subjects}
        del binding["rules"]
        await world.create(role)
        await world.create({**binding, "roleRef": {"apiGroup": GROUP, "kind": kind, "name": name}})
    config = yaml.safe_load(world.management_kubeconfig.read_text())
    config["users"][0]["user"]["as"] = name
    place = world.releases.with_name("user.kubeconfig")
    place.write_text(yaml.safe_dump(config))
    return place


async def offered(world: World) -> tuple[ReleaseName, ReleaseName]:
    """Two ranged releases, which only the operator can read."""
    later = of_minor(world.stack, "1.36")
    first, files = ranged(world.stack, "v1", OLD, ">=1.34 <1.37", cilium=("1.17.2", ">=1.30 <1.36"))
    second, more = ranged(later, "v2", NEW, ">=1.36 <1.38", cilium=("1.18.0", ">=1.33 <1.38"))
    world.publish(first, files)
    world.publish(second, more)
    await world.create(world.stack.manifest(world.namespace, "v1"))
    manifest = later.manifest(world.namespace, "v2")
    manifest["metadata"]["name"] += "-36"
    await world.create(manifest)
    for name in (first, second):
        await world.until(
            Kind.CLUSTER_STACK_RELEASE, name.release, lambda one: is_ready(one) and one["status"].get("facts")
        )
    return first, second


@pytest.mark.regression("LIVE-H1")
async def test_plan_and_why_need_only_the_status_of_releases(world: World) -> None:
    async with world.operator():
        first, second = await offered(world)
        await world.cluster("one", first.class_name, version=OLD)
        await world.addons_ready("one", first.class_name)
    kubeconfig, key = await user(world), f"{world.namespace}/one"

    code, out, err = await csctl(kubeconfig, "plan", key, "--to", second.release, "-o", "json")
    refused, told, notices = await csctl(kubeconfig, "why", key, NEW)

    assert (code, err) == (0, "")
    plan = json.loads(out)
    assert plan["steps"][0]["name"] == "cilium"
    assert plan["warnings"] == []
    assert (refused, notices) == (0, "")
    assert f"1. update addon cilium from 1.17.2 to 1.18.0 (from release {second})" in told


@pytest.mark.regression("LIVE-H1")
async def test_compat_check_of_a_cluster_needs_only_the_status_of_releases(world: World) -> None:
    async with world.operator():
        first, second = await offered(world)
        await world.cluster("one", first.class_name, version=OLD)
        await world.addons_ready("one", first.class_name)
        other = await world.cluster("two", first.class_name, version=OLD)
        await world.patch(other, {"metadata": {"annotations": {f"{ADDON_ANNOTATION}cilium": second.release}}})
        await world.create(
            {
                "apiVersion": "clusterstack.x-k8s.io/v1alpha1",
                "kind": "CompatibilityRule",
                "metadata": {"name": f"{world.namespace}-later"},
                "spec": {
                    "stacks": [{"provider": first.provider, "name": first.stack}],
                    "severity": "Deny",
                    "message": "not before the audit",
                    "when": {"kubernetes": ">=1.37"},
                },
            }
        )
    kubeconfig, key = await user(world), f"{world.namespace}/one"

    now, told, notices = await csctl(kubeconfig, "compat", "check", key)
    later, refused, _ = await csctl(kubeconfig, "compat", "check", key, "--kubernetes", NEW)
    moved, compatible, _ = await csctl(kubeconfig, "compat", "check", f"{world.namespace}/two", "--kubernetes", NEW)
    tabled, table, _ = await csctl(kubeconfig, "compat", "matrix", key)
    _, denied, _ = await csctl(kubeconfig, "compat", "check", key, "--kubernetes", "v1.37.1")

    assert (now, notices) == (0, "")
    assert told.startswith(f"Cluster {key} of class {first.class_name} with Kubernetes {OLD}: ok\n")
    assert later == 3
    assert "incompatible  cilium 1.17.2 works with Kubernetes >=1.30 <1.36 [addon cilium]" in refused
    assert (moved, "incompatible" in compatible) == (0, False)
    assert "cilium 1.18.0 works with Kubernetes >=1.33 <1.38 [addon cilium]" in compatible
    assert tabled == 0
    assert {f"{first}", f"{second}", "cilium"} <= {line.split()[0] for line in table.splitlines()}
    assert "not before the audit" in denied
