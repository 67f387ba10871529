"""Judges the health of live objects by the rules of kstatus.

Source of the rules and reasons: https://pkg.go.dev/sigs.k8s.io/cli-utils/pkg/kstatus/status (v0.37.2). APIServices have
a rule of our own, because kstatus does not read their condition ``Available``. The owner of a workload cluster can
write any value into an object, so every field is checked before it is used.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from enum import StrEnum
from typing import TYPE_CHECKING, Final, TypeAlias

from clusterstacks.deliver.apply.live_fields import (
    ABSENT,
    LONG_AGO,
    LiveCondition,
    Malformed,
    checked_number,
    conditions_of,
    moment,
    number_at,
    one_line,
    text_at,
    value_at,
)
from clusterstacks.deliver.apply.ownership import FIELD_MANAGER
from clusterstacks.model.objects import Manifest, split_api_version

if TYPE_CHECKING:
    from collections.abc import Iterable

REASON_CHARACTERS: Final = 64

NOT_BOUND: Final = "NotBound"
"""Reason of a PersistentVolumeClaim that is not bound."""

SCHEDULING_TIME: Final = timedelta(seconds=15)
"""Age up to which an unschedulable Pod is in progress, as in kstatus."""

SETTLE_TIME: Final = timedelta(seconds=10)
"""Time that a controller has to react to a delivery. Arbitrary: most take milliseconds, and their work queues retry
after some seconds."""


class HealthState(StrEnum):
    """State of an object, with the values of kstatus."""

    CURRENT = "Current"
    IN_PROGRESS = "InProgress"
    FAILED = "Failed"
    TERMINATING = "Terminating"
    NOT_FOUND = "NotFound"
    UNKNOWN = "Unknown"
    """A field that decides has the wrong type (kstatus returns an error), or an expression cannot decide."""


@dataclass(frozen=True, slots=True)
class Health:
    """Health of one object.

    Args:
        state: Only ``CURRENT`` is healthy.
        reason: CamelCase; empty when healthy, or when the object gives none.
        message: Why it is not healthy, in one line of at most ``MESSAGE_CHARACTERS``.
    """

    state: HealthState
    reason: str = ""
    message: str = ""

    @property
    def healthy(self) -> bool:
        """True if the object is as its spec wants it."""
        return self.state is HealthState.CURRENT


_CURRENT: Final = Health(HealthState.CURRENT)
_NO_DEADLINE: Final = 2**31 - 1
"""``progressDeadlineSeconds`` without which the Deployment controller sets no condition Progressing."""


def health_of(live: Manifest, now: datetime) -> Health:
    """Return the health of an object as the API server returned it.

    Args:
        live: The object with apiVersion and kind; all other fields may have any type.
        now: Current time, for Pods that are not scheduled and for states from before a delivery.
    """
    group, _ = split_api_version(live["apiVersion"])
    rule = RULES.get((group, live["kind"]), _by_ready_condition)
    try:
        return lifecycle_health(live) or _by_generic_conditions(live) or rule(live, now)
    except Malformed as error:
        kind = f"{live['kind']}.{group}" if group else live["kind"]
        way_out = f"a health rule for {kind} in clusteraddon.yaml is used instead of it"
        return Health(HealthState.UNKNOWN, "Malformed", one_line(f"{error} has the wrong type; {way_out}"))


def unhealthy_since(live: Manifest) -> str:
    """Return when a condition of the object began to say that it is not healthy; empty when none says so."""
    try:
        conditions = conditions_of(live)
    except Malformed:
        return ""
    for one in conditions:
        if one.status != _USUAL.get(one.type, one.status) and moment(one.since) is not LONG_AGO:
            return one.since
    return ""


_USUAL: Final[Mapping[str, str]] = {
    **dict.fromkeys(("Available", "Established", "NamesAccepted", "PodScheduled", "Ready"), "True"),
    **dict.fromkeys(("Failed", "ReplicaFailure", "Stalled"), "False"),
}
"""Status of conditions of a healthy object."""


def lifecycle_health(live: Manifest) -> Health | None:
    """Decide by deletionTimestamp and observedGeneration; None if these do not decide.

    Raises:
        Malformed: One of them has the wrong type.
    """
    deleted = value_at(live, "metadata", "deletionTimestamp")
    if deleted is not ABSENT and not isinstance(deleted, str):
        raise Malformed("metadata.deletionTimestamp")
    if deleted is not ABSENT and deleted:
        return Health(HealthState.TERMINATING, "Terminating", "it is being deleted")
    generation = checked_number(live, "metadata", "generation")
    observed = _observed_generation(live) if generation is not None else None
    if observed is not None and observed != generation:
        message = f"its controller has observed generation {observed}, not {generation}"
        return _in_progress("LatestGenerationNotObserved", message)
    return None


def _observed_generation(live: Manifest) -> int | None:
    """Return ``status.observedGeneration``, which some controllers write as text; None if it is absent.

    Raises:
        Malformed: It is neither an integer nor the text of one.
    """
    value = value_at(live, "status", "observedGeneration")
    if isinstance(value, str) and len(value) <= _DIGITS and value.isascii() and value.isdecimal():
        return int(value)
    return checked_number(live, "status", "observedGeneration")


_DIGITS: Final = 18
"""Digits of the longest text that is read as a number: all of them are integers of 64 bits."""


def stale_health(live: Manifest, now: datetime) -> Health | None:
    """Return that the status is from before the last delivery; None if it may be judged.

    An object without observedGeneration does not say whether its controller has seen the delivery. Its status counts
    when it was written after the last change of our fields, or ``SETTLE_TIME`` after that change. The times are those
    of ``metadata.managedFields``, in seconds; a status of the same second may be older, unless the object was created
    in it. A status that no controller has written says nothing old. If the clocks of operator and API server differ
    by more than ``SETTLE_TIME``, the status is judged at once, so that no object waits for a wrong clock.
    """
    entries = value_at(live, "metadata", "managedFields")
    if not isinstance(entries, list) or value_at(live, "status", "observedGeneration") is not ABSENT:
        return None
    valid = [entry for entry in entries if isinstance(entry, dict)]
    applied = max((_written(one) for one in valid if one.get("manager") == FIELD_MANAGER), default=LONG_AGO)
    status = max((_written(one) for one in valid if _has_status(one)), default=None)
    created = moment(text_at(live, "", "metadata", "creationTimestamp"))
    if status is None or status > applied or created >= applied or abs(now - applied) >= SETTLE_TIME:
        return None
    message = f"its status is from before the delivery; it counts {SETTLE_TIME.seconds} s after the delivery"
    return _in_progress("StatusNotObserved", message)


def _written(entry: Mapping[str, object]) -> datetime:
    time = entry.get("time")
    return moment(time) if isinstance(time, str) else LONG_AGO


def _has_status(entry: Mapping[str, object]) -> bool:
    fields = entry.get("fieldsV1")
    return isinstance(fields, dict) and "f:status" in fields


def _by_generic_conditions(live: Manifest) -> Health | None:
    """Decide by the conditions Reconciling and Stalled."""
    for one in conditions_of(live):
        if (one.type, one.status) == ("Reconciling", "True"):
            return _in_progress(one.reason, one.message)
        if (one.type, one.status) == ("Stalled", "True"):
            return _failed(one.reason, one.message)
    return None


def _by_ready_condition(live: Manifest, now: datetime) -> Health:
    """Decide by the condition Ready; an object without it is healthy."""
    ready = [one for one in conditions_of(live) if one.type == "Ready" and one.status in {"True", "False", "Unknown"}]
    if not ready or ready[0].status == "True":
        return stale_health(live, now) or _CURRENT
    return _in_progress(ready[0].reason, ready[0].message)


def _always(_: Manifest, __: datetime) -> Health:
    return _CURRENT


def _deployment(live: Manifest, _: datetime) -> Health:
    progresses = number_at(live, _NO_DEADLINE, "spec", "progressDeadlineSeconds") == _NO_DEADLINE
    available = False
    for one in conditions_of(live):
        if one.type == "Progressing" and one.reason == "ProgressDeadlineExceeded":
            return _failed(one.reason, one.message)
        progresses |= (one.type, one.status, one.reason) == ("Progressing", "True", "NewReplicaSetAvailable")
        available |= (one.type, one.status) == ("Available", "True")
    wanted = number_at(live, 1, "spec", "replicas")
    existing, updated, ready, usable = _counts(
        live, "replicas", "updatedReplicas", "readyReplicas", "availableReplicas"
    )
    return _first(
        _fewer("LessReplicas", existing, wanted, "replicas exist"),
        _fewer("LessUpdated", updated, wanted, "replicas are updated"),
        _extra_pods(existing, wanted),
        _fewer("LessAvailable", usable, updated, "updated replicas are available"),
        _fewer("LessReady", ready, wanted, "replicas are ready"),
        None if progresses else _in_progress("ReplicaSetNotAvailable", "its new ReplicaSet is not available"),
        None if available else _in_progress("DeploymentNotAvailable", "its condition Available is not True"),
    )


def _stateful_set(live: Manifest, _: datetime) -> Health:
    if text_at(live, "", "spec", "updateStrategy", "type") == "OnDelete":
        return _CURRENT  # a person updates its Pods
    wanted = number_at(live, 1, "spec", "replicas")
    existing, ready, current, updated = _counts(live, "replicas", "readyReplicas", "currentReplicas", "updatedReplicas")
    partition = number_at(live, -1, "spec", "updateStrategy", "rollingUpdate", "partition")
    same = text_at(live, "", "status", "currentRevision") == text_at(live, "", "status", "updateRevision")
    revision = (
        _fewer("LessCurrent", current, wanted, "replicas have the current revision"),
        None if same else _in_progress("RevisionMismatch", "its replicas are replaced by those of a new revision"),
    )
    part = _fewer("PartitionRollout", updated, wanted - partition, "replicas of the partition are updated")
    return _first(
        _fewer("LessReplicas", existing, wanted, "replicas exist"),
        _fewer("LessReady", ready, wanted, "replicas are ready"),
        _extra_pods(existing, wanted),
        *(revision if partition == -1 else (part,)),
    )


def _replica_set(live: Manifest, _: datetime) -> Health:
    failing = [one for one in conditions_of(live) if (one.type, one.status) == ("ReplicaFailure", "True")]
    wanted = number_at(live, 1, "spec", "replicas")
    existing, ready, usable, labelled = _counts(
        live, "replicas", "readyReplicas", "availableReplicas", "fullyLabeledReplicas"
    )
    return _first(
        _in_progress("ReplicaFailure", failing[0].message) if failing else None,
        _fewer("LessLabelled", labelled, wanted, "replicas have the labels"),
        _fewer("LessAvailable", usable, wanted, "replicas are available"),
        _fewer("LessReady", ready, wanted, "replicas are ready"),
        _extra_pods(existing, wanted),
    )


def _daemon_set(live: Manifest, _: datetime) -> Health:
    # Its controller sets both, so without them it has not seen the DaemonSet yet.
    if checked_number(live, "metadata", "generation") is None:
        return _in_progress("NoGeneration", "metadata.generation is not set")
    if checked_number(live, "status", "observedGeneration") is None:
        return _in_progress("NoObservedGeneration", "status.observedGeneration is not set")
    wanted = number_at(live, -1, "status", "desiredNumberScheduled")
    if wanted == -1:
        return _in_progress("NoDesiredNumber", "status.desiredNumberScheduled is not set")
    current, updated, usable, ready = _counts(
        live, "currentNumberScheduled", "updatedNumberScheduled", "numberAvailable", "numberReady"
    )
    return _first(
        _fewer("LessCurrent", current, wanted, "Pods are scheduled"),
        _fewer("LessUpdated", updated, wanted, "Pods are updated"),
        _fewer("LessAvailable", usable, wanted, "Pods are available"),
        _fewer("LessReady", ready, wanted, "Pods are ready"),
    )


def _job(live: Manifest, _: datetime) -> Health:
    for one in conditions_of(live):
        if (one.type, one.status) == ("Complete", "True"):
            return _CURRENT
        if (one.type, one.status) == ("Failed", "True"):
            (failed,) = _counts(live, "failed")
            why = f": {one.message}" if one.message else ""
            return _failed("JobFailed", f"the Job failed after {failed} failed Pods{why}")
    started = text_at(live, "", "status", "startTime")
    return _CURRENT if started else _in_progress("JobNotStarted", "the Job has not started")


def _claim(live: Manifest, _: datetime) -> Health:
    phase = text_at(live, "unknown", "status", "phase")
    return _CURRENT if phase == "Bound" else _in_progress(NOT_BOUND, f"its phase is {phase or 'empty'}, not Bound")


def storage_class_of(claim: Manifest) -> str:
    """Return the StorageClass that decides whether a pending PersistentVolumeClaim is healthy; empty if none does.

    After the scheduler has selected a node, the claim has a consumer and must become bound.
    """
    pending = text_at(claim, "", "status", "phase") == "Pending"
    selected = text_at(claim, "", "metadata", "annotations", "volume.kubernetes.io/selected-node")
    return text_at(claim, "", "spec", "storageClassName") if pending and not selected else ""


def health_of_pending_claim(health: Health, storage_class: str, live: Manifest | None) -> Health:
    """Return the health of a pending PersistentVolumeClaim by its StorageClass, None where that does not exist.

    With volumeBindingMode WaitForFirstConsumer nothing binds the claim before a Pod uses it, and this Pod may belong
    to a later stage.
    """
    if live is None:
        return replace(health, message=f"{health.message}: StorageClass {one_line(storage_class)} does not exist")
    if text_at(live, "", "volumeBindingMode") != "WaitForFirstConsumer":
        return health
    message = f"it is bound with its first consumer, by StorageClass {one_line(storage_class)}"
    return Health(HealthState.CURRENT, "WaitForFirstConsumer", message)


def _service(live: Manifest, _: datetime) -> Health:
    balanced = text_at(live, "", "spec", "type") == "LoadBalancer"
    if balanced and not text_at(live, "", "spec", "clusterIP"):
        return _in_progress("NoIPAssigned", "it has no cluster IP")
    return _CURRENT


def _definition(live: Manifest, _: datetime) -> Health:
    for one in conditions_of(live):
        if (one.type, one.status) == ("NamesAccepted", "False"):
            return _failed(one.reason, one.message)
        if (one.type, one.status) == ("Established", "False") and one.reason != "Installing":
            return _failed(one.reason, one.message)
        if (one.type, one.status) == ("Established", "True"):
            return _CURRENT
    return _in_progress("Installing", "it is not established yet")


def _pod(live: Manifest, now: datetime) -> Health:
    conditions = conditions_of(live)
    match text_at(live, "", "status", "phase"):
        case "Succeeded" | "Failed":
            return _CURRENT  # it has run, as a Job's Pod may
        case "Running":
            return _running_pod(live, conditions)
        case "Pending":
            return _pending_pod(live, conditions, now)
        case "":
            return _in_progress("PodNotObserved", "it has no phase yet")
        case _:
            raise Malformed("status.phase")


def _running_pod(live: Manifest, conditions: Iterable[LiveCondition]) -> Health:
    if any((one.type, one.status) == ("Ready", "True") for one in conditions):
        return _CURRENT
    looping = [name for name, reason in _waiting_containers(live) if reason == "CrashLoopBackOff"]
    if looping:
        return _failed("ContainerCrashLooping", f"containers crash again and again: {', '.join(looping)}")
    return _in_progress("PodRunningNotReady", "it runs and is not ready")


def _pending_pod(live: Manifest, conditions: Iterable[LiveCondition], now: datetime) -> Health:
    scheduled = next((one for one in conditions if (one.type, one.status) == ("PodScheduled", "False")), None)
    if scheduled is None or scheduled.reason != "Unschedulable":
        return _in_progress("PodPending", "it is pending")
    created = text_at(live, "", "metadata", "creationTimestamp")
    if created and moment(created) > now - SCHEDULING_TIME:
        return _in_progress("PodNotScheduled", "it is not scheduled yet")
    return _failed("PodUnschedulable", scheduled.message or "it cannot be scheduled")


def _waiting_containers(live: Manifest) -> list[tuple[str, str]]:
    """Return the names and reasons of the containers of a Pod that wait.

    Raises:
        Malformed: The statuses of its containers have the wrong type.
    """
    statuses = value_at(live, "status", "containerStatuses")
    if statuses is ABSENT:
        return []
    if not isinstance(statuses, list):
        raise Malformed("status.containerStatuses")
    found = []
    for status in statuses:
        name = _member(status, "name")
        if name is not ABSENT:
            found.append((_checked_text(name), _waiting_reason(status)))
    return [(name, reason) for name, reason in found if reason]


def _waiting_reason(value: object) -> str:
    for key in ("state", "waiting", "reason"):
        value = _member(value, key)
        if value is ABSENT:
            return ""
    return _checked_text(value)


def _member(value: object, key: str) -> object:
    if not isinstance(value, dict):
        raise Malformed("status.containerStatuses")
    return value.get(key, ABSENT)


def _checked_text(value: object) -> str:
    if not isinstance(value, str):
        raise Malformed("status.containerStatuses")
    return value


def _api_service(live: Manifest, now: datetime) -> Health:
    available = next((one for one in conditions_of(live) if one.type == "Available"), None)
    if available is None:
        return _in_progress("NotAvailable", "its condition Available is not set yet")
    if available.status == "True":
        return stale_health(live, now) or _CURRENT
    return _in_progress(available.reason, available.message)


Rule: TypeAlias = Callable[[Manifest, datetime], Health]

RULES: Final[Mapping[tuple[str, str], Rule]] = {
    ("", "Service"): _service,
    ("", "Pod"): _pod,
    ("", "PersistentVolumeClaim"): _claim,
    ("", "Secret"): _always,
    ("", "ConfigMap"): _always,
    ("apps", "Deployment"): _deployment,
    ("apps", "StatefulSet"): _stateful_set,
    ("apps", "DaemonSet"): _daemon_set,
    ("apps", "ReplicaSet"): _replica_set,
    ("batch", "Job"): _job,
    ("batch", "CronJob"): _always,
    ("policy", "PodDisruptionBudget"): _always,
    ("apiextensions.k8s.io", "CustomResourceDefinition"): _definition,
    ("apiregistration.k8s.io", "APIService"): _api_service,
}
"""Rules by group and kind, after the generic fields; other kinds have the condition Ready or are healthy."""

_WITHOUT_STATE: Final[Mapping[str, frozenset[str]]] = {
    "": frozenset({"ConfigMap", "Endpoints", "LimitRange", "PodTemplate", "Secret", "ServiceAccount"}),
    "admissionregistration.k8s.io": frozenset({"MutatingWebhookConfiguration", "ValidatingWebhookConfiguration"}),
    "networking.k8s.io": frozenset({"IngressClass", "NetworkPolicy"}),
    "node.k8s.io": frozenset({"RuntimeClass"}),
    "rbac.authorization.k8s.io": frozenset({"ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding"}),
    "scheduling.k8s.io": frozenset({"PriorityClass"}),
    "storage.k8s.io": frozenset({"CSIDriver", "StorageClass"}),
}
"""Kinds of Kubernetes without status, by group."""


def has_state(group: str, kind: str) -> bool:
    """Return whether objects of a kind have a state that can be unhealthy; others need not be read."""
    return kind not in _WITHOUT_STATE.get(group, ())


def _in_progress(reason: str, message: str) -> Health:
    return Health(HealthState.IN_PROGRESS, one_line(reason, REASON_CHARACTERS), one_line(message))


def _failed(reason: str, message: str) -> Health:
    return Health(HealthState.FAILED, one_line(reason, REASON_CHARACTERS), one_line(message))


def _first(*found: Health | None) -> Health:
    return next((one for one in found if one is not None), _CURRENT)


def _fewer(reason: str, have: int, want: int, what: str) -> Health | None:
    return _in_progress(reason, f"{have} of {want} {what}") if have < want else None


def _extra_pods(existing: int, wanted: int) -> Health | None:
    message = f"{existing - wanted} replicas are to be terminated"
    return _in_progress("ExtraPods", message) if existing > wanted else None


def _counts(live: Manifest, *fields: str) -> tuple[int, ...]:
    return tuple(number_at(live, 0, "status", field) for field in fields)
