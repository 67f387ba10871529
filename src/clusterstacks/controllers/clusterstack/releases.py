"""The ClusterStackReleases of a ClusterStack."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from clusterstacks.api.names import API_VERSION, GROUP, WATCH_FILTER_LABEL, EventReason, Kind
from clusterstacks.controllers.clusterstackrelease.deletion import clusters_using
from clusterstacks.domain.errors import DependencyError
from clusterstacks.domain.objects import Manifest, ObjectKey
from clusterstacks.domain.patches import contains
from clusterstacks.domain.retention import Action, ExistingRelease, Retained
from clusterstacks.kube.errors import AlreadyExists, NotFound

if TYPE_CHECKING:
    from clusterstacks.api.clusterstack import ClusterStack
    from clusterstacks.api.meta import ObjectReference
    from clusterstacks.kube.client import Client
    from clusterstacks.runtime.events import EventRecorder
    from clusterstacks.runtime.store import Store

STACK_INDEX = "cluster stack"
"""Index of ClusterStackReleases by ``namespace/name`` of the ClusterStack that owns them."""


def stacks_owning(release: Manifest) -> list[str]:
    """Values of the index: the ClusterStacks among a release's owners."""
    metadata = release["metadata"]
    return [
        str(ObjectKey(metadata["namespace"], owner["name"]))
        for owner in metadata.get("ownerReferences") or []
        if owner.get("kind") == Kind.CLUSTER_STACK and str(owner.get("apiVersion")).startswith(f"{GROUP}/")
    ]


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnedReleases:
    """Reads them from the informer's store and writes them through the client."""

    client: Client
    store: Store
    events: EventRecorder

    def of(self, stack: ClusterStack) -> list[Manifest]:
        """All of a stack."""
        return self.store.by_index(STACK_INDEX, str(stack.key))

    def existing(self, stack: ClusterStack) -> list[ExistingRelease]:
        """What the decision needs to know of them."""
        return [
            ExistingRelease(
                name=release["metadata"]["name"],
                ready=(release.get("status") or {}).get("ready") is True,
                deleting="deletionTimestamp" in release["metadata"],
            )
            for release in self.of(stack)
        ]

    async def ensure(self, stack: Manifest, kept: Retained, provider: ObjectReference | None) -> None:
        """Create the release, or point it at its provider object when that changed (D30).

        ``provider`` is the reference to the provider object, None where the stack has no provider.
        """
        namespace = stack["metadata"]["namespace"]
        spec: Manifest = {"providerRef": provider.document()} if provider else {}
        existing = self.store.get(ObjectKey(namespace, kept.name))
        resource = await self.client.resource(GROUP, Kind.CLUSTER_STACK_RELEASE)
        if existing is None:
            try:
                await self.client.create(resource, _release(stack, kept.name, spec), namespace)
            except AlreadyExists:
                return  # the store has not seen it yet
            message = f"created ClusterStackRelease {namespace}/{kept.name}: {', '.join(kept.reasons)}"
            await self.events.record(stack, "Normal", EventReason.RELEASE_CREATED, message)
        elif not contains(existing.get("spec") or {}, spec):
            await self.client.merge_patch(resource, kept.name, {"spec": spec}, namespace)

    async def delete(self, stack: ClusterStack, spare: Retained) -> None:
        """Delete a release nobody needs; that no Cluster uses it is read live, the decision's stores may lag.

        Raises:
            DependencyError: A Cluster uses it after all.
        """
        namespace = stack.key.namespace
        existing = self.store.get(ObjectKey(namespace, spare.name))
        if existing is None or spare.release is None:
            return
        users = await clusters_using(self.client, spare.release, namespace)
        if users:
            raise DependencyError(Action.KEEP, f"Cluster {users[0]} has begun to use class {spare.release.class_name}")
        resource = await self.client.resource(GROUP, Kind.CLUSTER_STACK_RELEASE)
        try:
            await self.client.delete(resource, spare.name, namespace, uid=existing["metadata"]["uid"])
        except NotFound:
            return


def _release(stack: Manifest, name: str, spec: Manifest) -> Manifest:
    metadata = stack["metadata"]
    labels = {key: value for key, value in (metadata.get("labels") or {}).items() if key == WATCH_FILTER_LABEL}
    owner = {
        "apiVersion": API_VERSION,
        "kind": Kind.CLUSTER_STACK.value,
        "name": metadata["name"],
        "uid": metadata["uid"],
    }
    return {
        "apiVersion": API_VERSION,
        "kind": Kind.CLUSTER_STACK_RELEASE.value,
        "metadata": {
            "name": name,
            "namespace": metadata["namespace"],
            "ownerReferences": [owner],
            **({"labels": labels} if labels else {}),
        },
        "spec": spec,
    }
