"""The Kubernetes versions that the nodes of a cluster have, as far as its management cluster tells.

- The control plane reports them in ``status.controlPlane.versions`` of the Cluster, before Cluster API 1.14 in the
  status of its own object.
- The workers do in ``status.workers.versions``; before 1.14 the kubelet of each Machine that is none of the control
  plane tells, without a node the Machine's spec. Of MachinePools the version in their spec counts.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from clusterstacks.api.clusterapi import reported_versions
from clusterstacks.api.names import CLUSTER_API_GROUP, CLUSTER_NAME_LABEL
from clusterstacks.api.untyped import mappings, text
from clusterstacks.clusters.permissions import listed, or_else
from clusterstacks.domain.versions import InvalidVersion, KubernetesVersion

if TYPE_CHECKING:
    from collections.abc import Iterable

    from clusterstacks.api.clusterapi import ClusterView
    from clusterstacks.kube.client import Client

CONTROL_PLANE_LABEL: Final = "cluster.x-k8s.io/control-plane"
"""On the Machines of a control plane. Source: CLUSTER-API section 1."""


async def control_plane_versions(client: Client, view: ClusterView, notices: list[str]) -> list[KubernetesVersion]:
    """Return every version the control plane has; none where it reports none.

    Raises:
        ClusterStacksError: The API server does not answer.
    """
    reported = view.control_plane_versions
    if not reported and view.control_plane_ref is not None:
        consequence = "the control plane is taken to have the version that is asked for"
        reported = await or_else(_asked_of_control_plane(client, view), (), consequence, notices)
    return _parsed(reported)


async def _asked_of_control_plane(client: Client, view: ClusterView) -> tuple[str, ...]:
    reference = view.control_plane_ref
    if reference is None:
        return ()
    resource = await client.resource(reference.group, reference.kind, reference.version)
    return reported_versions(await client.find(resource, reference.name, reference.namespace) or {})


def reported_workers(view: ClusterView) -> list[KubernetesVersion]:
    """Return the versions of the workers that the Cluster itself reports; none before Cluster API 1.14."""
    return _parsed(text(one, "version") for one in mappings(view.raw, "status", "workers", "versions"))


async def worker_versions(client: Client, view: ClusterView, notices: list[str]) -> list[KubernetesVersion]:
    """Return every version the workers have; none where there are none.

    Raises:
        ClusterStacksError: The API server does not answer.
    """
    if told := reported_workers(view):
        return told
    labels = f"{CLUSTER_NAME_LABEL}={view.name}"
    consequence = "the workers are taken to have the version that is asked for"
    machines = await or_else(
        listed(client, CLUSTER_API_GROUP, "Machine", view.namespace, labels=f"{labels},!{CONTROL_PLANE_LABEL}"),
        [],
        consequence,
        notices,
    )
    pools = await or_else(
        listed(client, CLUSTER_API_GROUP, "MachinePool", view.namespace, labels=labels), [], consequence, notices
    )
    return _parsed(
        [
            *(text(one, "status", "nodeInfo", "kubeletVersion") or text(one, "spec", "version") for one in machines),
            *(text(one, "spec", "template", "spec", "version") for one in pools),
        ]
    )


def _parsed(versions: Iterable[str]) -> list[KubernetesVersion]:
    """Read versions; one that is none, as of a Machine without a node, says nothing."""
    found = []
    for one in versions:
        try:
            found.append(KubernetesVersion.parse(one))
        except InvalidVersion:
            continue
    return found
