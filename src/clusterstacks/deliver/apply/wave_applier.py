"""Applies many objects, wave by wave.

A failed object only blocks objects that cannot exist without it: those in its namespace, and the custom resources of
its CRD.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING, TypeAlias

from clusterstacks.deliver.apply.foreign_fields import nothing_ignored
from clusterstacks.deliver.apply.object_applier import Applied, ObjectApplier, ObjectStep, failed
from clusterstacks.deliver.apply.results import Deadlines, ObjectResult
from clusterstacks.deliver.apply.targets import defined_kinds
from clusterstacks.deliver.apply.waiting import await_established, is_established, pauses
from clusterstacks.deliver.apply.waves import CRD_KIND, NAMESPACE_KIND, Wave, wave_of
from clusterstacks.net.kube.errors import KindNotServed
from clusterstacks.runtime.concurrency import gather

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from clusterstacks.deliver.apply.foreign_fields import IgnoredFields
    from clusterstacks.deliver.apply.ownership import FieldWriter
    from clusterstacks.deliver.apply.targets import ApplyTarget
    from clusterstacks.model.objects import Manifest, ObjectId
    from clusterstacks.net.kube.client import Client

GroupKind: TypeAlias = tuple[str, str]

Obstacles: TypeAlias = dict[tuple[str, str], str]
"""Reasons by group and kind of CRDs, or kind and name of namespaces, that could not be applied."""


class WaveApplier:
    """Applies prepared objects to one cluster.

    Args:
        client: The cluster.
        sets: Ids of the ApplySets whose members are ours.
        inherits: As ``ObjectApplier``, also ``ignored``.
    """

    def __init__(
        self,
        client: Client,
        *,
        sets: Collection[str] = frozenset(),
        deadlines: Deadlines | None = None,
        inherits: Collection[FieldWriter] = (),
        ignored: IgnoredFields = nothing_ignored,
    ) -> None:
        self._client = client
        self._deadlines = deadlines or Deadlines()
        self._object_applier = ObjectApplier(client, sets, self._deadlines, inherits, ignored)

    async def apply_objects(self, steps: Sequence[ObjectStep]) -> list[ObjectResult]:
        """Apply all objects; return the results in the same order.

        Raises:
            DependencyError: The server is not available, or rejects our credentials.
        """
        waves: dict[tuple[int, Wave], list[ObjectStep]] = defaultdict(list)
        for step in steps:
            wave = wave_of(step.target.id)
            # Those of all sources come first: a CRD may be in a later source than its custom resources.
            source = 0 if wave is Wave.FOUNDATIONS else step.target.source
            waves[source, wave].append(step)
        results: dict[ObjectId, ObjectResult] = {}
        obstacles: Obstacles = {}
        new_kinds: list[GroupKind] = []
        for (_, wave), members in sorted(waves.items()):
            applied = await gather(partial(self._apply_unless_blocked, obstacles), members)
            results |= {one.result.id: one.result for one in applied}
            if wave is Wave.FOUNDATIONS:
                obstacles, new_kinds = await self._await_foundations(members, applied)
        await self._discover(new_kinds)
        return [results[step.target.id] for step in steps]

    async def _apply_unless_blocked(self, obstacles: Obstacles, step: ObjectStep) -> Applied:
        target = step.target
        if target.refusal:
            return Applied(failed(target, "NotServed", target.refusal, uid=step.uid), None)
        if reason := _obstacle(target, obstacles):
            return Applied(failed(target, "Blocked", f"{target.id} waits: {reason}", uid=step.uid), None)
        return await self._object_applier.apply_object(step)

    async def _await_foundations(
        self, steps: Sequence[ObjectStep], applied: Sequence[Applied]
    ) -> tuple[Obstacles, list[GroupKind]]:
        """Wait for the CRDs among the foundations; return the obstacles, and the kinds that are new."""
        obstacles: Obstacles = {}
        crds: dict[str, Manifest] = {}
        kinds: dict[str, GroupKind] = {}
        for step, one in zip(steps, applied, strict=True):
            identity = step.target.id
            is_crd = (identity.group, identity.kind) == CRD_KIND
            place = _defined_kind(step.target) if is_crd else (NAMESPACE_KIND[1], identity.name)
            if one.live is None:
                obstacles[place] = one.result.error
            elif is_crd:
                crds[identity.name] = one.live
                kinds[identity.name] = place
        if not crds:
            return obstacles, []
        # The server serves other kinds now.
        self._client.forget_discovery()
        new = [kinds[name] for name, live in crds.items() if not is_established(live)]
        late = await await_established(self._client, crds, self._deadlines.established)
        crd = ".".join(reversed(CRD_KIND))
        obstacles |= {kinds[name]: f"{crd} {name}: {reason}" for name, reason in late.items()}
        return obstacles, [kind for kind in new if kind not in obstacles]

    async def _discover(self, kinds: Sequence[GroupKind]) -> None:
        """Wait until discovery contains new kinds: the next addon may contain their custom resources."""
        for pause in pauses(self._deadlines.served if kinds else timedelta(0)):
            try:
                for kind in kinds:
                    await self._client.resource(*kind)
            except KindNotServed:
                self._client.forget_discovery()
                await asyncio.sleep(pause)
            else:
                return


def _defined_kind(crd: ApplyTarget) -> GroupKind:
    return next(iter(defined_kinds([crd.manifest])), ("", crd.id.name))


def _obstacle(target: ApplyTarget, obstacles: Obstacles) -> str:
    identity = target.id
    return obstacles.get((identity.group, identity.kind)) or obstacles.get((NAMESPACE_KIND[1], identity.namespace), "")
