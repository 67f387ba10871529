"""Many objects into a cluster, wave by wave.

An object that fails stops nobody but those that cannot exist without it: the objects of its namespace, the custom
resources of its CRD.
"""

from __future__ import annotations

from collections import defaultdict
from functools import partial
from typing import TYPE_CHECKING, TypeAlias

from clusterstacks.apply.concurrently import together
from clusterstacks.apply.establishing import await_established
from clusterstacks.apply.results import Deadlines, ObjectResult
from clusterstacks.apply.single import Applied, ObjectApplier, Step, failed
from clusterstacks.domain.waves import CRD_KIND, NAMESPACE_KIND, Wave, wave_of

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from clusterstacks.apply.targets import Target
    from clusterstacks.domain.objects import Manifest, ObjectId
    from clusterstacks.kube.client import Client

Obstacles: TypeAlias = dict[tuple[str, str], str]
"""Group and kind, or ``NAMESPACE_KIND`` and name, of what cannot be applied, and why."""


class Rollout:
    """Brings prepared objects into one cluster.

    Args:
        client: The cluster.
        sets: Ids of the ApplySets whose members are ours.
        deadlines: How long to wait for the server.
    """

    def __init__(
        self, client: Client, *, sets: Collection[str] = frozenset(), deadlines: Deadlines | None = None
    ) -> None:
        self._client = client
        self._deadlines = deadlines or Deadlines()
        self._single = ObjectApplier(client, sets, self._deadlines)

    async def run(self, steps: Sequence[Step]) -> list[ObjectResult]:
        """Apply all objects; results come in the same order.

        Raises:
            DependencyError: The server answers nobody, or does not know us.
        """
        waves: dict[Wave, list[Step]] = defaultdict(list)
        for step in steps:
            waves[wave_of(step.target.id)].append(step)
        results: dict[ObjectId, ObjectResult] = {}
        obstacles: Obstacles = {}
        for wave, members in sorted(waves.items()):
            applied = await together(partial(self._step, obstacles), members)
            results |= {one.result.id: one.result for one in applied}
            if wave is Wave.FOUNDATIONS:
                obstacles = await self._found(members, applied)
        return [results[step.target.id] for step in steps]

    async def _step(self, obstacles: Obstacles, step: Step) -> Applied:
        target = step.target
        if target.refusal:
            return Applied(failed(target, "NotServed", target.refusal, uid=step.uid), None)
        if reason := _obstacle(target, obstacles):
            return Applied(failed(target, "Blocked", f"{target.id} waits: {reason}", uid=step.uid), None)
        return await self._single.apply(step)

    async def _found(self, steps: Sequence[Step], applied: Sequence[Applied]) -> Obstacles:
        """Wait for the CRDs among the foundations; return what cannot be built on."""
        obstacles: Obstacles = {}
        crds: dict[str, Manifest] = {}
        kinds: dict[str, tuple[str, str]] = {}
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
            return obstacles
        # The server's kinds are others now.
        self._client.forget_discovery()
        late = await await_established(self._client, crds, self._deadlines.established)
        crd = ".".join(reversed(CRD_KIND))
        return obstacles | {kinds[name]: f"{crd} {name}: {reason}" for name, reason in late.items()}


def _defined_kind(crd: Target) -> tuple[str, str]:
    spec = crd.manifest.get("spec") or {}
    return spec.get("group", ""), (spec.get("names") or {}).get("kind", "")


def _obstacle(target: Target, obstacles: Obstacles) -> str:
    identity = target.id
    return obstacles.get((identity.group, identity.kind)) or obstacles.get((NAMESPACE_KIND[1], identity.namespace), "")
