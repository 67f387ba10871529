"""The commands of "replace the Go operator" with the real Helm, in both directions."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from clusterstacks.dev.binaries import resolve
from clusterstacks.model.kinds.names import RELEASE_FINALIZER
from clusterstacks.net.kube.client import Client
from clusterstacks.net.kube.kubeconfig import load_kubeconfig
from clusterstacks.net.pool import Pool
from tests.support.builders.go_chart import IMAGE, NAMESPACE, write_go_chart
from tests.support.builders.manifests import crd, lost, named
from tests.support.running.doc_pages import CHECKOUT, VERSION, Page
from tests.support.running.kubectl import Kubectl
from tests.support.running.world import foreign_crds, install
from tests.support.servers.api_servers import started_api_server

if TYPE_CHECKING:
    from collections.abc import Iterator

    from clusterstacks.dev.apiserver import ApiServer
    from clusterstacks.dev.etcd import Etcd
    from clusterstacks.model.objects import Manifest

OURS = "clusterstack.x-k8s.io/v1alpha1"
KINDS = "clusterstacks,clusterstackreleases,clusteraddons"
GO_ONLY = ("validatingwebhookconfigurations", "extensionconfigs", "certificates")
CONDITION = {"type": "Ready", "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z", "severity": ""}


@pytest.fixture
def server(etcd: Etcd, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ApiServer]:
    """A management cluster without anything: the release owns cluster-wide objects."""
    yield from started_api_server("take-over", etcd, tmp_path_factory)


@pytest.fixture
async def administrator(server: ApiServer, tmp_path: Path) -> dict[str, str]:
    """The environment of an administrator of the Go operator, in a copy of the checkout."""
    programs = tmp_path / "bin"
    programs.mkdir()
    for name, found in resolve(["helm", "kubectl"]).items():
        (programs / name).symlink_to(found.path)
    shutil.copytree(CHECKOUT / "charts", tmp_path / "charts")
    extensions = crd("ExtensionConfig", "runtime.cluster.x-k8s.io", scope="Cluster", versions=("v1alpha1",))
    async with Pool() as pool:
        client = Client(load_kubeconfig([server.kubeconfig_path]), pool)
        await install(client, [*foreign_crds(), crd("Certificate", "cert-manager.io"), extensions])
    path = [str(programs), str(Path(sys.executable).parent), os.environ["PATH"]]
    return {"HOME": str(tmp_path), "KUBECONFIG": str(server.kubeconfig_path), "PATH": os.pathsep.join(path)}


def live_objects() -> list[Manifest]:
    """Give objects as the Go operator has them, in all their fields."""
    template = {"apiVersion": "infrastructure.clusterstack.x-k8s.io/v1alpha1", "kind": "TinyTemplate", "name": "one"}
    cluster = {"apiVersion": "cluster.x-k8s.io/v1beta1", "kind": "Cluster", "name": "one", "namespace": "team-a"}
    stack = {"provider": "tiny", "name": "one", "kubernetesVersion": "1.35", "channel": "stable", "versions": ["v1"]}
    release = named(OURS, "ClusterStackRelease", "tiny-one-1-35-v1", "team-a", spec={"providerRef": template})
    release["metadata"]["finalizers"] = [RELEASE_FINALIZER]
    resource = {"group": "", "kind": "ConfigMap", "name": "one", "namespace": "x", "version": "v1", "status": "synced"}
    addon = {"clusterRef": cluster, "clusterStack": "tiny-one-1-35-v1", "version": "v1", "hook": ""}
    summary = [{"name": "v1", "ready": True, "phase": "Ready", "message": ""}]
    statuses: list[Manifest] = [
        {"latestRelease": "v1", "usableVersions": "v1", "summary": summary},
        {"ready": True, "kubernetesVersion": "v1.35.4", "resources": [resource]},
        {"ready": True, "resources": [resource], "stages": [{"name": "cni", "action": "apply", "phase": "done"}]},
    ]
    found = [
        named(OURS, "ClusterStack", "one", "team-a", spec={**stack, "autoSubscribe": True, "providerRef": template}),
        release,
        named(OURS, "ClusterAddon", "cluster-addon-one", "team-a", spec=addon),
    ]
    return [
        {**one, "status": {**status, "conditions": [CONDITION]}} for one, status in zip(found, statuses, strict=True)
    ]


def served(kubectl: Kubectl) -> dict[str, Any]:
    """Give all objects of the three kinds as the API server serves them, with resource versions."""
    items = json.loads(kubectl("get", KINDS, "--all-namespaces", "-o=json"))["items"]
    return {f"{one['kind']} {one['metadata']['name']}": one for one in items}


def definitions(kubectl: Kubectl) -> dict[str, str]:
    items = json.loads(kubectl("get", "crds", "-o=json"))["items"]
    return {
        one["metadata"]["name"]: one["metadata"]["uid"] for one in items if "clusterstack.x" in one["spec"]["group"]
    }


def test_one_upgrade_takes_the_release_over_and_a_rollback_returns_it(
    tmp_path: Path, server: ApiServer, administrator: dict[str, str]
) -> None:
    kubectl, team = (Kubectl(server.kubeconfig_path, name) for name in (NAMESPACE, "team-a"))
    page = Page.read("how-to/replace-the-go-operator.md", {" --wait\n": "\n"})
    save, upgrade, rollback = (
        page.part([one for one in page.blocks if words in one.commands])
        for words in ("helm get values", "helm upgrade cso", "helm rollback cso")
    )

    def helm(*arguments: str) -> subprocess.CompletedProcess[str]:
        command = ["helm", *arguments, f"--namespace={NAMESPACE}"]
        return subprocess.run(command, env=administrator, cwd=tmp_path, capture_output=True, text=True, check=False)

    def deployment() -> dict[str, Any]:
        found: dict[str, Any] = json.loads(kubectl("get", "deployment", "cso-controller-manager", "-o=json"))
        return found

    chart = write_go_chart(tmp_path)
    values = "clusterStackVariables.ociRepository=registry.example.org/kaas/stacks"
    installed = helm("install", "cso", str(chart), "--create-namespace", "--set", values)
    assert installed.returncode == 0, installed.stderr
    kubectl("create", "namespace", "team-a")
    patch = ("patch", "--subresource=status", "--type=merge")
    for one in live_objects():
        created = team.create({key: value for key, value in one.items() if key != "status"})
        status = json.dumps({"status": one["status"]})
        team(*patch, created["kind"], created["metadata"]["name"], f"-p={status}")
    save.run(tmp_path, administrator)
    objects, crds, before = served(kubectl), definitions(kubectl), deployment()
    for one in live_objects():
        assert lost(objects[f"{one['kind']} {one['metadata']['name']}"], one) == [], "the Go operator's definitions"

    refused = helm(
        "upgrade", "cso", "charts/cluster-stack-operator", "--set=takeOver=true,image.repository=a,crds.install=false"
    )
    assert "takeOver needs crds.install" in refused.stderr
    assert (served(kubectl), definitions(kubectl), deployment()) == (objects, crds, before)

    for _ in range(2):
        upgrade.run(tmp_path, administrator)
        after = served(kubectl)
        assert after.keys() == objects.keys()
        assert lost(after, objects) == []
        assert definitions(kubectl).items() >= crds.items()
        assert "compatibilityrules.clusterstack.x-k8s.io" in definitions(kubectl)
        ours = deployment()
        assert ours["metadata"]["uid"] == before["metadata"]["uid"]
        (container,) = ours["spec"]["template"]["spec"]["containers"]
        assert container["image"] == f"registry.example.org/kaas/cluster-stack-operator:{VERSION}"
        assert "command" not in container
        assert {"--source=oci", f"--webhook-service={NAMESPACE}/cso-webhook-service"} <= {*container["args"]}
        secret = json.loads(kubectl("get", "secret", "cso-cluster-stack-variables", "-o=json"))
        assert secret["data"]["oci-repository"]
        assert not [one for one in GO_ONLY if kubectl("get", one, "--all-namespaces", "-o=name").strip()]

        rollback.run(tmp_path, administrator)
        assert served(kubectl) == objects
        assert definitions(kubectl).items() >= crds.items()
        assert deployment()["spec"] == before["spec"]
        assert all(kubectl("get", one, "--all-namespaces", "-o=name").strip() for one in GO_ONLY)
    assert deployment()["spec"]["template"]["spec"]["containers"][0]["image"] == IMAGE
