"""Applies the objects of a cluster class to the management cluster, and deletes them.

There is no delivery record: the status of the ClusterStackRelease lists the applied objects with their uids.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from clusterstacks.deliver.apply.class_object_rules import GroupKind, check_class_objects, deletion_fault
from clusterstacks.deliver.apply.object_applier import ObjectStep
from clusterstacks.deliver.apply.ownership import is_marked
from clusterstacks.deliver.apply.policy import reason_to_keep
from clusterstacks.deliver.apply.prune import PruneCandidate, Remover
from clusterstacks.deliver.apply.prune_plan import PruneOutcome, PruneResult
from clusterstacks.deliver.apply.results import Deadlines, ObjectResult
from clusterstacks.deliver.apply.targets import documents, resolve
from clusterstacks.deliver.apply.wave_applier import WaveApplier
from clusterstacks.model.errors import SpecError
from clusterstacks.net.kube.errors import KindNotServed
from clusterstacks.runtime.concurrency import gather

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

    from clusterstacks.deliver.apply.delivery_plan import RecordedObject
    from clusterstacks.model.objects import Manifest, ObjectId
    from clusterstacks.net.kube.client import Client


class ClassApplier:
    """Applies and deletes the objects of cluster classes.

    Args:
        extra_kinds: Kinds that a class may contain besides Cluster API's, from ``--class-kinds``.
    """

    def __init__(
        self, client: Client, *, extra_kinds: Collection[GroupKind] = (), deadlines: Deadlines | None = None
    ) -> None:
        self._client = client
        self._extra_kinds = frozenset(extra_kinds)
        self._deadlines = deadlines or Deadlines()

    def checked(self, manifests: Iterable[Manifest], namespace: str) -> list[Manifest]:
        """Check the objects of a class and return them.

        Raises:
            SpecError: A document is not an object, or a class may not contain the object.
        """
        objects = list(documents(manifests))
        check_class_objects(objects, namespace=namespace, extra_kinds=self._extra_kinds)
        return objects

    async def apply_class(
        self,
        manifests: Iterable[Manifest],
        *,
        default_namespace: str,
        known: Mapping[ObjectId, RecordedObject] | None = None,
    ) -> list[ObjectResult]:
        """Apply the objects of one class, templates before the ClusterClass.

        Args:
            manifests: The rendered objects.
            default_namespace: The namespace of the ClusterStackRelease, the only one that is allowed.
            known: The objects that its status lists.

        Returns:
            One result for each object, in the order of the manifests.

        Raises:
            SpecError: A class may not contain one of the objects; nothing is applied then.
            DependencyError: The server is not available, or rejects our credentials.
        """
        objects = self.checked(manifests, default_namespace)
        targets = await resolve(self._client, objects, default_namespace=default_namespace)
        for target in targets:
            if target.resource and not target.resource.namespaced:
                raise SpecError(
                    "ObjectNotAllowed",
                    f"{target.id} is cluster-scoped, but a cluster class contains namespaced objects only: remove it",
                )
        steps = [ObjectStep(target, (known or {}).get(target.id)) for target in targets]
        return await WaveApplier(self._client, deadlines=self._deadlines).apply_objects(steps)

    async def delete_class(
        self, objects: Iterable[RecordedObject], *, namespace: str, wanted_elsewhere: Collection[ObjectId] = ()
    ) -> dict[ObjectId, PruneResult]:
        """Delete the objects of a class, the ClusterClass first, and wait until they are gone.

        Args:
            objects: From the status of the ClusterStackRelease. The status is only a hint: an object is deleted if a
                class may contain it and its metadata shows that this operator or the Go operator applied it.
            namespace: The namespace of the ClusterStackRelease, the only one that is allowed.
            wanted_elsewhere: Objects that other releases list as well; they are kept.

        Returns:
            The result of each object; call again while one is pending.

        Raises:
            DependencyError: The server is not available, or rejects our credentials.
        """
        listed = list(objects)
        found = await gather(partial(self._look, namespace, wanted_elsewhere), listed)
        results = {known.id: one for known, one in zip(listed, found, strict=True) if isinstance(one, PruneResult)}
        candidates = [one for one in found if isinstance(one, PruneCandidate)]
        return results | await Remover(self._client, self._deadlines).remove(candidates)

    async def _look(
        self, namespace: str, wanted_elsewhere: Collection[ObjectId], known: RecordedObject
    ) -> PruneCandidate | PruneResult:
        fault = deletion_fault(known.id, namespace=namespace, extra_kinds=self._extra_kinds)
        if fault:
            return PruneResult(PruneOutcome.KEPT, fault)
        identity = replace(known.id, namespace=namespace)
        if identity in wanted_elsewhere:
            return PruneResult(PruneOutcome.HANDED_OVER, "another release contains it as well")
        try:
            return await self._live(identity, known)
        except KindNotServed:
            return PruneResult(PruneOutcome.GONE, "the server no longer serves its kind")
        except SpecError as error:
            # No object can have this name; the entry must not block the deletion of the release.
            return PruneResult(PruneOutcome.KEPT, error.message)

    async def _live(self, identity: ObjectId, known: RecordedObject) -> PruneCandidate | PruneResult:
        place = await self._client.resource(identity.group, identity.kind)
        if not place.namespaced:
            return PruneResult(PruneOutcome.KEPT, "its kind is cluster-scoped, which is not allowed in a cluster class")
        live = await self._client.find(place, identity.name, identity.namespace)
        if live is None:
            return PruneResult(PruneOutcome.GONE)
        metadata = live["metadata"]
        kept = _without_delete(known, live)
        leaving = bool(metadata.get("deletionTimestamp"))
        return kept or PruneCandidate(identity, place, metadata["uid"], awaited=True, leaving=leaving)


def _without_delete(known: RecordedObject, live: Manifest) -> PruneResult | None:
    if known.uid and known.uid != live["metadata"]["uid"]:
        return PruneResult(PruneOutcome.GONE, "another object with its name exists now")
    if not is_marked(live):
        return PruneResult(
            PruneOutcome.KEPT, "its metadata does not show that this operator or the Go operator applied it"
        )
    reason = reason_to_keep(live)
    return PruneResult(PruneOutcome.KEPT, reason) if reason else None
