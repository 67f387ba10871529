"""The operator as an AddonProvider of clusterctl: init, upgrade, move and delete on a real node."""

from __future__ import annotations

import base64
import os
import subprocess
from typing import TYPE_CHECKING

import pytest
import yaml

from clusterstacks.dev import binaries, installation
from clusterstacks.dev.binaries import cache_directory, silent
from clusterstacks.dev.demo.scenario import build_first, examples
from clusterstacks.dev.go_build import cluster_api_version
from tests.support.node import cluster_api_deployment
from tests.support.running.node_cluster import (
    CLASS_KINDS,
    FIRST,
    IMAGE_HOST,
    NAME,
    NAMESPACE,
    ROOT,
    SECOND,
    serve_cert_manager,
)

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from tests.support.running.node_cluster import NodeCluster

pytestmark = pytest.mark.timeout(1800)
PROVIDER = "cluster-stacks"
LABEL = f"cluster.x-k8s.io/provider=addon-{PROVIDER}"
BUILDS = {f"v{one}": one for one in (FIRST, SECOND)}
"""Version of the provider, and of the image in its components."""
PUBLISHED_IMAGE = "gcr.io/k8s-staging-cluster-api/cluster-api-controller:main"
"""Image in the manifests of the module; the node cannot pull it."""
WAIT = "--timeout=300s"
CLUSTER_WIDE = {"ClusterRole", "ClusterRoleBinding", "ValidatingWebhookConfiguration"}


