"""The commands of the pages with the real clusterctl, against API servers with Cluster API's definitions."""

from __future__ import annotations

import json
import os
import shutil
import sys
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from clusterstacks.dev.binaries import resolve
from clusterstacks.dev.capi_managers import CORE, definitions, manifests
from clusterstacks.dev.go_build import cluster_api_version
from clusterstacks.model.kinds.clusteraddon import addon_name
from tests.support.builders.manifests import crd, named
from tests.support.running.doc_pages import CHECKOUT, VERSION, Block, Page
from tests.support.running.kubectl import Kubectl
from tests.support.servers.api_servers import started_api_server
from tests.support.servers.garbage_collector import garbage_collector

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from clusterstacks.dev.apiserver import ApiServer
    from clusterstacks.dev.etcd import Etcd
    from clusterstacks.model.objects import Manifest

HOME, TEAM = "cluster-stack-system", "team-a"
OURS = "clusterstack.x-k8s.io/v1alpha1"
TOY = "infrastructure.clusterstack.x-k8s.io/v1alpha1"
MOVED = (
    "clusterstacks,clusterstackreleases,clusteraddons,clusters,clusterclasses"
    ",toyclusterstackreleases,toyclusterstackreleasetemplates"
)
pytestmark = pytest.mark.timeout(900)
CERT_MANAGER = "v1.21.2"
OWNERS = {
    "ClusterStackRelease": (OURS, "ClusterStack", "one"),
    "ToyClusterStackRelease": (OURS, "ClusterStackRelease", "tiny-one-1-35-v1"),
    "ClusterAddon": ("cluster.x-k8s.io/v1beta2", "Cluster", "one"),
}
"""Owner references that the operator sets, which clusterctl follows."""


