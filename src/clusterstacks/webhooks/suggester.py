"""The way out of a refusal, found within a bound: the verdict does not wait for it, and none is no harm."""

from __future__ import annotations

import asyncio
import logging
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from typing import TYPE_CHECKING, Final

from clusterstacks.compat.world import ClusterState, World
from clusterstacks.domain.errors import SpecError
from clusterstacks.planner.budget import Budget
from clusterstacks.planner.waits import ADDONS_READY, addon_delivered, control_plane_runs
from clusterstacks.webhooks.rules.suggestions import (
    Wish,
    classes_for,
    look_for_a_way,
    releases_with,
    retried,
    waited,
    way_to,
)

if TYPE_CHECKING:
    from clusterstacks.compat.constraints import Judges
    from clusterstacks.compat.rules.combination import Before
    from clusterstacks.compat.world import Candidate
    from clusterstacks.domain.objects import ObjectKey
    from clusterstacks.planner.model_builder import Target
    from clusterstacks.webhooks.known_releases import ClassOffer
    from clusterstacks.webhooks.rules.cluster_versions import Decision, Write

PATIENCE: Final = timedelta(seconds=1.5)
"""How long a refusal waits for its way out, the wait behind others included. Arbitrary: a person waits, and the API
server gives 5 s for everything."""

MOST_LOOKS: Final = 400_000
"""Combinations that the planner looks at for a refusal, about 1 s: a tenant that is refused again and again must not
have the processor to itself. Arbitrary; the largest worlds measured without facts between addons take 50,000."""

log = logging.getLogger(__name__)


class Adviser:
    """Asks the planner, one question at a time.

    It runs beside the event loop, which gets its turn within some milliseconds: the planner is plain Python code. Each
    question ends when its refusal no longer waits, so that questions that wait behind others take no time either.
    """

    def __init__(self) -> None:
        self._planner = ThreadPoolExecutor(max_workers=1, thread_name_prefix="planner")

    def close(self) -> None:
        """Answer nothing more; a question under way ends by its budget."""
        self._planner.shutdown(wait=False, cancel_futures=True)

    async def way_out(
        self, cluster: ObjectKey, write: Write, decision: Decision, offer: ClassOffer, judges: Judges
    ) -> str:
        """Say what to do instead; empty when that is not known in time."""
        after, before = write.after, write.before
        if before is None:
            return f"{classes_for(after, offer.candidates.values(), judges)}\n{decision.more}"
        if all(one.under_way for one in decision.against):
            return _wait_for(cluster, decision, write)
        if all(one.arriving for one in decision.against):
            return _wait_for_control_plane(cluster, write)
        target = _target(write, before)
        if target is None:
            addon = next((one.addon for one in decision.against if one.addon), "")
            if not addon:
                return decision.more
            return f"{releases_with(addon, after, before, _candidates(offer), judges)}\n{decision.more}"
        world = World(_candidates(offer), judges.rules, judges.upstream)
        ready = frozenset(offer.candidates)
        return await self.plan(Wish(cluster, world, _state(write, before, judges), target, ready))

    async def plan(self, wish: Wish) -> str:
        """Ask the planner; where it does not know in time, say how to ask it oneself."""
        loop = asyncio.get_running_loop()
        end = loop.time() + PATIENCE.total_seconds()
        budget = Budget(MOST_LOOKS, lambda: loop.time() > end)
        asked = loop.run_in_executor(self._planner, way_to, wish, budget)
        found = ""
        try:
            found = await asyncio.wait_for(asked, PATIENCE.total_seconds())
        except (TimeoutError, SpecError) as error:
            log.debug("No way out for %s: %r", wish.cluster, error)
        return found or look_for_a_way(wish.cluster, wish.target)


def _target(write: Write, before: Before) -> Target | None:
    after, asked = write.after, before.asked
    if after.candidate.name != asked.candidate.name and after.kubernetes in (
        after.candidate.kubernetes,
        asked.kubernetes,
    ):
        return after.candidate.name
    return after.kubernetes if after.kubernetes != asked.kubernetes else None


def _candidates(offer: ClassOffer) -> tuple[Candidate, ...]:
    return tuple({**offer.listed, **offer.candidates}.values())


def _state(write: Write, before: Before, judges: Judges) -> ClusterState:
    has = before.delivered
    return ClusterState(
        kubernetes=has.kubernetes,
        workers=has.kubernetes,
        release=has.candidate.name,
        addons=None if has.candidate.is_bundle else {addon: has.version(addon) for addon in has.addons},
        labels=judges.labels,
        variables=judges.variables,
        annotations=write.was.annotations if write.was is not None else None,
    )


def _wait_for(cluster: ObjectKey, decision: Decision, write: Write) -> str:
    addons = list(dict.fromkeys(one.addon for one in decision.against))
    versions = {addon: write.after.version(addon) for addon in addons}
    awaited = [f"{addon} {versions[addon]}" if versions[addon] else f"the removal of {addon}" for addon in addons]
    commands = [
        waited(cluster, addon_delivered(addon, version) if version else ADDONS_READY)
        for addon, version in versions.items()
    ]
    return retried(f"{', '.join(awaited)} is delivered to Cluster {cluster}", *commands)


def _wait_for_control_plane(cluster: ObjectKey, write: Write) -> str:
    version = write.after.kubernetes.text
    return retried(
        f"the control plane of Cluster {cluster} runs {version}", waited(cluster, control_plane_runs(version))
    )
