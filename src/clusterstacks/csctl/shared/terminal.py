"""Marks, colours and wrapped lines on a terminal; elsewhere lines stay whole and plain, so that grep finds them."""

from __future__ import annotations

import os
import re
import shutil
import sys
from dataclasses import dataclass
from enum import Enum
from typing import Final

import click

NARROWEST: Final = 20
"""Columns that a wrapped line has at least (arbitrary); on a narrower terminal nothing is wrapped."""

HANGING: Final = 2
"""Columns by which the following lines of a wrapped text are indented."""


@dataclass(slots=True)
class OutputSettings:
    """The global output options of this run."""

    colour: str = "auto"
    """``auto``, ``always`` or ``never``."""
    quiet: bool = False
    """Suppress progress and notes."""
    verbose: bool = False
    """Also print HTTP requests, and the traceback of an error."""

    @property
    def colours(self) -> bool | None:
        """True or false to print colours or not; None to print them only on a terminal.

        NO_COLOR: https://no-color.org.
        """
        if self.colour != "auto":
            return self.colour == "always"
        return False if os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb" else None


class ResultMark(Enum):
    """A mark before a line, and its colour."""

    GOOD = ("✓", "green")
    BAD = ("✗", "red")
    OPEN = ("?", "yellow")
    WAITING = ("…", "yellow")

    @property
    def sign(self) -> str:
        """The character that is printed."""
        return self.value[0]

    @property
    def colour(self) -> str:
        """The colour of the sign, or of the word that it is about."""
        return self.value[1]


def is_terminal(*, err: bool = False) -> bool:
    """Return whether a stream is a terminal that can show marks."""
    stream = sys.stderr if err else sys.stdout
    return stream.isatty() and os.environ.get("TERM") != "dumb"


def columns(*, err: bool = False) -> int:
    """Return the width of the terminal; 0 if the stream is not one, or is too narrow to wrap lines."""
    width = shutil.get_terminal_size().columns if is_terminal(err=err) else 0
    return width if width >= NARROWEST else 0


def wrap(line: str, width: int, hang: int | None = None) -> str:
    """Wrap a line, perhaps with styles, at its blanks; a longer word stays whole.

    ``width`` is in columns; 0 does not wrap. ``hang`` is the indentation of the following lines; None for that of the
    line and ``HANGING``.
    """
    if not width or len(click.unstyle(line)) <= width:
        return line
    if hang is None:
        hang = len(line) - len(line.lstrip(" ")) + HANGING
    # The blanks at the beginning are not a place to break.
    first, *rest = re.findall(r" *[^ ]+", line) or [line]
    lines, length = [first], len(click.unstyle(first))
    for word in rest:
        size = len(click.unstyle(word))
        if length + size <= width:
            lines[-1] += word
            length += size
        else:
            bare = word.lstrip(" ")
            lines.append(" " * hang + bare)
            length = hang + len(click.unstyle(bare))
    return "\n".join(lines)


def cut(cell: str, limit: int) -> str:
    """Cut a cell of a table to a number of columns, in its middle: names of releases differ at their end."""
    if len(cell) <= limit:
        return cell
    end = limit // 3
    return f"{cell[: limit - end - 1]}…{cell[len(cell) - end :]}"
