"""The operator as pods whose releases are in a directory of the node, with the rights on Secrets of all namespaces."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from clusterstacks.dev.demo.scenario import build_first, examples
from tests.support.running.node_cluster import FIRST, NAMESPACE

if TYPE_CHECKING:
    from pathlib import Path

    from tests.support.running.node_cluster import NodeCluster

pytestmark = pytest.mark.timeout(1800)
WAIT = "--timeout=300s"


def test_pods_deliver_the_releases_of_a_mounted_directory(node: NodeCluster, tmp_path: Path) -> None:
    releases = tmp_path / "releases"
    releases.mkdir(mode=0o755)  # the user of the pods reads it
    node.install(
        FIRST,
        "--create-namespace",
        "--take-ownership",  # the environment has installed the CRDs
        source={"type": "directory"},
        secrets={"allNamespaces": True},
        extraVolumes=[{"name": "releases", "hostPath": {"path": str(releases), "type": "Directory"}}],
        extraVolumeMounts=[{"name": "releases", "mountPath": "/releases", "readOnly": True}],
    )
    release = build_first(releases)
    node.kubectl("apply", f"--filename={examples() / 'clusterstack.yaml'}")
    node.await_release(release)
    node.kubectl("apply", f"--filename={examples() / 'cluster.yaml'}")

    node.await_addons(release)

    node.kubectl("wait", "--for=condition=ClusterStackAddonsReady", WAIT, "cluster/first")
    node.kubectl("delete", "cluster", "first", WAIT)
    node.kubectl("delete", "clusterstack", "demo", WAIT)
    node.kubectl("wait", "--for=delete", "clusterclass", "--all", WAIT)
    node.helm("uninstall", "cluster-stack-operator", f"--namespace={NAMESPACE}", "--wait")
    node.kubectl("delete", "namespace", NAMESPACE, WAIT)
