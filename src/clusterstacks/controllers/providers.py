"""Provider objects: kinds nobody knows before a ClusterStack names them, read and watched by reference."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from clusterstacks.api.names import API_VERSION, Kind
from clusterstacks.domain.objects import Manifest, ObjectKey, split_api_version

if TYPE_CHECKING:
    from collections.abc import Callable

    from clusterstacks.api.meta import ObjectReference
    from clusterstacks.kube.client import Client
    from clusterstacks.runtime.informer import Change, Informer


@dataclass(slots=True)
class ProviderObjects:
    """Reads provider objects and watches their kinds from the first time one is asked for.

    Args:
        client: The management cluster's.
        informer: Builds the informer of a group and kind.
        start: Has a new informer run; called once per kind.
        enqueue: Wakes the ClusterStackRelease whose provider object changed.
    """

    client: Client
    informer: Callable[[str, str], Informer]
    start: Callable[[Informer], None]
    enqueue: Callable[[ObjectKey], None]
    _watched: set[tuple[str, str]] = field(default_factory=set)

    async def find(self, reference: ObjectReference, namespace: str) -> Manifest | None:
        """Read the object live; None while it does not exist.

        Raises:
            KindNotServed: The provider's CustomResourceDefinition is not installed.
        """
        group, version = split_api_version(reference.api_version)
        resource = await self.client.resource(group, reference.kind, version)
        self._watch(group, reference.kind)
        return await self.client.find(resource, reference.name, reference.namespace or namespace)

    async def own(self, provider: Manifest, owner: Manifest) -> None:
        """Make ``owner`` the controller of the provider object, if it is not yet."""
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
        resource = await self.client.resource(group, provider["kind"], version)
        patch = {"metadata": {"resourceVersion": metadata["resourceVersion"], "ownerReferences": [*others, reference]}}
        await self.client.merge_patch(resource, metadata["name"], patch, metadata.get("namespace", ""))

    def _watch(self, group: str, kind: str) -> None:
        if (group, kind) in self._watched:
            return
        self._watched.add((group, kind))
        informer = self.informer(group, kind)
        informer.subscribe(self._changed)
        self.start(informer)

    def _changed(self, change: Change) -> None:
        # A provider object has the name of its ClusterStackRelease (INCUMBENT 1.1, step 7).
        self.enqueue(change.key)
