"""Decides whether a delivered object differs from its manifest, and in which fields of ours.

The server compares: the difference between the live object and the result of a dry-run apply is what an apply of the
manifest would change. Defaults, conversions, quantities and mutating webhooks therefore cause no difference.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from clusterstacks.deliver.apply.live_fields import ABSENT, one_line
from clusterstacks.deliver.apply.ownership import FIELD_MANAGER
from clusterstacks.model.documents import and_more, mapping, mappings, text

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from clusterstacks.model.drift_settings import FieldPath, Step
    from clusterstacks.model.objects import Manifest, ObjectId

SHOWN_FIELDS: Final = 3
"""Fields of one object that a message names (arbitrary)."""

MAX_FIELDS: Final = 20
"""Fields of one object that are reported (arbitrary: most changes have one or two)."""

MANAGER_CHARACTERS: Final = 128
"""Length of the name of a field manager. Source: apimachinery, metav1/validation FieldManagerMaxLength."""

DELETED: Final = "was deleted"
CHANGED: Final = "was changed"
LEAVING: Final = "is being deleted by another writer"
NOT_COMPARED: Final = "cannot be compared"

REPLICAS: Final = ("spec", "replicas")

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
_NOT_COMPARED: Final = frozenset({"apiVersion", "kind", "metadata", "status"})

_INJECTING: Final = ("cert-manager.io/inject-", "service.beta.openshift.io/inject-cabundle")
"""Beginnings of annotations that ask another controller for a ``caBundle``."""

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
        addon: The addon that delivered it.
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
        fields = and_more([str(one) for one in self.fields], SHOWN_FIELDS, noun="fields")
        begin = ": " if self.change == NOT_COMPARED else "; it cannot be corrected: "
        error = f"{begin}{one_line(self.error)}" if self.error else ""
        return f"{self.id} {self.change}{f': {fields}' if fields else ''}{error}"


def may_be_gone(identity: ObjectId) -> bool:
    """Return whether the absence of an object is not drift: Jobs and Pods may be deleted when they have ended."""
    return (identity.group, identity.kind) in _RUN_ONCE


def changed_fields(sent: Manifest, live: Manifest, applied: Manifest, ignored: Iterable[FieldPath]) -> list[FieldPath]:
    """Return the fields of the manifest that an apply would change.

    Args:
        sent: The manifest.
        live: The object.
        applied: The object after the apply, as the server answered a dry run.
        ignored: Fields that do not count.
    """
    for path in ignored:
        applied = with_field_of(applied, live, path)
    found = _differences(_content(live), _content(applied), ())
    before, after = mapping(live, "metadata"), mapping(applied, "metadata")
    for key in sorted((before.keys() | after.keys()) - _SERVERS_METADATA):
        found += _differences(before.get(key, ABSENT), after.get(key, ABSENT), ("metadata", key))
    return [path for path in found if _is_ours(sent, path, applied) and not is_injected(sent, path)]


def _is_ours(sent: Manifest, path: FieldPath, applied: Manifest) -> bool:
    """Return whether the manifest decides about a difference: webhooks of the cluster cause others.

    An apply also removes what others added to a list or mapping that the server treats as one value of ours.
    """
    return _is_in(sent, path) or (_value(applied, path) is ABSENT and _is_in(sent, path[:-1]))


def is_injected(sent: Manifest, path: FieldPath) -> bool:
    """Return whether the field is a certificate that another controller injects, which the manifest leaves to it."""
    if not path or path[-1] != "caBundle":
        return False
    annotations = mapping(sent, "metadata", "annotations")
    return not _value(sent, path) or any(str(key).startswith(_INJECTING) for key in annotations)


def injected_fields(sent: Manifest, live: Manifest) -> list[FieldPath]:
    """Return the injected certificates of an object, which a correction leaves as they are."""
    return [path for path in _differences(_content(live), _content(sent), ()) if is_injected(sent, path)]


def with_field_of(document: Manifest, source: Manifest, path: FieldPath) -> Manifest:
    """Return a copy of a document whose field has the value that it has in the source, or is absent as there."""
    copied: Manifest = _with_value(document, path, _value(source, path))
    return copied


def managers_of(live: Manifest, path: FieldPath) -> tuple[str, ...]:
    """Return the other managers that own a field, or a part of it."""
    entries = mappings(live, "metadata", "managedFields")
    owners = {
        one_line(text(entry, "manager"), MANAGER_CHARACTERS)
        for entry in entries
        if text(entry, "manager") != FIELD_MANAGER and _owns(entry.get("fieldsV1"), path)
    }
    return tuple(sorted(owners))


def reported_fields(live: Manifest, paths: Sequence[FieldPath]) -> tuple[ChangedField, ...]:
    """Return fields with their managers; never their values, which may be secret."""
    return tuple(ChangedField(written(path), managers_of(live, path)) for path in paths[:MAX_FIELDS])


def written(path: FieldPath) -> str:
    """Write a path as the API server does: ``.spec.containers[name="app"].image``; other keys are quoted."""
    return one_line("".join(_written_step(step) for step in path))


def _written_step(step: Step) -> str:
    if isinstance(step, int):
        return f"[{step}]"
    if isinstance(step, tuple):
        return f"[{step[0]}={json.dumps(step[1])}]"
    return f".{step}" if step.replace("_", "a").isalnum() else f"[{json.dumps(step)}]"


def _content(document: Manifest) -> Manifest:
    return {key: value for key, value in document.items() if key not in _NOT_COMPARED}


def _differences(before: Any, after: Any, path: FieldPath) -> list[FieldPath]:  # noqa: ANN401 - any JSON values
    if isinstance(before, dict) and isinstance(after, dict):
        keys = sorted(before.keys() | after.keys())
        return [
            one for key in keys for one in _differences(before.get(key, ABSENT), after.get(key, ABSENT), (*path, key))
        ]
    if isinstance(before, list) and isinstance(after, list):
        named, wanted = _by_name(before), _by_name(after)
        if named is not None and wanted is not None:
            names = dict.fromkeys([*named, *wanted])
            return [
                one
                for name in names
                for one in _differences(named.get(name, ABSENT), wanted.get(name, ABSENT), (*path, ("name", name)))
            ]
    return [] if before == after and type(before) is type(after) else [path]


def _by_name(items: list[Any]) -> dict[str, Any] | None:
    """Return the elements of a list by their names; None where these do not identify them."""
    found = {item["name"]: item for item in items if isinstance(item, dict) and isinstance(item.get("name"), str)}
    return found if len(found) == len(items) else None


def _is_in(document: Any, path: FieldPath) -> bool:  # noqa: ANN401 - any JSON value
    """Return whether the document has a field, or a scalar that contains it."""
    for step in path:
        if not isinstance(document, (dict, list)):
            return True
        document = _member(document, step)
        if document is ABSENT:
            return False
    return True


def _member(document: Any, step: Step) -> Any:  # noqa: ANN401 - any JSON values
    if isinstance(document, dict):
        return document.get(step, ABSENT) if isinstance(step, str) else ABSENT
    if not isinstance(document, list):
        return ABSENT
    index = _index(document, step)
    return document[index] if index is not None else ABSENT


def _index(items: list[Any], step: Step) -> int | None:
    if isinstance(step, tuple):
        key, value = step
        return next((n for n, item in enumerate(items) if isinstance(item, dict) and item.get(key) == value), None)
    number = int(step) if str(step).isascii() and str(step).isdigit() and len(str(step)) < 10 else -1
    return number if 0 <= number < len(items) else None


def _value(document: Any, path: FieldPath) -> Any:  # noqa: ANN401 - any JSON values
    for step in path:
        document = _member(document, step)
    return document


def _with_value(document: Any, path: FieldPath, value: Any) -> Any:  # noqa: ANN401 - any JSON values
    """Return a copy with the value at a path; a path whose parent does not exist changes nothing."""
    if not path:
        return document
    step, rest = path[0], path[1:]
    if isinstance(document, dict) and isinstance(step, str):
        if rest:
            return {**document, step: _with_value(document[step], rest, value)} if step in document else document
        left = {key: below for key, below in document.items() if key != step}
        return left if value is ABSENT else {**left, step: value}
    if isinstance(document, list):
        index = _index(document, step)
        if index is None:
            is_element = isinstance(step, tuple) and not rest and value is not ABSENT
            return [*document, value] if is_element else document
        below = value if not rest else _with_value(document[index], rest, value)
        middle = [] if below is ABSENT else [below]
        return [*document[:index], *middle, *document[index + 1 :]]
    return document


def _owns(fields: object, path: FieldPath) -> bool:
    """Return whether a field set contains a path, a part of it, or the value around it as a whole."""
    for step in path:
        if not isinstance(fields, dict):
            return False
        members = [key for key in fields if key != "."]
        if not members:
            return True
        key = next((key for key in members if _names(str(key), step)), None)
        if key is None:
            return False
        fields = fields[key]
    return isinstance(fields, dict)


def _names(key: str, step: Step) -> bool:
    """Return whether a key of a field set names a member; ``k:`` is followed by the key fields of a list's element."""
    if isinstance(step, str):
        return key == f"f:{step}"
    if isinstance(step, int) or not key.startswith("k:"):
        return False
    try:
        found = json.loads(key[2:])
    except ValueError:
        return False
    return isinstance(found, dict) and found.get(step[0]) == step[1]
