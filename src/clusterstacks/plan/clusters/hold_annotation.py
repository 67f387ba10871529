"""The annotation of a Cluster with which Cluster API waits before it upgrades the Kubernetes version."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from clusterstacks.model.documents import mapping
from clusterstacks.model.kinds.names import CLUSTER_API_GROUP, CLUSTER_KIND, UPGRADE_HOLD_ANNOTATION, WATCH_FILTER_LABEL
from clusterstacks.net.kube.errors import Invalid, KindNotServed, NotFound
from clusterstacks.runtime.cache import key_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from clusterstacks.model.objects import Manifest
    from clusterstacks.net.kube.client import Client

HOLD_VALUE: Final = "cluster-stack-operator removes this once the stages of BeforeClusterUpgrade are complete"
"""Value of the annotation, for readers; Cluster API ignores it."""

_PATH: Final = f"/metadata/annotations/{UPGRADE_HOLD_ANNOTATION.replace('/', '~1')}"


def is_held(cluster: Manifest) -> bool:
    """Return whether a Cluster has the annotation."""
    return UPGRADE_HOLD_ANNOTATION in mapping(cluster, "metadata", "annotations")


async def set_hold(client: Client, cluster: Manifest) -> Manifest:
    """Set the annotation, and return the Cluster; raises Conflict if another Cluster has the name now."""
    return await _annotate(client, cluster, HOLD_VALUE)


async def release_hold(client: Client, cluster: Manifest) -> Manifest | None:
    """Remove the annotation, and return the Cluster; None if its spec changed since, or the annotation is gone."""
    resource = await client.resource(CLUSTER_API_GROUP, CLUSTER_KIND)
    metadata = cluster["metadata"]
    tested = [field for field in ("uid", "generation") if field in metadata]
    operations = [{"op": "test", "path": f"/metadata/{field}", "value": metadata[field]} for field in tested]
    operations.append({"op": "remove", "path": _PATH})
    name, namespace = metadata["name"], metadata["namespace"]
    try:
        return await client.json_patch(resource, name, operations, namespace)
    except Invalid:  # also where a test failed
        current = await client.find(resource, name, namespace)
        if (
            current is None
            or not is_held(current)
            or any(current["metadata"][field] != metadata[field] for field in tested)
        ):
            return None
        raise


async def drop_hold(client: Client, cluster: Manifest) -> bool:
    """Remove the annotation whatever the Cluster's state is; return False if the Cluster is gone."""
    try:
        await _annotate(client, cluster, None)
    except NotFound:
        return False
    return True


async def held_clusters(client: Client, namespace: str = "", watch_filter: str = "") -> list[Manifest]:
    """List the metadata of the Clusters that have the annotation; none without Cluster API.

    ``watch_filter`` is a value of the watch filter label; empty for all Clusters.
    """
    labels = f"{WATCH_FILTER_LABEL}={watch_filter}" if watch_filter else ""
    try:
        resource = await client.resource(CLUSTER_API_GROUP, CLUSTER_KIND)
        listed = await client.list_metadata(resource, namespace, labels=labels)
    except (KindNotServed, NotFound):
        return []
    return [cluster for cluster in listed.items if is_held(cluster)]


async def drop_holds(client: Client, clusters: Iterable[Manifest], report: Callable[[str], None]) -> None:
    """Let Cluster API upgrade Clusters that an operator, which does not run any more, held; report each.

    Raises:
        DependencyError: A Cluster cannot be written.
    """
    for cluster in clusters:
        if await drop_hold(client, cluster):
            report(f"released the upgrades of Cluster {key_of(cluster)}")


async def _annotate(client: Client, cluster: Manifest, value: str | None) -> Manifest:
    resource = await client.resource(CLUSTER_API_GROUP, CLUSTER_KIND)
    metadata = cluster["metadata"]
    patch = {"metadata": {"uid": metadata["uid"], "annotations": {UPGRADE_HOLD_ANNOTATION: value}}}
    return await client.merge_patch(resource, metadata["name"], patch, metadata["namespace"])
