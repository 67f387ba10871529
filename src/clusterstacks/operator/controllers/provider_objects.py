"""Reads and watches provider objects, whose kinds are known only from references to them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from clusterstacks.model.errors import SpecError
from clusterstacks.model.kinds.names import API_VERSION, Kind
from clusterstacks.model.kinds.provider_refs import CODE, ProviderReference, release_refusal
from clusterstacks.model.objects import Manifest, ObjectKey, split_api_version

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from clusterstacks.model.kinds.meta import ObjectReference
    from clusterstacks.model.kinds.provider_refs import KindPattern
    from clusterstacks.net.kube.client import Client
    from clusterstacks.net.kube.resources import Resource
    from clusterstacks.runtime.informer import CacheChange, Informer


@dataclass(slots=True)
class ProviderObjects:
    """Reads provider objects, and watches a kind after its first read.

    Only objects of allowed kinds in the namespace of the ClusterStackRelease are read, watched or written: a user sets
    the reference, but the operator's permissions are used. The garbage collector deletes an object whose owner is
    in another namespace, or whose owner has a namespace while the object has none.
    """

    client: Client
    kinds: Collection[KindPattern]
    """Allowed kinds, from ``--provider-kinds``."""
    watch_kind: Callable[[str, str], Informer]
    """Builds and starts the informer of a group and kind; called once per kind."""
    enqueue: Callable[[ObjectKey], None]
    """Enqueues the ClusterStackRelease whose provider object changed."""
    _watched: set[tuple[str, str]] = field(default_factory=set)

    def check(self, reference: ObjectReference, namespace: str) -> None:
        """Raise a SpecError if a ClusterStackRelease of the namespace may not name this object."""
        refusal = release_refusal(to_decide(reference), namespace, self.kinds)
        if refusal:
            raise SpecError(CODE, refusal)

    async def find(self, reference: ObjectReference, namespace: str) -> Manifest | None:
        """Read the object from the API server; None while it does not exist.

        Raises a SpecError as ``check``, or for a cluster-scoped kind; KindNotServed without the provider's CRD.
        """
        self.check(reference, namespace)
        group, version = split_api_version(reference.api_version)
        resource = await self.client.resource(group, reference.kind, version)
        check_namespaced(resource)
        self._watch(group, reference.kind)
        return await self.client.find(resource, reference.name, namespace)

    def _watch(self, group: str, kind: str) -> None:
        if (group, kind) not in self._watched:
            self._watched.add((group, kind))
            self.watch_kind(group, kind).subscribe(self._changed)

    def _changed(self, change: CacheChange) -> None:
        # A provider object has the name of its ClusterStackRelease.
        self.enqueue(change.key)


async def own_provider_object(client: Client, provider: Manifest, owner: Manifest) -> None:
    """Make ``owner`` the controller of the provider object, unless it is already."""
    metadata = provider["metadata"]
    reference = {
        "apiVersion": API_VERSION,
        "kind": Kind.CLUSTER_STACK_RELEASE.value,
        "name": owner["metadata"]["name"],
        "uid": owner["metadata"]["uid"],
        "controller": True,
    }
    others = [known for known in metadata.get("ownerReferences") or [] if known.get("uid") != reference["uid"]]
    if [*others, reference] == (metadata.get("ownerReferences") or []):
        return
    group, version = split_api_version(provider["apiVersion"])
    resource = await client.resource(group, provider["kind"], version)
    patch = {"metadata": {"resourceVersion": metadata["resourceVersion"], "ownerReferences": [*others, reference]}}
    await client.merge_patch(resource, metadata["name"], patch, metadata.get("namespace", ""))


def to_decide(reference: ObjectReference) -> ProviderReference:
    """Return the fields of a reference that decide whether it is allowed."""
    group, _ = split_api_version(reference.api_version)
    return ProviderReference(group, reference.kind, reference.namespace)


def check_namespaced(resource: Resource) -> None:
    """Raise a SpecError if the kind of a provider is cluster-scoped."""
    if not resource.namespaced:
        raise SpecError(CODE, f"spec.providerRef needs kind {resource}, which is cluster-scoped: use a namespaced kind")
