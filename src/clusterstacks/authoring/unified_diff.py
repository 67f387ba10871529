"""A difference as text, in the manner of ``diff -u``, and as a document."""

from __future__ import annotations

from dataclasses import asdict
from difflib import unified_diff
from typing import TYPE_CHECKING

from clusterstacks.api import yaml

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from clusterstacks.authoring.release_diff import Difference, ObjectChange, ReleaseChange
    from clusterstacks.domain.objects import Manifest

CONTEXT_LINES = 3
"""Unchanged lines shown around changed ones, as diff has it."""


def lines(difference: Difference) -> Iterator[str]:
    """Write a difference for people; an added line begins with ``+``, a removed one with ``-``, a title with ``#``."""
    if difference.empty:
        return
    yield f"# {difference.before} -> {difference.after}"
    yield from _section("versions", [_moved(change) for change in difference.versions])
    yield from _section("files", [_listed(change) for change in difference.files])
    for change in difference.values:
        yield f"# values of addon {change.place}"
        yield from _unified(change.before or "", change.after or "", f"values of {change.place}")
    for one in difference.objects:
        yield f"# {one.part}: {one.identity} {one.kind}"
        yield from _unified(_text(one.before), _text(one.after), one.identity)


def document(difference: Difference) -> Manifest:
    """Write a difference for programs."""
    return {
        "before": difference.before,
        "after": difference.after,
        "versions": [asdict(change) for change in difference.versions],
        "files": [asdict(change) for change in difference.files],
        "values": [asdict(change) for change in difference.values],
        "objects": [_object(one) for one in difference.objects],
    }


def _object(one: ObjectChange) -> Manifest:
    what = {"part": one.part, "object": one.identity, "change": one.kind}
    return {**what, "fields": [asdict(change) for change in one.fields]} if one.fields else what


def _section(title: str, rows: Sequence[str]) -> Iterator[str]:
    if rows:
        yield f"# {title}"
        yield from rows


def _moved(change: ReleaseChange) -> str:
    if change.before is None:
        return f"+{change.place} {change.after}"
    return (
        f"-{change.place} {change.before}"
        if change.after is None
        else f" {change.place} {change.before} -> {change.after}"
    )


def _listed(change: ReleaseChange) -> str:
    sign = "+" if change.before is None else "-" if change.after is None else " "
    return f"{sign}{change.place}{'' if sign.strip() else ' changed'}"


def _unified(before: str, after: str, title: str) -> Iterator[str]:
    found = unified_diff(before.splitlines(), after.splitlines(), title, title, lineterm="", n=CONTEXT_LINES)
    return (line for number, line in enumerate(found) if number > 1)


def _text(manifest: Manifest | None) -> str:
    return yaml.dump(manifest) if manifest is not None else ""
