"""What a facts file keeps with itself, whether or not a reader needs it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from clusterstacks.compat.facts_schema import read_day, read_sources
from clusterstacks.domain.documents import DocumentError, Node

if TYPE_CHECKING:
    from collections.abc import Iterator
    from datetime import date

_REFERENCES: Final = ("source", "hardSource", "lifecycleSource", "corroboratedBy", "conflictsWith", "sources")


def check_consistency(document: object, *, file: str, today: date) -> None:
    """Check what people rely on.

    Every reference names a source of the file and every source is referred to; no statement stands twice; dates are
    days of the calendar, those of sources not in the future, and a series ends after it began.

    Args:
        document: A facts file that :func:`parse_facts` takes, or one of Kubernetes itself.
        file: How messages call it.
        today: The day of the check.

    Raises:
        DocumentError: A rule is broken; the message names the field.
    """
    node = Node(document, file)
    sources = read_sources(node.child("sources"))
    used = set[str]()
    for place in (one for key in node.mapping() if key != "sources" for one in _references(node.child(str(key)))):
        if not isinstance(place.value, str) or place.value not in sources:
            raise place.refuse(f"write the id of a source: {', '.join(sorted(sources))}")
        used.add(place.value)
    if unused := sorted(sources.keys() - used):
        raise DocumentError(f"{file}: sources: {unused[0]} is referred to nowhere: drop it, or say what it tells")
    for source in node.child("sources").items():
        for key in ("published", "snapshot", "retrieved"):
            _check_day(source.child(key), today)
    _check_statements(node.child("versions"))


def _check_statements(versions: Node) -> None:
    seen = set[tuple[str, ...]]()
    for entry in versions.items():
        released, eol = (read_day(entry.child(key)) for key in ("released", "eol"))
        if released and eol and not released < eol:
            raise entry.child("eol").refuse(f"write a day after {released}, on which it was released")
        identity = tuple(repr(entry.child(key).value) for key in ("version", "role", "kubernetes", "kind"))
        # Entries without a range say different things about contracts, and never decide.
        if identity in seen and entry.child("kubernetes").value is not None:
            raise DocumentError(f"{entry.file}: {entry.field} repeats an earlier statement: write it once")
        seen.add(identity)


def _references(node: Node) -> Iterator[Node]:
    """Yield every place that names a source."""
    if isinstance(node.value, list):
        for item in node.items():
            yield from _references(item)
    elif isinstance(node.value, dict):
        for key in node.value:
            child = node.child(str(key))
            if key not in _REFERENCES:
                yield from _references(child)
            elif isinstance(child.value, list):
                yield from child.items()
            else:
                yield child


def _check_day(node: Node, today: date) -> None:
    day = read_day(node)
    if day is not None and day > today:
        raise node.refuse(f"write a day that has been: today is {today}")