@pytest.fixture
def servers(etcd: Etcd, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[ApiServer, ApiServer]]:
    """Two management clusters without anything; clusterctl deletes a namespace, and creates it again."""
    with ExitStack() as stack:
        found = []
        for name in ("from", "to"):
            starting = started_api_server(f"clusterctl-{name}", etcd, tmp_path_factory)
            found.append(next(starting))
            stack.callback(next, starting, None)
            stack.enter_context(garbage_collector(found[-1], tmp_path_factory.mktemp(name), "namespace-controller"))
        yield found[0], found[1]


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A copy of what the page uses, and the programs of an administrator."""
    shutil.copytree(CHECKOUT / "deploy" / "clusterctl", tmp_path / "deploy" / "clusterctl")
    (tmp_path / "bin").mkdir()
    for name, found in resolve(["clusterctl", "kubectl"]).items():
        (tmp_path / "bin" / name).symlink_to(found.path)
    return tmp_path


def environ(checkout: Path, server: ApiServer) -> dict[str, str]:
    path = [str(checkout / "bin"), str(Path(sys.executable).parent), os.environ["PATH"]]
    offline = {"CLUSTERCTL_DISABLE_VERSIONCHECK": "true", "GOPROXY": "off"}
    return {
        **offline,
        "HOME": str(checkout),
        "XDG_CONFIG_HOME": str(checkout),
        "KUBECONFIG": str(server.kubeconfig_path),
        "PATH": os.pathsep.join(path),
    }


def components(namespace: str, definitions: list[Manifest]) -> str:
    """Give components without a manager: a namespace and definitions."""
    return yaml.safe_dump_all([named("v1", "Namespace", namespace), *definitions])


def others(directory: Path) -> str:
    """Write Cluster API's core provider and cert-manager without programs; give their part of clusterctl's settings."""
    version = cluster_api_version()
    core = directory / "others" / "cluster-api" / version
    core.mkdir(parents=True)
    kinds = [
        {**one, "spec": {key: value for key, value in one["spec"].items() if key != "conversion"}}
        for one in definitions(manifests(CORE), "https://127.0.0.1", b"")
    ]
    (core / "core-components.yaml").write_text(components("capi-system", kinds))
    major, minor, _ = version.removeprefix("v").split(".")
    series = [{"major": int(major), "minor": int(minor), "contract": "v1beta2"}]
    metadata = {"apiVersion": "clusterctl.cluster.x-k8s.io/v1alpha3", "kind": "Metadata", "releaseSeries": series}
    (core / "metadata.yaml").write_text(yaml.safe_dump(metadata))
    certificates = directory / "others" / "cert-manager" / CERT_MANAGER
    certificates.mkdir(parents=True)
    kinds = [crd(kind, "cert-manager.io") for kind in ("Certificate", "CertificateRequest")]
    kinds += [crd("Issuer", "cert-manager.io"), crd("ClusterIssuer", "cert-manager.io", scope="Cluster")]
    (certificates / "cert-manager.yaml").write_text(components("cert-manager", kinds))
    url = certificates / "cert-manager.yaml"
    return (
        f"  - {{name: cluster-api, type: CoreProvider, url: '{core}/core-components.yaml'}}\n"
        f"cert-manager: {{url: '{url}', version: {CERT_MANAGER}, timeout: 2m}}\n"
    )


def live_objects() -> list[Manifest]:
    """Give a stack, its release and class, the objects of its provider, a Cluster of it and its addons."""
    template = {"apiVersion": "infrastructure.cluster.x-k8s.io/v1beta2", "kind": "TinyTemplate", "name": "one"}
    owned = {"infrastructure": {"templateRef": template}, "controlPlane": {"templateRef": template}}
    reference = {"apiVersion": TOY, "kind": "ToyClusterStackReleaseTemplate", "name": "toy"}
    spec = {
        "provider": "tiny",
        "name": "one",
        "kubernetesVersion": "1.35",
        "providerRef": reference,
        "versions": ["v1"],
    }
    image = {"url": "https://images.example.org/node.qcow2", "sha256": "0" * 64}
    topology = {"classRef": {"name": "tiny-one-1-35-v1"}, "version": "v1.35.4"}
    reference = {"apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "Cluster", "name": "one", "namespace": TEAM}
    return [
        named(OURS, "ClusterStack", "one", TEAM, spec=spec),
        named(OURS, "ClusterStackRelease", "tiny-one-1-35-v1", TEAM, spec={}),
        named(TOY, "ToyClusterStackReleaseTemplate", "toy", TEAM, spec={"template": {"spec": image}}),
        named(TOY, "ToyClusterStackRelease", "tiny-one-1-35-v1", TEAM, spec=image),
        named("cluster.x-k8s.io/v1beta2", "ClusterClass", "tiny-one-1-35-v1", TEAM, spec=owned),
        named("cluster.x-k8s.io/v1beta2", "Cluster", "one", TEAM, spec={"topology": topology}),
        named(OURS, "ClusterAddon", addon_name("one"), TEAM, spec={"clusterRef": reference}),
    ]


def names(kubectl: Kubectl) -> set[str]:
    items = json.loads(kubectl("get", MOVED, "-o=json"))["items"]
    return {f"{one['kind']} {one['metadata']['name']}" for one in items}


def objects_in(text: str) -> Iterator[Mapping[str, Any]]:
    return (one for one in yaml.safe_load_all(text) if one)


def test_clusterctl_installs_the_provider_and_moves_its_objects(
    checkout: Path, servers: tuple[ApiServer, ApiServer]
) -> None:
    install = Page.read("how-to/install.md")
    repository, init = (
        install.part([one for one in install.blocks if word in one.commands])
        for word in ("addon-cluster-stacks", "clusterctl init")
    )
    moving = Page.read("how-to/back-up-and-move.md")
    save, restore = (
        moving.part([one for one in moving.blocks if word in one.commands])
        for word in ("--to-directory", "--from-directory")
    )
    repository.run(checkout, environ(checkout, servers[0]))
    config = checkout / "clusterctl.yaml"
    config.write_text(config.read_text() + others(checkout))
    core = f"clusterctl init --core cluster-api:{cluster_api_version()} --bootstrap - --control-plane -"
    core += " --config clusterctl.yaml\n"
    # clusterctl creates and deletes this namespace, and would take one that is being deleted for its own.
    core += "kubectl wait --for=delete namespace/cert-manager-test --timeout=300s\n"
    for server in servers:
        Page((Block(core), *init.blocks), {}).run(checkout, environ(checkout, server), seconds=800)
        kubectl = Kubectl(server.kubeconfig_path, HOME)
        kubectl("apply", "--server-side", f"--filename={CHECKOUT / 'examples/provider/crds.yaml'}")
        deployment = json.loads(kubectl("get", "deployment", "cluster-stack-operator", "-o=json"))
        (container,) = deployment["spec"]["template"]["spec"]["containers"]
        assert container["image"] == f"registry.example.org/kaas/cluster-stack-operator:{VERSION}"
        assert "--webhook-service=$(POD_NAMESPACE)/cluster-stack-operator-webhook" in container["args"]
        provider = json.loads(kubectl("get", "providers.clusterctl.cluster.x-k8s.io", "-o=json"))["items"]
        assert [(one["providerName"], one["version"]) for one in provider] == [("cluster-stacks", f"v{VERSION}")]
    generated = {
        (one["kind"], one["metadata"]["name"]): one for one in objects_in((checkout / "components.yaml").read_text())
    }
    secret = generated["Secret", "cluster-stack-operator-source"]["data"]
    assert secret["OCI_REPOSITORY"] == "a2Fhcy9zdGFja3M="
    assert not secret["OCI_PASSWORD"]

    first, second = (Kubectl(one.kubeconfig_path, TEAM) for one in servers)
    first("create", "namespace", TEAM)
    uids: dict[str, str] = {}
    for one in live_objects():
        if (owner := OWNERS.get(one["kind"])) is not None:
            version, kind, name = owner
            reference = {"apiVersion": version, "kind": kind, "name": name, "uid": uids[kind]}
            one["metadata"]["ownerReferences"] = [reference]
        created = first.create(one)
        uids[one["kind"]] = created["metadata"]["uid"]
        if one["kind"] == "Cluster":
            initialized = {"infrastructureProvisioned": True, "controlPlaneInitialized": True}
            condition = {"type": "ControlPlaneInitialized", "status": "True", "reason": "Initialized", "message": ""}
            condition["lastTransitionTime"] = "2026-01-01T00:00:00Z"
            status = json.dumps({"status": {"initialization": initialized, "conditions": [condition]}})
            first(
                "patch", "cluster", created["metadata"]["name"], "--subresource=status", "--type=merge", f"-p={status}"
            )
    expected = {f"{one['kind']} {one['metadata']['name']}" for one in live_objects()}
    save.run(checkout, environ(checkout, servers[0]), seconds=800)
    assert names(first) == expected
    restore.run(checkout, environ(checkout, servers[1]), seconds=800)
    assert names(second) == expected

    uninstall = Page.read("how-to/uninstall.md")
    uninstall.part([one for one in uninstall.blocks if "clusterctl delete" in one.commands]).run(
        checkout, environ(checkout, servers[1]), seconds=800
    )
    kinds = "clusterroles,clusterrolebindings,validatingwebhookconfigurations"
    assert "cluster-stack-operator" not in second("get", kinds, "--output=name")
    assert names(second) == expected
