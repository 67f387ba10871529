"""Sends each question to who decides on it, and tells of what an annotation let through."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from clusterstacks.api.names import CLUSTER_API_GROUP, CLUSTER_KIND, GROUP, EventReason, Kind
from clusterstacks.domain.admission.answers import ALLOWED

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from clusterstacks.admission.clusters import ClusterJudge
    from clusterstacks.admission.ours import OwnKinds
    from clusterstacks.admission.reviews import Review
    from clusterstacks.domain.admission.answers import Answer
    from clusterstacks.runtime.events import EventRecorder


class Judge:
    """Answers every question.

    Args:
        own: Judges our kinds.
        clusters: Judges Clusters.
        events: Where it is told that an annotation let something through.
    """

    def __init__(self, own: OwnKinds, clusters: ClusterJudge, events: EventRecorder) -> None:
        self._own: dict[tuple[str, str], Callable[[Review], Awaitable[Answer]]] = {
            (GROUP, Kind.CLUSTER_STACK): own.stack,
            (GROUP, Kind.CLUSTER_STACK_RELEASE): own.release,
            (GROUP, Kind.CLUSTER_ADDON): own.addon,
            (GROUP, Kind.COMPATIBILITY_RULE): own.rule,
        }
        self._clusters = clusters
        self._events = events
        self._telling: set[asyncio.Task[None]] = set()

    async def judge(self, review: Review) -> Answer:
        """Answer a question; a kind nobody asked to be asked about is allowed.

        Raises:
            ClusterStacksError: What is needed for the answer cannot be had.
        """
        if (review.group, review.kind) == (CLUSTER_API_GROUP, CLUSTER_KIND):
            answer = await self._clusters.judge(review)
            if answer.excused and not review.dry_run:
                self._tell(review, answer)
            return answer
        decide = self._own.get((review.group, review.kind))
        return await decide(review) if decide is not None else ALLOWED

    async def close(self) -> None:
        """Wait for what is being told."""
        await asyncio.gather(*self._telling)

    def _tell(self, review: Review, answer: Answer) -> None:
        """Write the event while the answer is on its way: the writer need not wait for it."""
        told = self._events.record(review.new, "Warning", EventReason.INCOMPATIBLE_ALLOWED, answer.excused)
        task = asyncio.create_task(told, name="event of an admission")
        self._telling.add(task)
        task.add_done_callback(self._telling.discard)
