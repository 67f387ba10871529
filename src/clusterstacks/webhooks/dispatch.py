"""Dispatches admission requests to the validator of their kind, and records an event when an annotation allows one.

A request proves nothing, because every client that reaches the port can send one. The event is written once the
informer shows the Cluster with the uid, class, version and annotations of the request.
"""

from __future__ import annotations

import asyncio
import logging
from collections import OrderedDict
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Final

from clusterstacks.api.clusterapi import cluster_view
from clusterstacks.api.names import CLUSTER_API_GROUP, CLUSTER_KIND, GROUP, EventReason, Kind
from clusterstacks.domain.documents import mapping, text
from clusterstacks.runtime.background_tasks import RateLimiter
from clusterstacks.runtime.clock import SYSTEM_CLOCK
from clusterstacks.webhooks.answers import ALLOWED

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from clusterstacks.domain.objects import Manifest, ObjectKey
    from clusterstacks.runtime.cache import ObjectCache
    from clusterstacks.runtime.clock import Clock
    from clusterstacks.runtime.events import EventRecorder
    from clusterstacks.webhooks.answers import AdmissionResponse
    from clusterstacks.webhooks.cluster_validator import ClusterValidator
    from clusterstacks.webhooks.reviews import AdmissionRequest
    from clusterstacks.webhooks.stack_validators import StackValidators

PAUSES_SECONDS: Final = (0.2, 1.0, 5.0)
"""Pauses before each look for a Cluster that an annotation allowed. Arbitrary: the watch reports a write within
milliseconds, and later under load."""

MOST_AWAITED: Final = 512
"""Clusters that are looked for at a time; for further ones no event is written. As many as there are connections."""

REMEMBERED: Final = 4096
"""Clusters whose last event is remembered, as ``runtime.events`` does (arbitrary)."""

REFUSALS_LOGGED, REFUSAL_INTERVAL = 100, timedelta(seconds=1)
"""Rate limit for log lines about refusals: the burst, and the interval after it. Arbitrary."""

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
    """Validates objects of all kinds.

    Args:
        own: Validates our kinds.
        clusters: Validates Clusters.
        events: Records that an annotation allowed a change.
        live: All Clusters, from their informer.
        clock: Pauses between two looks for a Cluster.
        decided: Called with kind and decision: allowed, warned, refused or failed.
    """

    def __init__(
        self,
        own: StackValidators,
        clusters: ClusterValidator,
        events: EventRecorder,
        live: ObjectCache,
        clock: Clock = SYSTEM_CLOCK,
        decided: Callable[[str, str], None] = lambda _kind, _decision: None,
    ) -> None:
        self._decided = decided
        self._own: dict[tuple[str, str], Callable[[AdmissionRequest], Awaitable[AdmissionResponse]]] = {
            (GROUP, Kind.CLUSTER_STACK): own.stack,
            (GROUP, Kind.CLUSTER_STACK_RELEASE): own.release,
            (GROUP, Kind.CLUSTER_ADDON): own.addon,
            (GROUP, Kind.COMPATIBILITY_RULE): own.rule,
        }
        self._clusters = clusters
        self._events = events
        self._live = live
        self._clock = clock
        self._recorded: OrderedDict[str, tuple[int, Written]] = OrderedDict()  # uid -> generation and state
        self._recording: set[asyncio.Task[None]] = set()
        self._logged = RateLimiter(REFUSALS_LOGGED, REFUSAL_INTERVAL, clock)

    async def validate(self, request: AdmissionRequest) -> AdmissionResponse:
        """Answer a request; a kind without a validator is allowed.

        Raises:
            ClusterStacksError: Something that is needed for the answer cannot be read.
        """
        kind = (request.group, request.kind)
        decide = self._validate_cluster if kind == (CLUSTER_API_GROUP, CLUSTER_KIND) else self._own.get(kind)
        if decide is None:
            return ALLOWED
        decision = "failed"
        try:
            answer = await decide(request)
            decision = answer.decision
        finally:
            self._decided(request.kind, decision)
        if answer.refusal:
            self._log_refusal(request, answer)
        return answer

    def _log_refusal(self, request: AdmissionRequest, answer: AdmissionResponse) -> None:
        """Log a refusal; every client that reaches the port can cause one, so their number is limited."""
        if self._logged.take() == 0:
            metadata = mapping(request.new or request.old, "metadata")
            name = f"{text(metadata, 'namespace')}/{text(metadata, 'name')}"
            log.info("%s of %s %s is refused: %s", request.operation, request.kind, name, answer.refusal)

    async def _validate_cluster(self, request: AdmissionRequest) -> AdmissionResponse:
        answer = await self._clusters.validate(request)
        if answer.excused and not request.dry_run:
            self._record_later(request, answer)
        return answer

    async def close(self) -> None:
        """Give up the events that are not written yet."""
        for task in self._recording:
            task.cancel()
        await asyncio.gather(*self._recording, return_exceptions=True)

    def _record_later(self, request: AdmissionRequest, answer: AdmissionResponse) -> None:
        """Write the event in the background: the answer does not wait for it."""
        if len(self._recording) >= MOST_AWAITED:
            log.warning("Annotations allow so many Clusters at a time that no event is written for some of them")
            return
        recorded = self._record_once_written(written(request.new), answer.excused)
        task = asyncio.create_task(recorded, name="event of an admission")
        self._recording.add(task)
        task.add_done_callback(self._recording.discard)

    async def _record_once_written(self, asked: Written, message: str) -> None:
        for pause in PAUSES_SECONDS:
            await self._clock.sleep(pause)
            live = self._live.get(asked.cluster)
            if live is None or written(live) != asked:
                continue
            if self._is_news(live, asked):
                await self._events.record(live, "Warning", EventReason.INCOMPATIBLE_ALLOWED, message)
            return

    def _is_news(self, live: Manifest, state: Written) -> bool:
        """Note a state of a Cluster; its event is written once, however many requests contain it."""
        now = (live["metadata"].get("generation", 0), state)
        if self._recorded.get(state.uid) == now:
            return False
        self._recorded[state.uid] = now
        self._recorded.move_to_end(state.uid)
        if len(self._recorded) > REMEMBERED:
            self._recorded.popitem(last=False)
        return True
