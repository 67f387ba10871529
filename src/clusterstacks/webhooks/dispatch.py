"""Dispatches reviews to the validator of their kind, and writes an event for what an annotation let through.

A review proves nothing, because every client that reaches the port can send one. The event is written once the informer
shows the Cluster with the uid, class, version and annotations of the review.
"""

from __future__ import annotations

import asyncio
import logging
from collections import OrderedDict
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from clusterstacks.api.clusterapi import cluster_view
from clusterstacks.api.names import CLUSTER_API_GROUP, CLUSTER_KIND, GROUP, EventReason, Kind
from clusterstacks.runtime.clock import SYSTEM_CLOCK
from clusterstacks.webhooks.answers import ALLOWED

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from clusterstacks.domain.objects import Manifest, ObjectKey
    from clusterstacks.runtime.cache import Store
    from clusterstacks.runtime.clock import Clock
    from clusterstacks.runtime.events import EventRecorder
    from clusterstacks.webhooks.answers import AdmissionResponse
    from clusterstacks.webhooks.cluster_handler import ClusterJudge
    from clusterstacks.webhooks.reviews import Review
    from clusterstacks.webhooks.stack_validators import OwnKinds

PAUSES_SECONDS: Final = (0.2, 1.0, 5.0)
"""Pauses before each look for a Cluster that was let through. Arbitrary: the watch reports a write within
milliseconds, and later under load."""

MOST_AWAITED: Final = 512
"""Clusters that are looked for at a time; for further ones no event is written. As many as there are connections."""

REMEMBERED: Final = 4096
"""Clusters whose last event is remembered, as ``runtime.events`` does (arbitrary)."""

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Written:
    """A state of a Cluster, reduced to what the webhook validates."""

    cluster: ObjectKey
    uid: str
    cluster_class: ObjectKey
    version: str
    annotations: frozenset[tuple[str, str]]


def written(cluster: Manifest) -> Written:
    """Read the state off a Cluster of any version."""
    view = cluster_view(cluster)
    ours = frozenset((key, value) for key, value in view.annotations.items() if key.startswith(f"{GROUP}/"))
    return Written(view.key, view.uid, view.class_key, view.version, ours)


class Validator:
    """Answers every question.

    Args:
        own: Judges our kinds.
        clusters: Judges Clusters.
        events: Where it is told that an annotation let something through.
        live: All Clusters, as they are.
        clock: Time.
        decided: Called with kind and decision: allowed, warned, refused or failed.
    """

    def __init__(
        self,
        own: OwnKinds,
        clusters: ClusterJudge,
        events: EventRecorder,
        live: Store,
        clock: Clock = SYSTEM_CLOCK,
        decided: Callable[[str, str], None] = lambda _kind, _decision: None,
    ) -> None:
        self._decided = decided
        self._own: dict[tuple[str, str], Callable[[Review], Awaitable[AdmissionResponse]]] = {
            (GROUP, Kind.CLUSTER_STACK): own.stack,
            (GROUP, Kind.CLUSTER_STACK_RELEASE): own.release,
            (GROUP, Kind.CLUSTER_ADDON): own.addon,
            (GROUP, Kind.COMPATIBILITY_RULE): own.rule,
        }
        self._clusters = clusters
        self._events = events
        self._live = live
        self._clock = clock
        self._told: OrderedDict[str, tuple[int, Written]] = OrderedDict()  # uid -> generation and state
        self._telling: set[asyncio.Task[None]] = set()

    async def judge(self, review: Review) -> AdmissionResponse:
        """Answer a question; a kind nobody asked to be asked about is allowed.

        Raises:
            ClusterStacksError: What is needed for the answer cannot be had.
        """
        kind = (review.group, review.kind)
        decide = self._judge_cluster if kind == (CLUSTER_API_GROUP, CLUSTER_KIND) else self._own.get(kind)
        if decide is None:
            return ALLOWED
        decision = "failed"
        try:
            answer = await decide(review)
            decision = answer.decision
        finally:
            self._decided(review.kind, decision)
        return answer

    async def _judge_cluster(self, review: Review) -> AdmissionResponse:
        answer = await self._clusters.judge(review)
        if answer.excused and not review.dry_run:
            self._tell(review, answer)
        return answer

    async def close(self) -> None:
        """Give up what is still to be told."""
        for task in self._telling:
            task.cancel()
        await asyncio.gather(*self._telling, return_exceptions=True)

    def _tell(self, review: Review, answer: AdmissionResponse) -> None:
        """Write the event later: the writer need not wait for it."""
        if len(self._telling) >= MOST_AWAITED:
            log.warning("So many Clusters are let through by an annotation that no event is written for some")
            return
        told = self._tell_once_written(written(review.new), answer.excused)
        task = asyncio.create_task(told, name="event of an admission")
        self._telling.add(task)
        task.add_done_callback(self._telling.discard)

    async def _tell_once_written(self, asked: Written, message: str) -> None:
        for pause in PAUSES_SECONDS:
            await self._clock.sleep(pause)
            live = self._live.get(asked.cluster)
            if live is None or written(live) != asked:
                continue
            if self._is_news(live, asked):
                await self._events.record(live, "Warning", EventReason.INCOMPATIBLE_ALLOWED, message)
            return

    def _is_news(self, live: Manifest, state: Written) -> bool:
        """Note a state of a Cluster; its event is written once, however many reviews ask about it."""
        now = (live["metadata"].get("generation", 0), state)
        if self._told.get(state.uid) == now:
            return False
        self._told[state.uid] = now
        self._told.move_to_end(state.uid)
        if len(self._told) > REMEMBERED:
            self._told.popitem(last=False)
        return True
