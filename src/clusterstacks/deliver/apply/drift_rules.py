"""Decides whether a delivered object differs from its manifest, and in which fields of ours.

The server compares: the difference between the live object and the result of a dry-run apply is what an apply of the
manifest would change. Defaults, conversions, quantities and mutating webhooks therefore cause no difference.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from clusterstacks.deliver.apply.field_paths import (
    content_of,
    differences,
    has_field,
    is_applied_by_us,
    managers_of,
    value_of,
    with_field_of,
    written,
)
from clusterstacks.deliver.apply.live_fields import ABSENT, one_line
from clusterstacks.model.documents import and_more, mapping

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from clusterstacks.model.drift_settings import FieldPath
    from clusterstacks.model.objects import Manifest, ObjectId

SHOWN_FIELDS: Final = 3
"""Fields of one object that a message names (arbitrary)."""

MAX_FIELDS: Final = 20
"""Fields of one object that are reported (arbitrary: most changes have one or two)."""

DELETED: Final = "was deleted"
CHANGED: Final = "was changed"
LEAVING: Final = "is being deleted by another writer"
NOT_COMPARED: Final = "cannot be compared"

_SERVERS_METADATA: Final = frozenset(
    {
        "creationTimestamp",
        "deletionGracePeriodSeconds",
        "deletionTimestamp",
        "generation",
        "managedFields",
        "resourceVersion",
        "selfLink",
        "uid",
    }
)

_RUN_ONCE: Final = frozenset({("batch", "Job"), ("", "Pod")})
"""Kinds whose objects may be deleted when they have ended: creating them again would run them again."""


@dataclass(frozen=True, slots=True)
class ChangedField:
    """A field that differs from the manifest, and the managers that set it; none where the field was removed."""

    path: str
    managers: tuple[str, ...] = ()

    def __str__(self) -> str:
        """``.spec.replicas (set by "kubectl-edit")``."""
        by = " and ".join(f'"{manager}"' for manager in self.managers)
        return f"{self.path} (set by {by})" if by else self.path


@dataclass(frozen=True, slots=True)
class DriftedObject:
    """A delivered object that differs from its manifest.

    Args:
        id: The object.
        addon: The addon or sync that delivered it.
        change: ``DELETED``, ``CHANGED``, ``LEAVING`` or ``NOT_COMPARED``.
        fields: The fields that differ; empty where the whole object does.
        error: Why it cannot be compared, or was not corrected; empty where it was, or where that was not tried.
    """

    id: ObjectId
    addon: str
    change: str
    fields: tuple[ChangedField, ...] = ()
    error: str = ""

    def __str__(self) -> str:
        """``Deployment.apps kube-system/dns was changed: .spec.replicas (set by "kubectl-edit")``."""
        return f"{self.id} {self.said}"

    @property
    def said(self) -> str:
        """``was changed: .spec.replicas (set by "kubectl-edit")``."""
        fields = and_more([str(one) for one in self.fields], SHOWN_FIELDS, noun="fields")
        begin = ": " if self.change == NOT_COMPARED else "; it cannot be corrected: "
        error = f"{begin}{one_line(self.error)}" if self.error else ""
        return f"{self.change}{f': {fields}' if fields else ''}{error}"


def may_be_gone(identity: ObjectId) -> bool:
    """Return whether the absence of an object is not drift: Jobs and Pods may be deleted when they have ended."""
    return (identity.group, identity.kind) in _RUN_ONCE


def changed_fields(sent: Manifest, live: Manifest, applied: Manifest, foreign: Iterable[FieldPath]) -> list[FieldPath]:
    """Return the fields of the manifest, and of earlier ones, that an apply would change.

    Args:
        sent: The manifest.
        live: The object.
        applied: The object after the apply, as the server answered a dry run.
        foreign: Fields that do not count, because they belong to other writers.
    """
    for path in foreign:
        applied = with_field_of(applied, live, path)
    found = differences(content_of(live), content_of(applied))
    before, after = mapping(live, "metadata"), mapping(applied, "metadata")
    for key in sorted((before.keys() | after.keys()) - _SERVERS_METADATA):
        found += differences(before.get(key, ABSENT), after.get(key, ABSENT), ("metadata", key))
    return [path for path in found if _is_ours(sent, path, applied) or is_applied_by_us(live, path)]


def _is_ours(sent: Manifest, path: FieldPath, applied: Manifest) -> bool:
    """Return whether the manifest decides about a difference: webhooks of the cluster cause others.

    An apply also removes what others added to a list or mapping that the server treats as one value of ours.
    """
    return has_field(sent, path) or (value_of(applied, path) is ABSENT and has_field(sent, path[:-1]))


def reported_fields(live: Manifest, paths: Sequence[FieldPath]) -> tuple[ChangedField, ...]:
    """Return fields with their managers; never their values, which may be secret."""
    return tuple(ChangedField(written(path), managers_of(live, path)) for path in paths[:MAX_FIELDS])
