"""Errors of the readers of documents, taken as faults."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from clusterstacks.authoring.findings import Fault
from clusterstacks.authoring.positions import line_of_complaint

if TYPE_CHECKING:
    from clusterstacks.authoring.stack import LintedStack

_FILE = re.compile(r"[^\s:,]+")
_PLACE = re.compile(r"^[:,\s]*(?:line \d+: )?")


def fault_of(stack: LintedStack, message: str, file: str, way_out: str) -> Fault:
    """Place an error in the file it names, or in ``file``; the message keeps the way out it has, if it has one."""
    named = _FILE.match(message)
    path = named[0] if named and named[0] in stack.tree else file
    problem, told = cause_of(message, path)
    return Fault(path, line_of_complaint(stack.content(path), message), problem, told or way_out)


def cause_of(message: str, place: str) -> tuple[str, str]:
    """Split an error into what is wrong and the way out; the latter is empty where the error has none.

    Errors read ``<file>: <field> is <what was found>: <way out>`` or ``<file>, line <number>: <problem>``.
    """
    rest = _PLACE.sub("", message.removeprefix(place), count=1)
    start = max(rest.find(" is "), 0)
    problem, _, way_out = rest[start:].partition(": ")
    return rest[:start] + problem, way_out
