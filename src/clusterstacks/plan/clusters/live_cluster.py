"""Reads one live Cluster for the planner: what it asks for, and the versions its nodes report.

A plan begins at the class and Kubernetes version that the topology asks for, because patches change these. The plan
waits for what is older.

The versions of nodes come from the management cluster:

- The control plane reports them in ``status.controlPlane.versions`` of the Cluster, before Cluster API 1.14 in the
  status of its own object.
- The workers report them in ``status.workers.versions``. Before 1.14 the kubelet version of each Machine outside the
  control plane counts, or the version in its spec while it has no node. For MachinePools the version in
  their spec counts.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from clusterstacks.model.documents import mappings, text
from clusterstacks.model.errors import DependencyError, SpecError
from clusterstacks.model.kinds.clusteraddon import addon_name
from clusterstacks.model.kinds.clusterapi import cluster_view, is_paused, reported_versions, topology_variables
from clusterstacks.model.kinds.names import CLUSTER_API_GROUP, CLUSTER_KIND, CLUSTER_NAME_LABEL, GROUP, Kind
from clusterstacks.model.names import InvalidName, ReleaseName, parse_class, release_named
from clusterstacks.model.versions import InvalidVersion, KubernetesVersion
from clusterstacks.net.kube.errors import Forbidden
from clusterstacks.plan.clusters.hold_annotation import is_held
from clusterstacks.plan.clusters.permissions import listed, or_else

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from clusterstacks.model.kinds.clusterapi import ClusterView, ObjectRef
    from clusterstacks.model.objects import Manifest, ObjectKey
    from clusterstacks.net.kube.client import Client


class ClusterUnplannable(SpecError):
    """A Cluster that cannot be planned for."""

    def __init__(self, cluster: ObjectKey, problem: str) -> None:
        super().__init__("ClusterUnplannable", f"Cluster {cluster} {problem}")


@dataclass(frozen=True, slots=True)
class Delivered:
    """The delivered release of an addon (None where the status does not name it) and the version of its software.

    The version is empty where the release does not state it.
    """

    release: ReleaseName | None
    version: str


@dataclass(frozen=True, slots=True, kw_only=True)
class LiveCluster:
    """A Cluster of a cluster stack, as the management cluster reports it."""

    view: ClusterView
    release: ReleaseName
    kubernetes: KubernetesVersion
    """The version its topology asks for."""
    oldest: KubernetesVersion
    """The oldest version of its nodes; never above ``kubernetes``."""
    delivered: Mapping[str, Delivered]
    addon: Manifest
    """Its ClusterAddon; empty where it cannot be read."""
    control_plane: Manifest
    """Its control plane object; empty where it cannot be read or the Cluster reports all that counts."""

    @property
    def variables(self) -> dict[str, object]:
        """The variables of its topology, by name."""
        return topology_variables(self.view.raw)


async def read_cluster(client: Client, key: ObjectKey, notices: list[str]) -> LiveCluster:
    """Read a Cluster, its ClusterAddon and its Machines with the rights of the user.

    ``notices`` gets everything that could not be read, and every cause of a delay of the cluster.

    Raises:
        ClusterUnplannable: It does not exist, is being deleted, or has no class of a cluster stack.
        DependencyError: The API server does not answer, or does not let this user read the Cluster.
    """
    view = cluster_view(await find_cluster(client, key))
    check_plannable(view)
    control_plane = await _control_plane(client, view, _wanted(view), notices)
    workers = await worker_versions(client, view, notices)
    addon = await or_else(_addon(client, key), {}, "the addons are assumed to be those that are asked for", notices)
    return live_cluster(view, addon, control_plane, workers, notices)


def live_cluster(
    view: ClusterView,
    addon: Manifest,
    control_plane: Manifest,
    workers: Iterable[KubernetesVersion],
    notices: list[str],
) -> LiveCluster:
    """Return a Cluster from its parts, which are empty where they cannot be read; ``notices`` as of read_cluster.

    Raises:
        ClusterUnplannable: It is being deleted, or has no class of a cluster stack.
    """
    key, release, kubernetes = view.key, check_plannable(view), _wanted(view)
    versions = _parsed(view.control_plane_versions or reported_versions(control_plane))
    # Build metadata of a distribution (``+k3s1``) is not part of an upgrade.
    kubernetes = max([kubernetes, *(replace(version, build=kubernetes.build) for version in versions)])
    lagging = [version for version in versions if not version.reaches(kubernetes)]
    if lagging:
        notices.append(
            f"the control plane of Cluster {key} has {min(lagging)} and is to be upgraded: a plan begins with "
            f"{kubernetes}"
        )
    lagging += [version for version in workers if not version.reaches(kubernetes)]
    for kind, manifest in ((CLUSTER_KIND, view.raw), (Kind.CLUSTER_ADDON.value, addon)):
        if is_paused(manifest):
            notices.append(f"{kind} {key} is paused: nothing changes before it is resumed")
    return LiveCluster(
        view=view,
        release=release,
        kubernetes=kubernetes,
        oldest=min(lagging, default=kubernetes),
        delivered=_delivered(addon),
        addon=addon,
        control_plane=control_plane,
    )


async def find_cluster(client: Client, key: ObjectKey) -> Manifest:
    """Return a Cluster; ClusterUnplannable if it does not exist."""
    resource = await client.resource(CLUSTER_API_GROUP, CLUSTER_KIND)
    try:
        cluster = await client.find(resource, key.name, key.namespace)
    except Forbidden as error:
        raise DependencyError(
            error.code,
            f"{error.missing or error.message}; ask for the right to get clusters in namespace {key.namespace}",
        ) from None
    if cluster is None:
        raise ClusterUnplannable(key, f"does not exist: 'csctl status -n {key.namespace}' lists the Clusters")
    return cluster


def _wanted(view: ClusterView) -> KubernetesVersion:
    try:
        return KubernetesVersion.parse(view.version)
    except InvalidVersion as error:
        raise ClusterUnplannable(view.key, f"has an invalid spec.topology.version: {error.message}") from None


def check_plannable(view: ClusterView) -> ReleaseName:
    """Return the release of the class of a Cluster; ClusterUnplannable as of :func:`live_cluster`."""
    if view.deleting:
        raise ClusterUnplannable(view.key, "is being deleted")
    if not view.class_name:
        raise ClusterUnplannable(
            view.key, "has no spec.topology: it was created without a class, which cannot be changed"
        )
    try:
        return parse_class(view.class_name)
    except InvalidName:
        raise ClusterUnplannable(
            view.key,
            f"has class {view.class_name}, which is not from a cluster stack "
            "(expected for example openstack-scs-1-35-v2)",
        ) from None


async def _addon(client: Client, key: ObjectKey) -> Manifest:
    resource = await client.resource(GROUP, Kind.CLUSTER_ADDON)
    return await client.find(resource, addon_name(key.name), key.namespace) or {}


def _delivered(addon: Manifest) -> dict[str, Delivered]:
    """Read ``status.addons``; after a move of the management cluster ``spec.addons``, which has no versions."""
    entries = mappings(addon, "status", "addons") or mappings(addon, "spec", "addons")
    return {
        text(entry, "name"): Delivered(release_named(text(entry, "release")), text(entry, "version"))
        for entry in entries
    }


CONTROL_PLANE_LABEL: Final = "cluster.x-k8s.io/control-plane"
"""Label of the Machines of a control plane. Source: sigs.k8s.io/cluster-api, MachineControlPlaneLabel."""


async def _control_plane(client: Client, view: ClusterView, wanted: KubernetesVersion, notices: list[str]) -> Manifest:
    """Read the control plane object, unless the Cluster reports all that counts.

    Before Cluster API 1.14 only the object has the versions. While the Cluster is held and reports an older version,
    the object says whether the upgrade has begun.
    """
    reference, reported = view.control_plane_ref, _parsed(view.control_plane_versions)
    may_wait = is_held(view.raw) and not all(version.reaches(wanted) for version in reported)
    if reference is None or (reported and not may_wait):
        return {}
    consequence = (
        "the upgrade is assumed to begin when the Cluster reports it"
        if reported
        else "the control plane is assumed to have the version that is asked for"
    )
    return await or_else(_referenced(client, reference), {}, consequence, notices)


async def _referenced(client: Client, reference: ObjectRef) -> Manifest:
    resource = await client.resource(reference.group, reference.kind, reference.version)
    return await client.find(resource, reference.name, reference.namespace) or {}


def reported_workers(view: ClusterView) -> list[KubernetesVersion]:
    """Return the versions of the workers in the status of the Cluster; empty before Cluster API 1.14."""
    return _parsed(view.worker_versions)


async def worker_versions(client: Client, view: ClusterView, notices: list[str]) -> list[KubernetesVersion]:
    """Return every version that the workers have."""
    if reported := reported_workers(view):
        return reported
    labels = f"{CLUSTER_NAME_LABEL}={view.name}"
    consequence = "the workers are assumed to have the version that is asked for"
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
            *(
                text(machine, "status", "nodeInfo", "kubeletVersion") or text(machine, "spec", "version")
                for machine in machines
            ),
            *(text(pool, "spec", "template", "spec", "version") for pool in pools),
        ]
    )


def _parsed(versions: Iterable[str]) -> list[KubernetesVersion]:
    """Parse versions; invalid ones, as of a Machine without a node, are left out."""
    parsed = []
    for version in versions:
        try:
            parsed.append(KubernetesVersion.parse(version))
        except InvalidVersion:
            continue
    return parsed
