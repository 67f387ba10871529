"""Resource sets that are kept in place, on a plain cluster of the real Cluster API: its own sets, and those of ours."""

from __future__ import annotations

import asyncio
import os
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pytest

from clusterstacks.deliver.apply.ownership import FIELD_MANAGER, PART_OF_LABEL
from clusterstacks.model import yaml
from clusterstacks.model.kinds.clusterresourcesync import SYNC_API_VERSION, binding_name
from clusterstacks.model.kinds.names import RECONCILE_ANNOTATION, RESOURCE_SET_GROUP, STRATEGY_ANNOTATION, sync_name
from tests.support.builders.e2e_objects import cluster, namespace
from tests.support.builders.manifests import config_map, crd, named
from tests.support.running.csctl import csctl_run
from tests.support.running.kubectl import Kubectl
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from collections.abc import Iterator

    from clusterstacks.model.objects import Manifest
    from tests.support.running.local_environment import Local

HOME = "syncs"
GROUP = "e2e.example.org"
PROVIDER = "local.clusterstack.x-k8s.io/v1alpha1"
SPACE = "kube-system"


def template(kind: str) -> dict[str, str]:
    return {"apiVersion": PROVIDER, "kind": kind, "name": "plain"}


@dataclass(frozen=True, slots=True)
class Home:
    """A namespace with one Cluster, of a class of no cluster stack.

    Args:
        management: kubectl in this namespace.
        workload: kubectl in ``kube-system`` of the cluster.
    """

    management: Kubectl
    workload: Kubectl

    def source(self, name: str, *manifests: Manifest) -> None:
        """Write a ConfigMap with objects."""
        content = "---\n".join(map(yaml.dump, manifests))
        self.management("apply", "-f-", manifest=config_map(name, HOME, objects=content))

    def select(self, label: str) -> None:
        self.management("label", "--overwrite", "cluster/prod", label)

    async def shows(self, name: str, **content: str) -> Manifest:
        """Wait until a ConfigMap of the cluster has this content."""

        async def look() -> Manifest | None:
            found = self.workload.get("configmaps", f"--field-selector=metadata.name={name}")
            assert [one["data"] for one in found["items"]] == [content], found
            live: Manifest = found["items"][0]
            return live

        return await eventually(look, about=f"ConfigMap {name}")

    async def gone(self, kubectl: Kubectl, *what: str) -> None:
        async def look() -> bool:
            return kubectl("get", *what, "--ignore-not-found", "--output=name") == ""

        await eventually(look, about=f"the end of {' '.join(what)}")

    def edit(self, name: str, **content: str | None) -> None:
        self.workload("patch", "configmap", name, "--type=merge", "--patch", yaml.dump({"data": content}))


@pytest.fixture(scope="module")
def home(local: Local) -> Iterator[Home]:
    management = Kubectl(local.state.kubeconfig, HOME)
    management("create", "-f-", manifest=namespace(HOME))
    refs = {
        "infrastructure": {"templateRef": template("LocalClusterTemplate")},
        "controlPlane": {"templateRef": template("LocalControlPlaneTemplate")},
    }
    for ref in refs.values():
        kind = ref["templateRef"]["kind"]
        management("create", "-f-", manifest=named(PROVIDER, kind, "plain", HOME, spec={"template": {"spec": {}}}))
    management("create", "-f-", manifest=named("cluster.x-k8s.io/v1beta2", "ClusterClass", "plain", HOME, spec=refs))
    management("create", "-f-", manifest=cluster(HOME, "prod", "plain"))
    management("wait", "--for=condition=Available", "--timeout=300s", "cluster/prod")
    yield Home(management, Kubectl(local.state.cluster_kubeconfig(HOME, "prod"), SPACE))
    management("delete", "cluster", "prod", "--timeout=300s")


async def test_operator_and_its_custom_resource_are_kept_until_the_sync_is_deleted(local: Local, home: Home) -> None:
    widgets, made = crd("Widget", GROUP), named(f"{GROUP}/v1", "Widget", "one", SPACE, spec={"size": 1})
    home.source("operator", made, widgets, config_map("settings", level="info"))
    spec = {
        "clusterSelector": {"matchLabels": {"operator": "yes"}},
        "resources": [{"kind": "ConfigMap", "name": "operator"}],
        "interval": "10s",
    }
    with local.operator(HOME):
        home.management(
            "create", "-f-", manifest=named(SYNC_API_VERSION, "ClusterResourceSync", "operator", HOME, spec=spec)
        )
        home.select("operator=yes")
        wait = ("wait", "--timeout=120s", "crsync/operator")
        home.management(*wait, "--for=jsonpath={.status.synced}=1")
        home.management(*wait, "--for=condition=Ready")
        head, row = home.management("get", "crsync").splitlines()
        assert head.split() == ["NAME", "READY", "CLUSTERS", "SYNCED", "DRIFTED", "AGE"]
        assert row.split()[:5] == ["operator", "True", "1", "1", "0"]
        assert home.workload.get(f"widgets.{GROUP}", "one")["spec"] == {"size": 1}

        home.source("operator", made, widgets, config_map("settings", level="debug"), config_map("more", a="b"))
        await home.shows("settings", level="debug")
        home.edit("settings", level="by hand")
        await home.shows("settings", level="debug")
        home.workload("delete", "configmap", "settings")
        await home.shows("settings", level="debug")
        await eventually(lambda: told(local, "drift", "(sync operator): was deleted, restored"), about="the drift")
        await eventually(lambda: told(local, "status", "operator  4 objects in place"), about="the sync in the status")

        home.source("operator", made, widgets, config_map("settings", level="debug"))
        await home.gone(home.workload, "configmap", "more")
        home.select("operator=no")
        await home.gone(home.workload, "configmap", "settings")
        await home.gone(home.workload, "crd", widgets["metadata"]["name"])

        home.select("operator=yes")
        await home.shows("settings", level="debug")
        home.management("delete", "crsync", "operator", "--timeout=120s")
        assert home.workload.get("configmaps", "--field-selector=metadata.name=settings")["items"] == []


