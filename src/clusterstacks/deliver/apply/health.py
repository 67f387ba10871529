"""Reads the health of the objects that addons delivered, with one list per kind, and why they are not healthy."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from functools import partial
from typing import TYPE_CHECKING, Final

from clusterstacks.deliver.apply.delivery import RECORD_NAMESPACE
from clusterstacks.deliver.apply.drift_rules import may_be_gone
from clusterstacks.deliver.apply.health_rules import (
    NOT_BOUND,
    Health,
    HealthState,
    has_state,
    health_of,
    health_of_pending_claim,
    storage_class_of,
    unhealthy_since,
)
from clusterstacks.deliver.apply.live_fields import one_line
from clusterstacks.deliver.apply.live_members import read_live_members
from clusterstacks.deliver.apply.ownership import PART_OF_LABEL
from clusterstacks.deliver.apply.record_store import ADDON_RECORD, applyset_id, record_name
from clusterstacks.model.documents import and_more, at, mapping, mappings, text
from clusterstacks.model.errors import ClusterStacksError
from clusterstacks.net.kube.resources import Resource
from clusterstacks.runtime.concurrency import gather

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

    from clusterstacks.deliver.apply.delivery_plan import RecordedObject
    from clusterstacks.deliver.apply.health_expressions import HealthExpressions
    from clusterstacks.deliver.apply.live_members import LiveMembers
    from clusterstacks.deliver.apply.results import ObjectResult
    from clusterstacks.model.objects import Manifest, ObjectId
    from clusterstacks.net.kube.client import Client

SHOWN_OBJECTS: Final = 3
"""Unhealthy objects that a message names, and whose Pods or events are read (arbitrary)."""

GRACE: Final = timedelta(seconds=5)
"""Age of an object in progress up to which Pods and events are not read: its Pods have hardly been created. Arbitrary;
clusters are read again after a few seconds."""

PODS: Final = Resource("", "v1", "Pod", "pods", namespaced=True)
EVENTS: Final = Resource("", "v1", "Event", "events", namespaced=True)
STORAGE_CLASSES: Final = Resource("storage.k8s.io", "v1", "StorageClass", "storageclasses", namespaced=False)

_LABEL: Final = re.compile(r"[A-Za-z0-9./_-]{1,317}")
_VALUE: Final = re.compile(r"[A-Za-z0-9._-]{0,63}")
"""Labels of a selector; the API server checks them more closely."""


@dataclass(frozen=True, slots=True)
class UnhealthyObject:
    """A delivered object that is not healthy.

    Args:
        addon: The addon that delivered it.
        since: When a condition of the object began to say so (RFC 3339); empty where none does.
        cause: The reason of one of its Pods, or its last warning event; otherwise empty.
    """

    id: ObjectId
    addon: str
    health: Health
    since: str = ""
    cause: str = ""

    def __str__(self) -> str:
        """``Deployment.apps kube-system/dns: 0 of 1 replicas exist (LessReplicas) since ...: container dns: ...``."""
        health = self.health
        why = f"{health.message} ({health.reason})" if health.message and health.reason else ""
        why = why or health.message or health.reason or health.state
        since = f" since {self.since}" if self.since else ""
        return f"{self.id}: {why}{since}{f': {self.cause}' if self.cause else ''}"


@dataclass(frozen=True, slots=True)
class HealthReport:
    """Health of the delivered objects of a cluster.

    Args:
        unhealthy: Objects that are not healthy, failed ones first, then by addon and name.
        objects: Number of objects that were read.
    """

    unhealthy: tuple[UnhealthyObject, ...]
    objects: int

    @property
    def failed(self) -> bool:
        """True if an object has failed, so that time alone will probably not help."""
        return any(one.health.state is HealthState.FAILED for one in self.unhealthy)

    def of_addons(self, addons: Collection[str]) -> HealthReport:
        """Return the report about the objects of some addons; ``objects`` stays that of all."""
        return replace(self, unhealthy=tuple(one for one in self.unhealthy if one.addon in addons))

    @property
    def message(self) -> str:
        """Name the first unhealthy objects, and the number of others."""
        return and_more([str(one) for one in self.unhealthy], SHOWN_OBJECTS, separator="; ", noun="objects")


def stateful(addon: str, objects: Iterable[RecordedObject | ObjectResult]) -> dict[ObjectId, str]:
    """Return the objects of an addon that can be unhealthy, with the addon."""
    return {known.id: addon for known in objects if has_state(known.id.group, known.id.kind)}


async def read_health(
    client: Client,
    objects: Mapping[ObjectId, str],
    now: datetime,
    expressions: HealthExpressions,
    kind: str = ADDON_RECORD,
) -> HealthReport:
    """Read the objects of a workload cluster and judge them.

    Args:
        client: The workload cluster.
        objects: The objects with the addons that delivered them.
        now: Current time.
        expressions: Judges the objects whose annotations have expressions.
        kind: The kind of the records of the objects.

    Raises:
        DependencyError: The cluster is not available, or a list exceeds the bounds of the client.
    """
    labels = members_selector(objects.values(), kind)
    members = await read_live_members(client, objects, labels=labels, whole=objects)
    return await judge_health(client, objects, members, now, expressions)


def members_selector(addons: Iterable[str], kind: str = ADDON_RECORD) -> str:
    """Return the label selector of the objects of some addons; ``kind`` is that of their records."""
    sets = {applyset_id(record_name(addon, kind), RECORD_NAMESPACE) for addon in set(addons)}
    return f"{PART_OF_LABEL} in ({','.join(sorted(sets))})"


async def judge_health(
    client: Client,
    objects: Mapping[ObjectId, str],
    members: LiveMembers,
    now: datetime,
    expressions: HealthExpressions,
) -> HealthReport:
    """Judge objects that were read whole; read Pods and events of the first unhealthy ones.

    Args:
        client: The workload cluster.
        objects: The objects with the addons that delivered them.
        members: The live objects; further members do not count. Objects of unchanged kinds were healthy.
        now: Current time.
        expressions: Judges the objects whose annotations have expressions.
    """
    readable = {one: live for one, live in members.live.items() if one in objects and one not in members.unreadable}
    judged = await expressions.judge(readable, now)
    unhealthy = []
    for identity, addon in objects.items():
        if (identity.group, identity.kind) in members.unchanged:
            continue
        health = judged.get(identity) or _health(identity, members, now)
        if health.reason == NOT_BOUND and identity in readable:
            health = await _of_pending_claim(client, readable[identity], health)
        if not health.healthy:
            since = unhealthy_since(members.live.get(identity, {}))
            unhealthy.append(UnhealthyObject(identity, addon, health, since))
    unhealthy.sort(key=lambda one: (one.health.state is not HealthState.FAILED, one.addon, one.id))
    shown = await gather(partial(_with_cause, client, members, now), unhealthy[:SHOWN_OBJECTS])
    return HealthReport((*shown, *unhealthy[SHOWN_OBJECTS:]), len(objects))


def _health(identity: ObjectId, members: LiveMembers, now: datetime) -> Health:
    live = members.live.get(identity)
    if live is None and may_be_gone(identity):
        return Health(HealthState.CURRENT)
    if live is None:
        served = (identity.group, identity.kind) in members.places
        why = f"it does not exist, or lacks the label {PART_OF_LABEL}" if served else "its kind is not served"
        return Health(HealthState.NOT_FOUND, HealthState.NOT_FOUND, why)
    if identity in members.unreadable:
        return Health(HealthState.UNKNOWN, "Unreadable", "it exceeds the limits of what is read")
    return health_of(live, now)


async def _of_pending_claim(client: Client, claim: Manifest, health: Health) -> Health:
    """Judge a PersistentVolumeClaim by its StorageClass; nothing is known of one that cannot be read."""
    storage_class = storage_class_of(claim)
    if not storage_class:
        return health
    try:
        return health_of_pending_claim(health, storage_class, await client.find(STORAGE_CLASSES, storage_class))
    except ClusterStacksError:
        return health


async def _with_cause(client: Client, members: LiveMembers, now: datetime, one: UnhealthyObject) -> UnhealthyObject:
    """Add the reason of a Pod or event; there is none if they cannot be read."""
    live = members.live.get(one.id)
    if live is None or one.id in members.unreadable or _is_new(live, one.health, now):
        return one
    try:
        cause = await _pod_cause(client, live, now) or await _last_warning(client, live)
    except ClusterStacksError:
        return one
    return replace(one, cause=one_line(cause))


def _is_new(live: Manifest, health: Health, now: datetime) -> bool:
    """Return whether an object in progress was created a moment ago, so that nothing can be wrong yet."""
    created = text(live, "metadata", "creationTimestamp")
    return health.state is HealthState.IN_PROGRESS and bool(created) and now - datetime.fromisoformat(created) < GRACE


async def _pod_cause(client: Client, live: Manifest, now: datetime) -> str:
    """Return why the first unhealthy Pod of a workload is not healthy; empty when all are, or it selects none.

    A Pod that does not say why has a warning event, for example about a missing volume or a failed readiness probe.
    """
    if live["kind"] == "Pod":
        return _cause_in_pod(live)
    labels = mapping(live, "spec", "selector", "matchLabels")
    valid = all(
        _LABEL.fullmatch(str(name)) and isinstance(value, str) and _VALUE.fullmatch(value)
        for name, value in labels.items()
    )
    if not labels or not valid:
        return ""
    selector = ",".join(f"{name}={value}" for name, value in sorted(labels.items()))
    pods = await client.list_readable(PODS, live["metadata"].get("namespace") or "", labels=selector)
    ill = [pod for pod in pods.items if not health_of(pod, now).healthy]
    causes = sorted(cause for pod in ill if (cause := _cause_in_pod(pod)))
    if causes or not ill:
        return causes[0] if causes else ""
    return await _last_warning(client, min(ill, key=lambda pod: text(pod, "metadata", "name")))


def _cause_in_pod(pod: Manifest) -> str:
    """Return the reason of the first container that waits, or why the Pod is not scheduled."""
    statuses = [*mappings(pod, "status", "initContainerStatuses"), *mappings(pod, "status", "containerStatuses")]
    for status in statuses:
        reason = text(status, "state", "waiting", "reason")
        if reason and reason not in {"ContainerCreating", "PodInitializing"}:
            return f"container {text(status, 'name')}: {reason}{_details(status)}"
    for status in statuses:
        reason = text(status, "state", "terminated", "reason")
        if reason and reason != "Completed":
            return f"container {text(status, 'name')}: {reason}"
    for condition in mappings(pod, "status", "conditions"):
        if (text(condition, "type"), text(condition, "status")) == ("PodScheduled", "False"):
            return f"{text(condition, 'reason')}: {text(condition, 'message')}"
    return ""


def _details(status: Manifest) -> str:
    """Return the exit code of a container that crashed, or the message; that of a crash changes with every restart."""
    code = at(status, "lastState", "terminated", "exitCode")
    if isinstance(code, int) and abs(code) < 2**31:
        return f" (exit code {code})"
    message = text(status, "state", "waiting", "message")
    is_crash = text(status, "state", "waiting", "reason") == "CrashLoopBackOff"
    return f": {message}" if message and not is_crash else ""


async def _last_warning(client: Client, live: Manifest) -> str:
    """Return reason and message of the last warning about an object."""
    uid = text(live, "metadata", "uid")
    namespace = text(live, "metadata", "namespace") or "default"
    listing = await client.list(EVENTS, namespace, fields=f"involvedObject.uid={uid},type=Warning")
    last = max(listing.items, key=_moment_of, default={})
    return f"{text(last, 'reason')}: {text(last, 'message')}" if last else ""


def _moment_of(event: Manifest) -> str:
    return text(event, "lastTimestamp") or text(event, "eventTime") or text(event, "metadata", "creationTimestamp")
