"""Paths of fields: in documents, and in the field sets of their managers."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

from clusterstacks.deliver.apply.live_fields import ABSENT, one_line
from clusterstacks.deliver.apply.ownership import FIELD_MANAGER
from clusterstacks.model.documents import mappings, text

if TYPE_CHECKING:
    from clusterstacks.model.drift_settings import FieldPath, Step
    from clusterstacks.model.objects import Manifest

MANAGER_CHARACTERS: Final = 128
"""Length of the name of a field manager. Source: apimachinery, metav1/validation FieldManagerMaxLength."""

_NOT_COMPARED: Final = frozenset({"apiVersion", "kind", "metadata", "status"})


def written(path: FieldPath) -> str:
    """Write a path as the API server does: ``.spec.containers[name="app"].image``; other keys are quoted."""
    return one_line("".join(_written_step(step) for step in path))


def _written_step(step: Step) -> str:
    if isinstance(step, int):
        return f"[{step}]"
    if isinstance(step, tuple):
        return f"[{step[0]}={json.dumps(step[1])}]"
    return f".{step}" if step.replace("_", "a").isalnum() else f"[{json.dumps(step)}]"


def content_of(document: Manifest) -> Manifest:
    """Return the fields of an object without its identity, its metadata and its status."""
    return {key: value for key, value in document.items() if key not in _NOT_COMPARED}


def with_field_of(document: Manifest, source: Manifest, path: FieldPath) -> Manifest:
    """Return a copy of a document whose field has the value that it has in the source, or is absent as there."""
    copied: Manifest = _with_value(document, path, value_of(source, path))
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


def is_applied_by_us(live: Manifest, path: FieldPath) -> bool:
    """Return whether our manager applied a field, or a part of it, perhaps with an earlier manifest."""
    entries = mappings(live, "metadata", "managedFields")
    return any(
        (text(entry, "manager"), text(entry, "operation")) == (FIELD_MANAGER, "Apply")
        and _owns(entry.get("fieldsV1"), path)
        for entry in entries
    )


def differences(before: Any, after: Any, path: FieldPath = ()) -> list[FieldPath]:  # noqa: ANN401 - any JSON values
    """Return the fields in which two values differ, with the path of the values before each of them."""
    if isinstance(before, dict) and isinstance(after, dict):
        keys = sorted(before.keys() | after.keys())
        return [
            one for key in keys for one in differences(before.get(key, ABSENT), after.get(key, ABSENT), (*path, key))
        ]
    if isinstance(before, list) and isinstance(after, list):
        named, wanted = _by_name(before), _by_name(after)
        if named is not None and wanted is not None:
            names = dict.fromkeys([*named, *wanted])
            return [
                one
                for name in names
                for one in differences(named.get(name, ABSENT), wanted.get(name, ABSENT), (*path, ("name", name)))
            ]
    return [] if before == after and type(before) is type(after) else [path]


def _by_name(items: list[Any]) -> dict[str, Any] | None:
    """Return the elements of a list by their names; None where these do not identify them."""
    found = {item["name"]: item for item in items if isinstance(item, dict) and isinstance(item.get("name"), str)}
    return found if len(found) == len(items) else None


def has_field(document: Any, path: FieldPath) -> bool:  # noqa: ANN401 - any JSON value
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


def value_of(document: Any, path: FieldPath) -> Any:  # noqa: ANN401 - any JSON values
    """Return the value of a field; ``ABSENT`` where the document does not have it."""
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
