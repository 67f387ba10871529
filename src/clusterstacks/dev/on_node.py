"""Installs the operator on the node of a local environment, with its image and releases from this machine."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import TYPE_CHECKING, Final

from clusterstacks.csctl.install.apply_installation import apply_installation, until_ready
from clusterstacks.csctl.install.operator_chart import NAMESPACE, image_values, installation_objects
from clusterstacks.dev.node.program_images import OPERATOR
from clusterstacks.dev.provider.kinds import GROUP, TEMPLATES
from clusterstacks.net.kube.client import Client
from clusterstacks.net.kube.kubeconfig import load_kubeconfig
from clusterstacks.net.pool import Pool

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from clusterstacks.model.objects import Manifest

TIMEOUT: Final = timedelta(seconds=300)
"""Timeout of the pods, which are ready after 10 s on a quiet machine; arbitrary."""
POD_SECURITY: Final = "pod-security.kubernetes.io/enforce"


def install_on_node(kubeconfig: Path, releases: Path, report: Callable[[str], None]) -> None:
    """Install the operator and return when its pods are ready.

    Args:
        kubeconfig: Kubeconfig of the environment.
        releases: Directory of its releases; every user can read it.
        report: Called with a line for each long step.

    Raises:
        ClusterStacksError: It cannot be installed, or is not ready in time.
    """
    asyncio.run(_install(kubeconfig, _values(releases), report))
    report(f"the operator runs as pods in namespace {NAMESPACE}")


async def _install(kubeconfig: Path, values: Manifest, report: Callable[[str], None]) -> None:
    objects = await installation_objects(values)
    for one in objects:
        if one["kind"] == "Namespace":  # the standard "restricted" forbids directories of the node
            one["metadata"]["labels"][POD_SECURITY] = "privileged"
    async with Pool() as pool:
        client = Client(load_kubeconfig([kubeconfig]), pool, user_agent="csctl")
        try:
            await apply_installation(client, objects, NAMESPACE)
            await until_ready(client, objects, TIMEOUT, report)
        finally:
            await client.close()


def _values(releases: Path) -> Manifest:
    kinds = TEMPLATES
    return {
        "image": {**image_values(OPERATOR), "pullPolicy": "Never"},
        "source": {"type": "directory"},
        "secrets": {"allNamespaces": True},
        "rbac": {"classKinds": [{"kind": kind, "group": GROUP, "resource": f"{kind.lower()}s"} for kind in kinds]},
        "extraVolumes": [{"name": "releases", "hostPath": {"path": str(releases), "type": "Directory"}}],
        "extraVolumeMounts": [{"name": "releases", "mountPath": "/releases", "readOnly": True}],
    }
