"""The objects of a cluster class into a management cluster, and out again.

There is no delivery record: what was applied, with uid, stands in the status of the ClusterStackRelease.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from clusterstacks.apply.class_object_rules import GroupKind, check_class_objects, deletion_fault
from clusterstacks.apply.delivery_plan import PruneOutcome, PruneResult
from clusterstacks.apply.object_applier import ObjectStep
from clusterstacks.apply.ownership import is_marked
from clusterstacks.apply.policy import refuses_pruning
from clusterstacks.apply.prune import PruneCandidate, Remover
from clusterstacks.apply.results import Deadlines, ObjectResult
from clusterstacks.apply.targets import documents, resolve
from clusterstacks.apply.wave_applier import WaveApplier
from clusterstacks.domain.errors import SpecError
from clusterstacks.kube.errors import KindNotServed
from clusterstacks.runtime.concurrency import gather

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

    from clusterstacks.apply.delivery_plan import RecordedObject
    from clusterstacks.domain.objects import Manifest, ObjectId
    from clusterstacks.kube.client import Client


class ClassApplier:
    """Applies and deletes the objects of cluster classes.

    Args:
        client: The management cluster.
        extra_kinds: Kinds a class may hold besides Cluster API's, from ``--class-kinds``.
        deadlines: How long to wait for the server.
    """

    def __init__(
        self, client: Client, *, extra_kinds: Collection[GroupKind] = (), deadlines: Deadlines | None = None
    ) -> None:
        self._client = client
        self._extra_kinds = frozenset(extra_kinds)
        self._deadlines = deadlines or Deadlines()

    def checked(self, manifests: Iterable[Manifest], namespace: str) -> list[Manifest]:
        """Return the objects of a class, if it holds nothing but what a class may hold.

        Raises:
            SpecError: A document that is no object, or an object that a class may not hold.
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
            manifests: As rendered.
            default_namespace: That of the ClusterStackRelease, the only one they may be in.
            known: What its status remembers of earlier applies.

        Returns:
            A result for each object, in the order of the manifests.

        Raises:
            SpecError: An object that a class may not hold; nothing is applied then.
            DependencyError: The server answers nobody, or does not know us.
        """
        objects = self.checked(manifests, default_namespace)
        targets = await resolve(self._client, objects, default_namespace=default_namespace)
        for target in targets:
            if target.resource and not target.resource.namespaced:
                raise SpecError(
                    "ObjectNotAllowed",
                    f"{target.id} is cluster-wide, a cluster class may hold namespaced objects only: take it out",
                )
        steps = [ObjectStep(target, (known or {}).get(target.id)) for target in targets]
        return await WaveApplier(self._client, deadlines=self._deadlines).apply_objects(steps)

    async def delete_class(
        self, objects: Iterable[RecordedObject], *, namespace: str, wanted_elsewhere: Collection[ObjectId] = ()
    ) -> dict[ObjectId, PruneResult]:
        """Delete what was applied for a class, the ClusterClass first, and wait until it is gone (INCUMBENT D3).

        Args:
            objects: From the status of the ClusterStackRelease, which is only a hint: an object is deleted if a class
                may hold it and its own metadata shows that one of the two operators applied it.
            namespace: That of the ClusterStackRelease, the only one the objects may be in.
            wanted_elsewhere: Objects that other releases list, too; they stay.

        Returns:
            The fate of each; call again while one is pending.

        Raises:
            DependencyError: The server answers nobody, or does not know us.
        """
        listed = list(objects)
        found = await gather(partial(self._look, namespace, wanted_elsewhere), listed)
        fates = {known.id: one for known, one in zip(listed, found, strict=True) if isinstance(one, PruneResult)}
        doomed = [one for one in found if isinstance(one, PruneCandidate)]
        return fates | await Remover(self._client, self._deadlines).remove(doomed)

    async def _look(
        self, namespace: str, wanted_elsewhere: Collection[ObjectId], known: RecordedObject
    ) -> PruneCandidate | PruneResult:
        fault = deletion_fault(known.id, namespace=namespace, extra_kinds=self._extra_kinds)
        if fault:
            return PruneResult(PruneOutcome.KEPT, fault)
        identity = replace(known.id, namespace=namespace)
        if identity in wanted_elsewhere:
            return PruneResult(PruneOutcome.HANDED_OVER, "another release holds it, too")
        try:
            return await self._live(identity, known)
        except KindNotServed:
            return PruneResult(PruneOutcome.GONE, "the server does not serve its kind any more")
        except SpecError as error:
            # Nothing can have the name; the entry must not keep the release for ever.
            return PruneResult(PruneOutcome.KEPT, error.message)

    async def _live(self, identity: ObjectId, known: RecordedObject) -> PruneCandidate | PruneResult:
        place = await self._client.resource(identity.group, identity.kind)
        if not place.namespaced:
            return PruneResult(PruneOutcome.KEPT, "its kind is cluster-wide, which a cluster class may not hold")
        live = await self._client.find(place, identity.name, identity.namespace)
        if live is None:
            return PruneResult(PruneOutcome.GONE)
        metadata = live["metadata"]
        reprieve = _reprieve(known, live)
        leaving = bool(metadata.get("deletionTimestamp"))
        return reprieve or PruneCandidate(identity, place, metadata["uid"], awaited=True, leaving=leaving)


def _reprieve(known: RecordedObject, live: Manifest) -> PruneResult | None:
    if known.uid and known.uid != live["metadata"]["uid"]:
        return PruneResult(PruneOutcome.GONE, "another object of that name has taken its place")
    if not is_marked(live):
        return PruneResult(
            PruneOutcome.KEPT, "its metadata does not show that this operator or the Go operator applied it"
        )
    return PruneResult(PruneOutcome.KEPT, "its annotation asks to keep it") if refuses_pruning(live) else None