@pytest.mark.parametrize("strategy", ["ApplyOnce", "Reconcile"])
async def test_set_of_cluster_api_is_kept_beside_its_own_controller(local: Local, home: Home, strategy: str) -> None:
    name = f"set-{strategy.lower()}"
    spec = {
        "clusterSelector": {"matchLabels": {name: "yes"}},
        "resources": [{"kind": "ConfigMap", "name": name}],
        "strategy": strategy,
    }
    home.source(name, config_map(name, SPACE, level="info", same="a"))
    resource_set = named(f"{RESOURCE_SET_GROUP}/v1beta2", "ClusterResourceSet", name, HOME, spec=spec)
    home.management("create", "-f-", manifest=resource_set)
    home.select(f"{name}=yes")
    await home.shows(name, level="info", same="a")
    home.management("wait", f"clusterresourceset/{name}", "--for=condition=ResourcesApplied", "--timeout=120s")
    home.edit(name, level="by hand")

    sync = sync_name(name)
    binding = f"crsyncbinding/{binding_name(sync, 'prod')}"
    annotate = ("annotate", "--overwrite", "clusterresourceset", name)
    with local.operator(HOME):
        home.management(*annotate, f"{STRATEGY_ANNOTATION}=Continuous", "addons.clusterstack.x-k8s.io/interval=10s")
        live = await home.shows(name, level="info", same="a")
        assert writers(home, name) == {FIELD_MANAGER}

        home.source(name, config_map(name, SPACE, level="debug", same="a"))
        await home.shows(name, level="debug", same="a")
        home.edit(name, level="by hand")
        await home.shows(name, level="debug", same="a")
        home.workload("delete", "configmap", name)
        await home.shows(name, level="debug", same="a")

        # The merge patch of the strategy Reconcile removes labels that the source lacks: they come back, once.
        before = applied_hash(home, name)
        home.source(name, config_map(name, SPACE, level="warn", same="a"))
        await home.shows(name, level="warn", same="a")
        if strategy == "Reconcile":
            await eventually(lambda: changed(home, name, before), about=f"ClusterResourceSet {name} applied")
        settled = await labelled(home, name, live["metadata"]["labels"])
        await compared(home, binding, f"{strategy}-1")
        await compared(home, binding, f"{strategy}-2")
        assert home.workload.get("configmap", name)["metadata"]["resourceVersion"] == settled

        home.management(*annotate, f"{STRATEGY_ANNOTATION}-")
        await home.gone(home.management, binding)
        await home.shows(name, level="warn", same="a")
    home.management("delete", "clusterresourceset", name)


async def told(local: Local, verb: str, words: str) -> bool:
    """Return whether csctl says something about the cluster."""
    where = f"--kubeconfig={local.state.kubeconfig}"
    run = await asyncio.to_thread(csctl_run, verb, f"{HOME}/prod", where, environ=dict(os.environ))
    assert words in run.stdout, run.stdout + run.stderr
    return True


def writers(home: Home, name: str) -> set[str]:
    live = home.workload.get("configmap", name, "--show-managed-fields")
    return {one["manager"] for one in live["metadata"]["managedFields"]}


def applied_hash(home: Home, name: str) -> str:
    """Return the hash of the content that Cluster API has applied last."""
    bindings = home.management.get("clusterresourcesetbinding", "prod")["spec"]["bindings"]
    (found,) = (one["resources"][0]["hash"] for one in bindings if one["clusterResourceSetName"] == name)
    return str(found)


async def changed(home: Home, name: str, before: str) -> bool:
    return applied_hash(home, name) != before


async def labelled(home: Home, name: str, labels: dict[str, str]) -> str:
    async def look() -> str:
        metadata = home.workload.get("configmap", name)["metadata"]
        assert PART_OF_LABEL in labels
        assert metadata.get("labels") == labels, metadata
        version: str = metadata["resourceVersion"]
        return version

    return await eventually(look, about="our labels")


async def compared(home: Home, binding: str, request: str) -> None:
    """Have all objects compared, and wait for the result: they do not differ."""
    home.management("annotate", "--overwrite", "cluster", "prod", f"{RECONCILE_ANNOTATION}={request}")
    path = "{.status.lastHandledReconcileAt}"
    home.management("wait", binding, f"--for=jsonpath={path}={request}", "--timeout=120s")
    home.management("wait", binding, "--for=condition=InSync", "--timeout=120s")
