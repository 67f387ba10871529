"""Decides what a sync delivers, in which order, and which objects that left its sources it does not delete yet.

An object leaves only when all sources are there without it. Objects that stay are delivered as before, so that they are
still compared and restored.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from clusterstacks.deliver.apply.targets import digest_of
from clusterstacks.deliver.apply.waves import CRD_KIND, NAMESPACE_KIND
from clusterstacks.model.documents import and_more
from clusterstacks.model.objects import object_id

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence

    from clusterstacks.deliver.apply.source_objects import SourceObjects
    from clusterstacks.model.objects import Manifest, ObjectId

SHOWN_OBJECTS: Final = 3
"""Objects and sources that a message names (arbitrary)."""


@dataclass(frozen=True, slots=True)
class SyncRevision:
    """What a sync delivers.

    Args:
        manifests: The objects of the sources, then those that left them and stay.
        leaving: Objects that left the sources and are deleted.
        held: Why objects that left the sources are not deleted before a user confirms it; empty if none is held.
        confirmation: What a user confirms by writing it into the annotation; empty if nothing is held.
    """

    manifests: tuple[Manifest, ...]
    leaving: tuple[ObjectId, ...] = ()
    held: str = ""
    confirmation: str = ""


def revision_of(
    sources: Sequence[SourceObjects],
    delivered: Sequence[Manifest],
    *,
    used_crds: Collection[ObjectId] = (),
    confirmed: str = "",
) -> SyncRevision:
    """Return what a sync delivers.

    Args:
        sources: Its sources, without repetitions.
        delivered: The manifests that the cluster has of it.
        used_crds: CustomResourceDefinitions among them of which the cluster has objects.
        confirmed: The confirmation that a user has given; empty for none.
    """
    wanted = tuple(manifest for source in sources for manifest in source.manifests)
    ids = {object_id(manifest) for manifest in wanted}
    leaving = {identity: manifest for manifest in delivered if (identity := object_id(manifest)) not in ids}
    if not leaving:
        return SyncRevision(wanted)
    staying = (*wanted, *leaving.values())
    if any(source.faults for source in sources):
        return SyncRevision(staying)
    causes = [f"{source.title} is empty" for source in sources if source.is_empty]
    causes += [
        f"{identity} is one of them and the cluster has objects of it, which would be deleted with it"
        for identity in sorted(leaving)
        if (identity.group, identity.kind) == CRD_KIND and identity in used_crds
    ]
    # Of the identities: a later change of a source, which removes further objects, is confirmed by itself.
    confirmation = digest_of(sorted(map(str, leaving)))
    if not causes or confirmed == confirmation:
        return SyncRevision(wanted, tuple(sorted(leaving)))
    objects = "1 object" if len(leaving) == 1 else f"{len(leaving)} objects"
    named = and_more([str(identity) for identity in sorted(leaving)], SHOWN_OBJECTS)
    why = and_more(causes, SHOWN_OBJECTS, separator="; ")
    held = f"{objects} that left the sources will be deleted after a confirmation ({named}), because {why}"
    return SyncRevision(staying, held=held, confirmation=confirmation)


def revision_until(sources: Sequence[SourceObjects], delivered: Sequence[Manifest], last: int) -> tuple[Manifest, ...]:
    """Return what a sync delivers while the objects of the sources after ``last`` wait: they stay as they are.

    Namespaces and CustomResourceDefinitions of all sources are delivered: objects of earlier ones may need them.
    """
    known = {object_id(manifest): manifest for manifest in delivered}
    sent = []
    for number, source in enumerate(sources):
        for manifest in source.manifests:
            identity = object_id(manifest)
            before = known.pop(identity, None)
            if number <= last or (identity.group, identity.kind) in (CRD_KIND, NAMESPACE_KIND):
                sent.append(manifest)
            elif before is not None:
                sent.append(before)
    return (*sent, *known.values())


def positions(sources: Iterable[SourceObjects]) -> dict[ObjectId, int]:
    """Return the position of the source of each object."""
    return {object_id(manifest): number for number, source in enumerate(sources) for manifest in source.manifests}
