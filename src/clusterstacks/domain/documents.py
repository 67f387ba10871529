"""Reading loaded YAML and JSON documents whose shape nobody has checked yet.

A parser walks a document through :class:`Node`, which remembers the file and the field it stands at, so every
complaint names file, field, what was found there and what to write instead.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from clusterstacks.domain.errors import SpecError

if TYPE_CHECKING:
    from clusterstacks.domain.objects import Manifest


SHOWN_CHARACTERS = 60
"""How much of a wrong value a message repeats (arbitrary: enough to recognise it)."""


class DocumentError(SpecError):
    """A file of a release or an object says something that cannot be read; its author must edit it."""

    CODE = "DocumentInvalid"

    def __init__(self, message: str) -> None:
        super().__init__(self.CODE, message)


def shown(value: object) -> str:
    """Describe a wrong value for a message: bounded, and without the content of lists and mappings."""
    if value is None:
        return "nothing"
    if isinstance(value, Mapping):
        return "a mapping"
    if isinstance(value, (list, tuple)):
        return "a list"
    # Cut before repr: a value of many megabytes must not be copied once more to be shown in part.
    text = repr(value[: SHOWN_CHARACTERS + 1] if isinstance(value, (str, bytes)) else _plain(value))
    return text if len(text) <= SHOWN_CHARACTERS else f"{text[:SHOWN_CHARACTERS]}…"


def _plain(value: object) -> object:
    # repr of an integer beyond Python's digit limit (4300) raises ValueError.
    if isinstance(value, int) and value.bit_length() > 256:
        return "a huge number"
    return value


@dataclass(frozen=True, slots=True)
class Node:
    """One value of a document together with the place it stands at.

    Args:
        value: What is there; None when the field is absent, which YAML does not tell apart from null either.
        file: How messages call the document, e.g. ``metadata.yaml``.
        field: The way to the value, e.g. ``versions.kubernetes``; empty for the whole document.
        error: The class of the errors raised for this document.
    """

    value: object
    file: str
    field: str = ""
    error: type[DocumentError] = DocumentError

    def refuse(self, way_out: str) -> DocumentError:
        """Build the error that names the place, the value found and the way out."""
        place = f"{self.file}: {self.field}" if self.field else f"{self.file}: the document"
        return self.error(f"{place} is {self._found}: {way_out}")

    @property
    def _found(self) -> str:
        if self.value is None:
            return "missing"
        # A whole file that is one text is another file than was meant, a key perhaps, and is not repeated.
        return "a text" if not self.field and isinstance(self.value, (str, bytes)) else shown(self.value)

    def child(self, key: str) -> Node:
        """Step into a field of a mapping; a field that is absent gives a node of None."""
        field = f"{self.field}.{key}" if self.field else key
        return replace(self, value=self.mapping().get(key), field=field)

    def mapping(self) -> Mapping[object, object]:
        """Return the mapping that stands here.

        Raises:
            DocumentError: Anything else stands here.
        """
        if not isinstance(self.value, Mapping):
            raise self.refuse("write a mapping")
        return self.value

    def only(self, known: Collection[str]) -> None:
        """Refuse a field of a mapping that nobody reads: a slip in its name would silently change what is meant.

        Raises:
            DocumentError: There is a field besides the known ones, or no mapping at all.
        """
        if unknown := sorted(str(key) for key in self.mapping() if key not in known):
            place = f"{self.file}: {self.field}" if self.field else self.file
            known_fields = ", ".join(sorted(known))
            raise self.error(f"{place} has the unknown field {unknown[0]}: known are {known_fields}")

    def items(self) -> tuple[Node, ...]:
        """Return the members of the list that stands here; nothing counts as an empty list.

        Raises:
            DocumentError: Anything else stands here.
        """
        if self.value is None:
            return ()
        if not isinstance(self.value, (list, tuple)):
            raise self.refuse("write a list")
        return tuple(replace(self, value=item, field=f"{self.field}[{at}]") for at, item in enumerate(self.value))

    def text(self, way_out: str = "write a text that is not empty") -> str:
        """Return the text that stands here.

        Raises:
            DocumentError: Anything else, or an empty text, stands here.
        """
        if not isinstance(self.value, str) or not self.value.strip():
            raise self.refuse(way_out)
        return self.value

    def optional_text(self) -> str:
        """Return the text that stands here, empty when there is none.

        Raises:
            DocumentError: Something that is no text stands here.
        """
        return self.text() if self.value not in (None, "") else ""


_DURATION = re.compile(r"(?=.)(?:(\d{1,9})h)?(?:(\d{1,9})m)?(?:(\d{1,9})s)?", re.ASCII)


def parse_duration(text: str) -> timedelta:
    """Read ``1h30m``, ``10m`` or ``45s``.

    Raises:
        SpecError: It is none.
    """
    found = _DURATION.fullmatch(text)
    if found is None:
        raise SpecError("InvalidDuration", f"{shown(text)} is no duration: write it like 1h30m, 10m or 45s")
    hours, minutes, seconds = (int(number or 0) for number in found.groups())
    return timedelta(hours=hours, minutes=minutes, seconds=seconds)


def at(document: Any, *path: str) -> Any:  # noqa: ANN401 - JSON
    """Give what lies at a path, or None where the path ends before."""
    for key in path:
        if not isinstance(document, dict):
            return None
        document = document.get(key)
    return document


def text(document: Manifest, *path: str) -> str:
    """Give the text at a path, or the empty text."""
    value = at(document, *path)
    return value if isinstance(value, str) else ""


def mapping(document: Manifest, *path: str) -> Manifest:
    """Give the object at a path, or an empty one."""
    value = at(document, *path)
    return value if isinstance(value, dict) else {}


def mappings(document: Manifest, *path: str) -> list[Manifest]:
    """Give the objects in the list at a path."""
    value = at(document, *path)
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []
