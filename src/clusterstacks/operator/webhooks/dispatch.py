"""Dispatches admission requests to the validator of their kind, and records an event when an annotation allows one.

Requests are not authenticated: any client that reaches the port can send one. So the event is written only once the
informer shows the Cluster with the uid, class, version and annotations of the request.
"""

from __future__ import annotations

import asyncio
import logging
from datetime import timedelta
from typing import TYPE_CHECKING, Final

from clusterstacks.model.documents import mapping, text
from clusterstacks.model.kinds.clusterapi import cluster_view
from clusterstacks.model.kinds.names import CLUSTER_API_GROUP, CLUSTER_KIND, GROUP, EventReason, Kind
from clusterstacks.operator.webhooks.answers import ALLOWED
from clusterstacks.runtime.background_tasks import RateLimiter
from clusterstacks.runtime.clock import SYSTEM_CLOCK

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from clusterstacks.model.objects import Manifest, ObjectKey
    from clusterstacks.operator.webhooks.answers import AdmissionResponse
    from clusterstacks.operator.webhooks.cluster_validator import ClusterValidator
    from clusterstacks.operator.webhooks.reviews import AdmissionRequest
    from clusterstacks.operator.webhooks.stack_validators import StackValidators
    from clusterstacks.runtime.cache import ObjectCache
    from clusterstacks.runtime.clock import Clock
    from clusterstacks.runtime.events import EventRecorder

PAUSES_SECONDS: Final = (0.2, 1.0, 5.0)
"""Pauses before each lookup of a Cluster that an annotation allowed. Arbitrary: the watch reports a write within
milliseconds, and later under load."""

EVENTS, EVENT_INTERVAL = 100, timedelta(seconds=10)
"""Rate limit for events, and so for lookups of Clusters: the burst, and the interval after it. Arbitrary."""

REFUSALS_LOGGED, REFUSAL_INTERVAL = 100, timedelta(seconds=1)
"""Rate limit for log lines about refusals: the burst, and the interval after it. Arbitrary."""

log = logging.getLogger(__name__)


class Validator:
    """Validates objects of all kinds: ``own`` those of our kinds, and ``clusters`` Clusters.

    ``live`` has all Clusters, from their informer. ``decided`` is called with the kind and the decision: allowed,
    warned, refused or failed.
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
            (GROUP, Kind.CLUSTER_UPGRADE): own.upgrade,
        }
        self._clusters = clusters
        self._events = events
        self._live = live
        self._clock = clock
        self._recording: set[asyncio.Task[None]] = set()
        self._recorded = RateLimiter(EVENTS, EVENT_INTERVAL, clock)
        self._logged = RateLimiter(REFUSALS_LOGGED, REFUSAL_INTERVAL, clock)

    async def validate(self, request: AdmissionRequest) -> AdmissionResponse:
        """Answer a request; a kind without a validator is allowed."""
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
        if answer.excused and not request.dry_run and self._recorded.take() == 0:
            # In the background, so that the answer does not wait for the event.
            recorded = self._record_once_written(cluster_view(request.new).key, _validated(request.new), answer.excused)
            task = asyncio.create_task(recorded, name="event of an admission")
            self._recording.add(task)
            task.add_done_callback(self._recording.discard)
        return answer

    async def close(self) -> None:
        """Cancel the events that are not written yet."""
        for task in self._recording:
            task.cancel()
        await asyncio.gather(*self._recording, return_exceptions=True)

    async def _record_once_written(self, cluster: ObjectKey, asked: tuple[object, ...], message: str) -> None:
        for pause in PAUSES_SECONDS:
            await self._clock.sleep(pause)
            live = self._live.get(cluster)
            if live is not None and _validated(live) == asked:
                await self._events.record(live, "Warning", EventReason.INCOMPATIBLE_ALLOWED, message)
                return


def _validated(cluster: Manifest) -> tuple[object, ...]:
    """Return the identity of a Cluster, and the fields that the webhook validates."""
    view = cluster_view(cluster)
    annotations = {key: value for key, value in view.annotations.items() if key.startswith(f"{GROUP}/")}
    return view.uid, view.class_key, view.version, annotations
