"""Reads fields of live objects, which may have any type: the owner of a workload cluster can write any value."""

from __future__ import annotations

from datetime import datetime
from types import NoneType
from typing import TYPE_CHECKING, Any, Final, NamedTuple

if TYPE_CHECKING:
    from clusterstacks.model.objects import Manifest

MESSAGE_CHARACTERS: Final = 300
"""Characters of a text that is taken from an object (arbitrary: conditions name several objects)."""

ABSENT: Final = object()
"""Value of a field that does not exist; null is None."""

LONG_AGO: Final = datetime.fromisoformat("0001-01-02T00:00:00+00:00")


class Malformed(Exception):
    """A field has the wrong type."""


class LiveCondition(NamedTuple):
    """An entry of ``status.conditions``; missing values are empty."""

    type: str
    status: str
    reason: str
    message: str
    since: str


def one_line(text: str, limit: int = MESSAGE_CHARACTERS) -> str:
    """Return a text of a workload cluster for a message: one line of at most ``limit`` characters."""
    # Cut before and after: the text may be a megabyte, and split() shortens it.
    words = " ".join("".join(char if char.isprintable() else " " for char in text[: limit * 2]).split())
    return words if len(words) <= limit else f"{words[: limit - 1]}…"


def conditions_of(live: Manifest) -> list[LiveCondition]:
    """Return ``status.conditions``; null counts as an empty value.

    Raises:
        Malformed: They are not a list of mappings with texts.
    """
    status = live.get("status")
    if not isinstance(status, (dict, NoneType)):
        raise Malformed("status")
    listed = (status or {}).get("conditions")
    if not isinstance(listed, (list, NoneType)):
        raise Malformed("status.conditions")
    return [_condition(one) for one in listed or ()]


def _condition(document: object) -> LiveCondition:
    if not isinstance(document, (dict, NoneType)):
        raise Malformed("status.conditions")
    found = document or {}
    values = [found.get(field) for field in ("type", "status", "reason", "message")]
    if not all(isinstance(value, (str, NoneType)) for value in values):
        raise Malformed("status.conditions")
    since = found.get("lastTransitionTime")
    kind, status, reason, message = (value or "" for value in values)
    return LiveCondition(kind, status, reason, message, since if isinstance(since, str) else "")


def value_at(live: object, *path: str) -> Any:  # noqa: ANN401  # any JSON value
    """Return the value at a path; ``ABSENT`` where a field is missing or the mapping around it is null.

    Raises:
        Malformed: A value on the way is not a mapping.
    """
    for key in path:
        if live is None:
            return ABSENT
        if not isinstance(live, dict):
            raise Malformed(".".join(path))
        if key not in live:
            return ABSENT
        live = live[key]
    return live


def text_at(live: Manifest, default: str, *path: str) -> str:
    """Return the text at a path, or the default where there is none."""
    value = _lenient_value(live, *path)
    return value if isinstance(value, str) else default


def number_at(live: Manifest, default: int, *path: str) -> int:
    """Return the integer of 64 bits at a path, or the default where there is none."""
    value = _lenient_value(live, *path)
    return value if _is_number(value) else default


def _lenient_value(live: Manifest, *path: str) -> Any:  # noqa: ANN401  # any JSON value
    try:
        return value_at(live, *path)
    except Malformed:
        return ABSENT


def checked_number(live: Manifest, *path: str) -> int | None:
    """Return the integer of 64 bits at a path; None if it is absent.

    Raises:
        Malformed: The value has another type.
    """
    value = value_at(live, *path)
    if value is ABSENT:
        return None
    if not _is_number(value):
        raise Malformed(".".join(path))
    return int(value)


def _is_number(value: object) -> bool:
    """Return whether a value is an integer of 64 bits, as Kubernetes reads numbers."""
    return isinstance(value, int) and not isinstance(value, bool) and -(2**63) <= value < 2**63


def moment(text: str) -> datetime:
    """Parse a time; a text that is not a time with a zone counts as long ago."""
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        return LONG_AGO
    return found if found.tzinfo is not None else LONG_AGO
