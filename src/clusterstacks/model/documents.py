"""Reads loaded YAML and JSON documents of unchecked shape.

A parser walks a document with :class:`Node`, which knows its file and field, so every error names the file, the field,
the value found and the value expected.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from clusterstacks.model.errors import SpecError

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from clusterstacks.model.objects import Manifest


SHOWN_CHARACTERS = 60
"""Number of characters of an invalid value in messages (arbitrary: enough to recognise it)."""

CONTROL_CHARACTERS = re.compile(
    r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069\ud800-\udfff]"
)
"""Control and bidirectional characters, which names and messages from outside must not send to a terminal or a page."""

_LINE_BREAKS = re.compile("[\n\x85\u2028\u2029]")


class DocumentError(SpecError):
    """A file of a release or an object has invalid content; its author must edit it.

    ``faults`` are the messages of all faults, of which ``message`` is the first.
    """

    CODE = "DocumentInvalid"

    def __init__(self, message: str, faults: tuple[str, ...] = ()) -> None:
        super().__init__(self.CODE, message)
        self.faults = faults or (message,)


def shown(value: object) -> str:
    """Describe an invalid value for a message: bounded, and without the content of lists and mappings."""
    if value is None:
        return "nothing"
    if isinstance(value, Mapping):
        return "a mapping"
    if isinstance(value, (list, tuple)):
        return "a list"
    # Cut before repr, so that a large value is not copied.
    text = repr(value[: SHOWN_CHARACTERS + 1] if isinstance(value, (str, bytes)) else _plain(value))
    return text if len(text) <= SHOWN_CHARACTERS else f"{text[:SHOWN_CHARACTERS]}…"


def and_more(items: Sequence[str], limit: int, *, separator: str = ", ", noun: str = "") -> str:
    """Join the first ``limit`` items and the number of the others: ``a, b and 3 more``.

    ``noun`` follows "more", for example ``objects fail``. A separator other than a comma is also written before "and".
    """
    named = separator.join(items[:limit])
    if len(items) <= limit:
        return named
    further = f"and {len(items) - limit} more{f' {noun}' if noun else ''}"
    return f"{named} {further}" if separator == ", " else f"{named}{separator}{further}"


def without_line_breaks(text: str) -> str:
    """Return a text with one blank in place of its line breaks and the blanks around them."""
    first, *rest = _LINE_BREAKS.split(text)
    return " ".join((first.rstrip(), *filter(None, (line.strip() for line in rest)))) if rest else text


def counted(number: int, noun: str) -> str:
    """Return a number with a noun whose plural ends with s: ``1 object``, ``3 objects``."""
    return f"{number} {noun}{'' if number == 1 else 's'}"


def listed(title: str, values: Iterable[str]) -> str:
    """Return a text of several lines: a title, and one line for each value, whatever the value contains."""
    return "\n".join((title, *map(without_line_breaks, values)))


def _plain(value: object) -> object:
    # repr of an integer beyond Python's digit limit (4300) raises ValueError.
    if isinstance(value, int) and value.bit_length() > 256:
        return "a huge number"
    return value


@dataclass(frozen=True, slots=True)
class Node:
    """A value of a document with its place."""

    value: object
    """None when the field is absent or null."""
    file: str
    """Name of the document in messages, e.g. ``metadata.yaml``."""
    field: str = ""
    """Path of the value, e.g. ``versions.kubernetes``; empty for the document."""
    error: type[DocumentError] = DocumentError

    def refuse(self, remedy: str) -> DocumentError:
        """Return the error that names the place, the value found and the remedy."""
        place = f"{self.file}: {self.field}" if self.field else f"{self.file}: the document"
        return self.error(f"{place} is {self._description}: {remedy}")

    @property
    def _description(self) -> str:
        if self.value is None:
            return "missing"
        # A file that is a single string is another file than was meant, perhaps a key: its content is not shown.
        return "a text" if not self.field and isinstance(self.value, (str, bytes)) else shown(self.value)

    def child(self, key: str) -> Node:
        """Return the node of a field of a mapping; its value is None when the field is absent."""
        field = f"{self.field}.{key}" if self.field else key
        return replace(self, value=self.mapping().get(key), field=field)

    def mapping(self) -> Mapping[object, object]:
        """Return the mapping; raise DocumentError for another type."""
        if not isinstance(self.value, Mapping):
            raise self.refuse("write a mapping")
        return self.value

    def only(self, known: Collection[str]) -> None:
        """Raise DocumentError for unknown fields of a mapping: a misspelled name would silently change the meaning."""
        if unknown := sorted(str(key) for key in self.mapping() if key not in known):
            place = f"{self.file}: {self.field}" if self.field else self.file
            known_fields = ", ".join(sorted(known))
            raise self.error(f"{place} has the unknown field {unknown[0]}: known are {known_fields}")

    def items(self) -> tuple[Node, ...]:
        """Return the members of the list, none when it is missing; raise DocumentError for another type."""
        if self.value is None:
            return ()
        if not isinstance(self.value, (list, tuple)):
            raise self.refuse("write a list")
        return tuple(replace(self, value=item, field=f"{self.field}[{at}]") for at, item in enumerate(self.value))

    def text(self, remedy: str = "write a non-empty string") -> str:
        """Return the string; raise DocumentError if it is empty or not a string."""
        if not isinstance(self.value, str) or not self.value.strip():
            raise self.refuse(remedy)
        return self.value

    def optional_text(self) -> str:
        """Return the string, empty when it is missing; raise DocumentError if it is not a string."""
        return self.text() if self.value not in (None, "") else ""


_DURATION = re.compile(r"(?=.)(?:(\d{1,9})h)?(?:(\d{1,9})m)?(?:(\d{1,9})s)?", re.ASCII)


def parse_duration(text: str) -> timedelta:
    """Parse ``1h30m``, ``10m`` or ``45s``; raise SpecError for another form."""
    match = _DURATION.fullmatch(text)
    if match is None:
        raise SpecError(
            "InvalidDuration", f"{shown(text)} is not a valid duration (expected for example 1h30m, 10m or 45s)"
        )
    hours, minutes, seconds = (int(number or 0) for number in match.groups())
    return timedelta(hours=hours, minutes=minutes, seconds=seconds)


def duration_text(seconds: float) -> str:
    """Write a duration as :func:`parse_duration` reads it: ``1h30m``, ``2m``, ``45s``; rounded to seconds above one."""
    if seconds < 1:
        return f"{seconds:g}s"
    minutes, rest = divmod(round(seconds), 60)
    parts = ((minutes // 60, "h"), (minutes % 60, "m"), (rest, "s"))
    return "".join(f"{number}{unit}" for number, unit in parts if number)


def at(document: Any, *path: str) -> Any:  # noqa: ANN401 - JSON
    """Return the value at a path; None when the path does not exist."""
    for key in path:
        if not isinstance(document, dict):
            return None
        document = document.get(key)
    return document


def text(document: Manifest, *path: str) -> str:
    """Return the string at a path; empty for any other value."""
    value = at(document, *path)
    return value if isinstance(value, str) else ""


def mapping(document: Manifest, *path: str) -> Manifest:
    """Return the JSON object at a path; empty for any other value."""
    value = at(document, *path)
    return value if isinstance(value, dict) else {}


def mappings(document: Manifest, *path: str) -> list[Manifest]:
    """Return the JSON objects in the list at a path, without its other members."""
    value = at(document, *path)
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []
