"""The ClusterStacks that own a ClusterStackRelease."""

from __future__ import annotations

from typing import TYPE_CHECKING

from clusterstacks.model.kinds.names import GROUP, Kind
from clusterstacks.model.objects import Manifest, ObjectKey

if TYPE_CHECKING:
    from clusterstacks.net.kube.client import Client
    from clusterstacks.runtime.cache import ObjectCache

STACK_INDEX = "cluster stack"
"""Index of ClusterStackReleases by ``namespace/name`` of the ClusterStack that owns them."""


def is_stack(owner: Manifest, name: str = "") -> bool:
    """Return whether an owner reference is to a ClusterStack, with the given name if any."""
    return (
        owner.get("kind") == Kind.CLUSTER_STACK
        and str(owner.get("apiVersion")).startswith(f"{GROUP}/")
        and name in ("", owner.get("name"))
    )


def stacks_owning(release: Manifest) -> list[str]:
    """Return the values of the index: the ClusterStacks among a release's owners."""
    metadata = release["metadata"]
    return [
        str(ObjectKey(metadata["namespace"], owner["name"]))
        for owner in metadata.get("ownerReferences") or []
        if is_stack(owner)
    ]


async def leading_stack(release: Manifest, stacks: ObjectCache, client: Client) -> Manifest | None:
    """Return the ClusterStack that decides about a release: the first of its owners that exists.

    It is read from the API server if the cache lacks it: a Cluster's class may be in a namespace that is not watched.
    """
    namespace = release["metadata"]["namespace"]
    for owner in release["metadata"].get("ownerReferences") or []:
        if not is_stack(owner):
            continue
        key = ObjectKey(namespace, owner["name"])
        stack = stacks.get(key)
        if stack is None:
            resource = await client.resource(GROUP, Kind.CLUSTER_STACK)
            stack = await client.find(resource, key.name, key.namespace)
        if stack is not None:
            return stack
    return None