class Clusterctl:
    """clusterctl with repositories in a directory."""

    def __init__(self, node: NodeCluster, root: Path) -> None:
        self._node = node
        core = cluster_api_version()
        providers = [
            _published(root, "CoreProvider", "cluster-api", {core: _core_components()}, _series(core)),
            _published(root, "AddonProvider", PROVIDER, {one: _components(two) for one, two in BUILDS.items()}),
        ]
        self._config = root / "clusterctl.yaml"
        registry = {"OCI_REGISTRY_B64": node.registry.host, "OCI_REPOSITORY_B64": "stacks"}
        variables = {name: base64.b64encode(value.encode()).decode() for name, value in registry.items()}
        variables |= {"CLUSTER_STACKS_IMAGE": f"{IMAGE_HOST}/{NAME}", **cluster_api_deployment.VARIABLES}
        self._config.write_text(yaml.safe_dump({"providers": providers, **variables}))

    def __call__(self, *arguments: str) -> str:
        """Run it, expect success and give what it printed."""
        done = subprocess.run(
            (self._node.programs["clusterctl"].path, *arguments, f"--config={self._config}"),
            env={
                **os.environ,
                "KUBECONFIG": str(self._node.state.kubeconfig),
                "XDG_CONFIG_HOME": str(self._config.parent),
                "CLUSTERCTL_DISABLE_VERSIONCHECK": "true",
                "GOPROXY": "off",
            },
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, f"{done.stdout}{done.stderr}\n{self._node.explain()}"
        return done.stdout + done.stderr


def _published(root: Path, kind: str, name: str, components: Mapping[str, str], metadata: str = "") -> dict[str, str]:
    """Write a repository and give its entry in the configuration."""
    role = kind.removesuffix("Provider").lower()
    folder = root / (name if role == "core" else f"{role}-{name}")
    for version, text in components.items():
        (folder / version).mkdir(parents=True)
        (folder / version / f"{role}-components.yaml").write_text(text)
        ours = (ROOT / "deploy" / "clusterctl" / "metadata.yaml").read_text()
        (folder / version / "metadata.yaml").write_text(metadata or ours)
    return {"name": name, "type": kind, "url": str(folder / max(components) / f"{role}-components.yaml")}


def _components(image: str) -> str:
    """The published components with another build, and flags for this registry and the local provider."""
    kinds = ",".join(f"{one['kind']}.{one['group']}" for one in CLASS_KINDS)
    flags = ("--log-level=info", "--source-plain-http", "--source-interval=2s", f"--class-kinds={kinds}")
    text = (ROOT / "deploy" / "clusterctl" / "addon-components.yaml").read_text()
    assert text.count("- --log-level=info\n") == 1
    text = text.replace("- --log-level=info\n", "".join(f"- {flag}\n        " for flag in flags).rstrip(" "))
    return text.replace(f"{{CLUSTER_STACKS_IMAGE}}:{FIRST}", f"{{CLUSTER_STACKS_IMAGE}}:{image}")


def _core_components() -> str:
    image = cluster_api_deployment.image(cluster_api_version())
    text = _core_manifests().replace("imagePullPolicy: Always", "imagePullPolicy: IfNotPresent")
    assert text.count(PUBLISHED_IMAGE) == 1
    return text.replace(PUBLISHED_IMAGE, image)


def _core_manifests() -> str:
    return cluster_api_deployment.components(binaries.resolve(["kubectl"])["kubectl"], cache_directory(), silent)


def _series(version: str) -> str:
    major, minor, _ = version.removeprefix("v").split(".", 2)
    series = [{"major": int(major), "minor": int(minor), "contract": "v1beta2"}]
    kind = {"apiVersion": "clusterctl.cluster.x-k8s.io/v1alpha3", "kind": "Metadata"}
    return yaml.safe_dump({**kind, "releaseSeries": series})


def inject_authority(node: NodeCluster) -> None:
    """Do what cert-manager would: add the authority to the webhooks of Cluster API."""
    authority = node.environment.authority
    _, webhooks = cluster_api_deployment.deployment(_core_manifests(), cluster_api_version(), authority)
    installation.install(node.state.kubeconfig, webhooks)


def test_clusterctl_installs_upgrades_moves_and_deletes_the_provider(node: NodeCluster, tmp_path: Path) -> None:
    clusterctl = Clusterctl(node, tmp_path)
    serve_cert_manager(node)
    older, newer = BUILDS
    core = f"--core=cluster-api:{cluster_api_version()}"

    clusterctl("init", core, "--bootstrap=-", "--control-plane=-", f"--addon={PROVIDER}:{older}", "--wait-providers")
    inject_authority(node)
    release = build_first(node.root / "releases")
    node.push_release(release)
    node.kubectl("apply", f"--filename={examples() / 'clusterstack.yaml'}")
    node.await_release(release)
    node.kubectl("apply", f"--filename={examples() / 'cluster.yaml'}")
    node.await_addons(release)

    assert {kind for kind, _ in _cluster_wide(node)} == CLUSTER_WIDE
    assert _cluster_wide(node, f"--selector={LABEL}") == _cluster_wide(node), "the label finds all, as the page says"
    assert newer in clusterctl("upgrade", "plan")
    clusterctl("upgrade", "apply", f"--addon={NAMESPACE}/{PROVIDER}:{newer}", "--wait-providers")
    images = {one["spec"]["containers"][0]["image"] for one in node.pods()}
    assert f"{IMAGE_HOST}/{NAME}:{SECOND}" in images

    node.kubectl("wait", "--for=condition=ClusterStackAddonsReady", WAIT, "cluster/first")
    backup = tmp_path / "backup"
    backup.mkdir()
    clusterctl("move", f"--to-directory={backup}", "--namespace=default")
    kinds = {path.name.partition("_")[0] for path in backup.iterdir()}
    assert {"Cluster", "ClusterClass", "ClusterStack", "ClusterStackRelease", "ClusterAddon"} <= kinds

    node.kubectl("delete", "cluster", "first", WAIT)
    node.kubectl("delete", "clusterstack", "demo", WAIT)
    ours = "clusterstackreleases,clusteraddons"
    node.until(lambda: not node.kubectl.get(ours, "--all-namespaces")["items"], f"the end of {ours}")
    clusterctl("delete", f"--addon={PROVIDER}")
    node.until(lambda: not node.pods(), "the end of the operator")
    node.until(lambda: not _cluster_wide(node), "the end of the rights and webhooks")
    node.kubectl("apply", f"--filename={examples() / 'clusterstack.yaml'}")
    node.kubectl("delete", "clusterstack", "demo", WAIT)
    node.kubectl("delete", "crd", f"--selector={LABEL}", WAIT)
    node.kubectl("delete", "namespace", NAMESPACE, WAIT)


def _cluster_wide(node: NodeCluster, *selector: str) -> set[tuple[str, str]]:
    """Kind and name of the rights and webhooks of the provider, with its label or not."""
    kinds = "clusterroles,clusterrolebindings,validatingwebhookconfigurations"
    found = {(one["kind"], one["metadata"]["name"]) for one in node.kubectl.get(kinds, *selector)["items"]}
    return {one for one in found if NAME in one[1]}
