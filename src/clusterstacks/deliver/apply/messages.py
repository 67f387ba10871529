"""Messages about objects and addons that could not be applied: object, cause and what to do."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from clusterstacks.deliver.apply.orc_images import is_image
from clusterstacks.deliver.apply.ownership import PART_OF_LABEL
from clusterstacks.deliver.apply.policy import PRUNE_ANNOTATION, RECREATE_ANNOTATION, RECREATED, holds_data
from clusterstacks.model.documents import and_more
from clusterstacks.model.errors import ClusterStacksError, SpecError
from clusterstacks.model.kinds.names import ADOPT_ANNOTATION, CLUSTER_API_GROUP, Reason
from clusterstacks.net.kube.errors import (
    ApiError,
    Conflict,
    CredentialsFailed,
    FieldCause,
    FieldConflict,
    Forbidden,
    Invalid,
    NotFound,
    TooMany,
    Unauthorized,
    Unreachable,
)
from clusterstacks.net.kube.failure_status import WITHHELD, head_and_tail, reason_without_value

if TYPE_CHECKING:
    from collections.abc import Sequence

    from clusterstacks.deliver.apply.targets import ApplyTarget
    from clusterstacks.model.errors import ClusterStacksError
    from clusterstacks.model.objects import ObjectId, ObjectKey
    from clusterstacks.net.kube.client import Client

SHOWN_FIELDS = 5
"""Fields that a message names (arbitrary)."""

MATCHED_CAUSES = 100
"""Causes of one rejection that are matched (arbitrary: a server names each wrong field once)."""

REFUSAL_CHARACTERS = 1000
"""Characters of the error of a refused delete; arbitrary: leaves room for what to do in the error of an object."""

SHOWN_ADDONS = 3
"""Addons that a message names (arbitrary)."""

SHOWN_OBJECTS = 3
"""Objects that a message names (arbitrary)."""

# Messages of API servers about immutable fields. Kubernetes has no reason code for them; the texts are those of
# apimachinery's ValidateImmutableField and of the validations of apps, batch, core, rbac and storage in 1.36.
_IMMUTABLE = re.compile(r"immutable|forbidden: updates to|may not (be )?change|cannot change")
_IMMUTABLE_BEGINNING, _IMMUTABLE_END = "updates to ", " forbidden"


class FieldsOwnedByOthers(SpecError):
    """The object belongs to another manager, which has set fields to other values."""

    def __init__(self, target: ApplyTarget, conflicts: tuple[FieldConflict, ...]) -> None:
        part_of = target.manifest["metadata"]["labels"].get(PART_OF_LABEL)
        label = f", let the addon own it by the label {PART_OF_LABEL}={part_of}" if part_of else ""
        super().__init__(
            "FieldConflict",
            f"{target.id} already exists and is not managed by this operator: {describe_conflicts(conflicts)}; delete "
            f"the object{label}, or remove it from the chart or source",
        )


class RecordOfAnotherCluster(SpecError):
    """Another Cluster has delivered addons to this workload cluster."""

    def __init__(self, cluster: ObjectKey, owner: str, addons: Sequence[str]) -> None:
        name = f"clusters.{CLUSTER_API_GROUP} --namespace {cluster.namespace} {cluster.name}"
        listed = ", ".join(sorted(addons)[:SHOWN_ADDONS]) + (" and others" if len(addons) > SHOWN_ADDONS else "")
        super().__init__(
            Reason.RECORD_OF_ANOTHER_CLUSTER,
            f"the workload cluster of Cluster {cluster} has addons of Cluster {owner} ({listed}), which are neither "
            f"changed nor deleted: correct the kubeconfig of Cluster {cluster} or, if it replaces Cluster {owner}, let "
            f"it adopt the addons: kubectl annotate --overwrite {name} {ADOPT_ANNOTATION}={owner}",
        )


class ObjectInTwoAddons(SpecError):
    """Two addons of a release, an addon and a sync, or two syncs contain the same object.

    ``addon`` and ``other`` are their kinds and names.
    """

    def __init__(
        self, shared: Sequence[ObjectId], addon: str, other: str, reason: Reason = Reason.OBJECT_IN_TWO_ADDONS
    ) -> None:
        more = f" and {len(shared) - SHOWN_OBJECTS} more objects" if len(shared) > SHOWN_OBJECTS else ""
        in_charts = reason is Reason.OBJECT_IN_TWO_ADDONS
        verb, places = ("render", "the two charts") if in_charts else ("contain", "the two")
        super().__init__(
            reason,
            f"{addon} and {other} both {verb} {', '.join(map(str, shared[:SHOWN_OBJECTS]))}{more}: remove each object "
            f"from one of {places}; until then {addon} is not delivered, and the objects stay as {other} delivered "
            "them",
        )


def describe_conflicts(conflicts: tuple[FieldConflict, ...]) -> str:
    """Name fields and their managers: ``.spec.replicas is managed by "kubectl-edit"``."""
    fields = [f'{one.field} is managed by "{one.manager}"' for one in conflicts]
    return and_more(fields, SHOWN_FIELDS, noun="fields")


def immutable_fields(refusal: Invalid, target: ApplyTarget) -> tuple[str, ...]:
    """Return the immutable fields that a rejected write changes; empty when it was rejected for another reason."""
    return tuple(cause.field or "the object" for cause in _immutable(refusal, target))


def _immutable(refusal: Invalid, target: ApplyTarget) -> list[FieldCause]:
    is_immutable = _is_immutable_in_secret if target.place.confidential else _is_immutable
    return [cause for cause in refusal.causes[:MATCHED_CAUSES] if is_immutable(cause)]


def explain(error: ClusterStacksError, target: ApplyTarget, *, is_change: bool = False) -> str:
    """Return the message of a server, with what to do where that is certain.

    Args:
        error: The error.
        target: The object that was sent.
        is_change: Whether the server would create the object as it was sent, and refuses only the change.
    """
    causes = (_immutable(error, target) or (error.causes if is_change else ())) if isinstance(error, Invalid) else ()
    if causes:
        # Other errors of the object are reported afterwards: the value may be a whole pod template.
        reasons = "; ".join(_reason(cause, target) for cause in causes[:SHOWN_FIELDS])
        if holds_data(target.manifest):
            return (
                f"{reasons}; {target.id} holds data, so it is not deleted and created again: restore the field in the "
                "definition, or define an object with another name and move the data"
            )
        if is_image(target.manifest):
            return f"{reasons}; Clusters may use the Image that exists: publish a release with another image name"
        return (
            f"{reasons}; delete {target.id}, or allow its deletion and re-creation by the annotation "
            f"{RECREATE_ANNOTATION}: {RECREATED} in its definition"
        )
    if advice := _missing_rule(error):
        return f"{error.message}; {advice}"
    namespace = target.id.namespace
    missing = WITHHELD in error.message or f'namespaces "{namespace}" not found' in error.message
    if isinstance(error, NotFound) and namespace and missing:
        return (
            f"{error.message}; add an object of kind Namespace with the name {namespace} to the chart or source, or "
            "correct metadata.namespace"
        )
    return error.message


def explain_delete(error: ClusterStacksError) -> str:
    """Return why an object could not be deleted; if the server refused it, with what to do."""
    if not isinstance(error, ApiError) or isinstance(error, (Conflict, TooMany)):
        return error.message
    advice = _missing_rule(error) or (
        f"let the policy or webhook allow it, or keep the object by its annotation {PRUNE_ANNOTATION}: disabled"
    )
    return f"{error.message[:REFUSAL_CHARACTERS]}; {advice}"


def _missing_rule(error: ClusterStacksError) -> str:
    """Return the rule of RBAC that is missing; empty if the server refused for another reason."""
    if not isinstance(error, Forbidden) or (right := error.missing) is None:
        return ""
    # An apply needs both, and the server checks the second only when the first is granted.
    verbs = ["create", "patch"] if right.verb in {"create", "patch"} else [right.verb]
    rule = f"apiGroups [{right.group!r}], resources [{right.resource!r}], verbs {verbs}"
    return f"allow it by a rule with {rule} in the operator's role"


def _reason(cause: FieldCause, target: ApplyTarget) -> str:
    """Return the field and why it cannot be changed, never its value."""
    reason = "field is immutable" if target.place.confidential else reason_without_value(cause.message)
    return f"{cause.field or 'the object'}: {reason}"


def _is_immutable(cause: FieldCause) -> bool:
    words = head_and_tail(cause.message)
    # One pattern for "updates to ... forbidden" would look at the rest of the text from each "updates to ".
    _, beginning, rest = words.partition(_IMMUTABLE_BEGINNING)
    return _IMMUTABLE.search(words) is not None or (bool(beginning) and _IMMUTABLE_END in rest)


def _is_immutable_in_secret(cause: FieldCause) -> bool:
    """The server's message is withheld; ValidateSecretUpdate of core/v1 has no other reason for these causes."""
    return cause.field == "type" or cause.reason == "FieldValueForbidden"


async def raise_outage(client: Client, error: ClusterStacksError) -> None:
    """Raise when the whole cluster is unavailable; costs a request only when the error leaves that open.

    Without it, hundreds of objects would each wait for their own deadline while a server is frozen.

    Raises:
        DependencyError: The server is not available, or rejects our credentials.
    """
    if isinstance(error, (CredentialsFailed, Unauthorized)):
        raise error
    # A webhook may delay one object past the deadline, or cause a 5xx response.
    if isinstance(error, Unreachable):
        await client.ready()
