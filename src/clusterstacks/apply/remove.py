"""Objects out of a cluster, in the reverse order in which they came: custom resources before their controllers.

Every delete carries the uid that was looked at, so what somebody created in its place is never hit.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, TypeAlias

from clusterstacks.apply.concurrency import together
from clusterstacks.apply.errors import raise_outage
from clusterstacks.apply.prune_plan import Departure, Fate
from clusterstacks.apply.waiting import until_gone
from clusterstacks.apply.waves import Wave, wave_of
from clusterstacks.domain.errors import ClusterStacksError
from clusterstacks.kube.errors import Conflict, NotFound

if TYPE_CHECKING:
    from clusterstacks.apply.results import Deadlines
    from clusterstacks.domain.objects import ObjectId
    from clusterstacks.kube.client import Client
    from clusterstacks.kube.resources import Resource


@dataclass(frozen=True, slots=True)
class Doomed:
    """One object to delete.

    Args:
        id: The object.
        place: Where its kind is served.
        uid: Only the object with this uid is deleted.
        owner: Whom it belongs to: what waits in an earlier wave holds back only later waves of the same owner.
        awaited: The next wave begins only when it is gone, e.g. because its controller must work on its finalizers.
        leaving: Its deletion was asked for already.
    """

    id: ObjectId
    place: Resource
    uid: str
    owner: str = ""
    awaited: bool = False
    leaving: bool = False


Guard: TypeAlias = Callable[[Doomed], Awaitable[str]]
"""Looks at an object right before its deletion; a text is the reason to keep it."""


async def keep_nothing(_: Doomed) -> str:
    """Guard that lets everything go."""
    return ""


class Remover:
    """Deletes objects of one cluster."""

    def __init__(self, client: Client, deadlines: Deadlines, guard: Guard = keep_nothing) -> None:
        self._client = client
        self._deadlines = deadlines
        self._guard = guard

    async def remove(self, doomed: Sequence[Doomed]) -> dict[ObjectId, Departure]:
        """Delete the objects and say what became of each.

        Raises:
            DependencyError: The server answers nobody, or does not know us.
        """
        waves: dict[Wave, list[Doomed]] = defaultdict(list)
        for one in doomed:
            waves[wave_of(one.id)].append(one)
        fates: dict[ObjectId, Departure] = {}
        held: dict[str, ObjectId] = {}
        for _, members in sorted(waves.items(), reverse=True):
            departures = await together(partial(self._part, held), members)
            for one, departure in zip(members, departures, strict=True):
                fates[one.id] = departure
                if departure.fate is Fate.PENDING:
                    held.setdefault(one.owner, one.id)
        return fates

    async def _part(self, held: Mapping[str, ObjectId], one: Doomed) -> Departure:
        if one.owner in held:
            return Departure(Fate.PENDING, f"{one.id} waits until {held[one.owner]} is gone")
        try:
            return await self._delete(one)
        except NotFound:
            return Departure(Fate.GONE)
        except Conflict:
            return Departure(Fate.GONE, "another object of that name has taken its place")
        except ClusterStacksError as error:
            await raise_outage(self._client, error)
            return Departure(Fate.PENDING, error.message)

    async def _delete(self, one: Doomed) -> Departure:
        if reason := await self._guard(one):
            return Departure(Fate.KEPT, reason)
        if not one.leaving:
            await self._client.delete(one.place, one.id.name, one.id.namespace, uid=one.uid)
        if one.awaited:
            await until_gone(self._client, one.place, one.id, one.uid, self._deadlines.gone)
        return Departure(Fate.GONE)
