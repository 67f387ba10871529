"""Recorder of Kubernetes events."""

from __future__ import annotations

import logging
from collections import OrderedDict
from typing import TYPE_CHECKING, Final, Literal, TypeAlias

from clusterstacks.model.errors import ClusterStacksError
from clusterstacks.runtime.clock import SYSTEM_CLOCK, Clock

if TYPE_CHECKING:
    from datetime import datetime

    from clusterstacks.model.objects import Manifest
    from clusterstacks.net.kube.client import Client

EventType: TypeAlias = Literal["Normal", "Warning"]

MESSAGE_LIMIT: Final = 1024
"""Maximum characters; source: the limit of a note in events.k8s.io/v1."""

REMEMBERED: Final = 4096
"""Number of objects whose last event is remembered; the oldest event is dropped first (arbitrary)."""

log = logging.getLogger(__name__)


class EventRecorder:
    """Writes events of the core group, for which installations of the Go operator already have the permission.

    An event equal to the last one of its object is not repeated. The last events are only in memory, so record an event
    only when a status changes and not in every reconcile; then a restart repeats nothing.
    """

    def __init__(self, client: Client, component: str, *, clock: Clock = SYSTEM_CLOCK) -> None:
        self._client = client
        self._component = component
        self._clock = clock
        self._last: OrderedDict[str, int] = OrderedDict()  # uid -> hash of the last event

    async def record(self, regarding: Manifest, type: EventType, reason: str, message: str) -> None:  # noqa: A002 - its name in the API
        """Write an event unless it equals the last one of the object; failures are logged and not raised.

        ``regarding`` contains the object's uid. The message must not contain secrets.
        """
        uid = regarding["metadata"].get("uid", "")
        content = hash((type, reason, message))
        if self._last.get(uid) == content:
            return
        self._last[uid] = content
        self._last.move_to_end(uid)
        if len(self._last) > REMEMBERED:
            self._last.popitem(last=False)
        event = self._event(regarding, type, reason, message)
        try:
            resource = await self._client.resource("", "Event", "v1")
            await self._client.create(resource, event, event["metadata"]["namespace"])
        except ClusterStacksError as error:
            self._last.pop(uid, None)
            log.warning("Event %s was not written: %s", reason, error)

    def _event(self, regarding: Manifest, type: EventType, reason: str, message: str) -> Manifest:  # noqa: A002 - as above
        metadata = regarding["metadata"]
        now = self._clock.now()
        seen = _timestamp(now)
        return {
            "apiVersion": "v1",
            "kind": "Event",
            "metadata": {
                # A fixed name makes retries idempotent; a name may have 253 characters.
                "name": f"{metadata['name'][:230].rstrip('-.')}.{int(now.timestamp() * 1e6):x}",
                # Events of cluster-scoped objects are in "default", where kubectl expects them.
                "namespace": metadata.get("namespace") or "default",
            },
            "involvedObject": {
                "apiVersion": regarding["apiVersion"],
                "kind": regarding["kind"],
                "name": metadata["name"],
                "namespace": metadata.get("namespace", ""),
                "uid": metadata.get("uid", ""),
                "resourceVersion": metadata.get("resourceVersion", ""),
            },
            "type": type,
            "reason": reason,
            "message": message if len(message) <= MESSAGE_LIMIT else f"{message[: MESSAGE_LIMIT - 3]}...",
            "source": {"component": self._component},
            "reportingComponent": self._component,
            "firstTimestamp": seen,
            "lastTimestamp": seen,
            "count": 1,
        }


def _timestamp(moment: datetime) -> str:
    return moment.strftime("%Y-%m-%dT%H:%M:%SZ")
