"""Writes a compatibility matrix as an HTML page or a Markdown table; all names in it are untrusted."""

from __future__ import annotations

import re
from html import escape
from typing import TYPE_CHECKING, Final

from clusterstacks.cli.shared.output import printable
from clusterstacks.cli.shared.terminal import ResultMark
from clusterstacks.compat.verdicts import Verdict

if TYPE_CHECKING:
    from clusterstacks.compat.matrices import Cell, Matrix, Row

MARKS: Final = {
    Verdict.OK: ResultMark.GOOD,
    Verdict.UNTESTED: ResultMark.OPEN,
    Verdict.UNKNOWN: ResultMark.OPEN,
    Verdict.INCOMPATIBLE: ResultMark.BAD,
}
"""Marks of verdicts."""

PARTLY: Final = "*"
"""Follows a verdict that holds for some patch releases only."""

NOT_EVERY_PATCH: Final = f"{PARTLY} not with every patch: check one with csctl compat check --kubernetes"

_SPECIAL: Final = re.compile(r"([\\`*_{}\[\]|~:]|(?<=www)\.)", re.IGNORECASE)
"""Characters that Markdown gives a meaning within a cell of a table, also in bare links."""

_PAGE: Final = """\
<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'">
<meta name="viewport" content="width=device-width">
<title>Compatibility</title>
<style>
:root {{ color-scheme: light dark; font-family: system-ui, sans-serif }}
table {{ border-collapse: collapse }}
th, td {{ border: 1px solid #8888; padding: .3em .6em; text-align: left }}
.ok {{ background: #2a72 }}
.untested, .unknown {{ background: #ca02 }}
.incompatible {{ background: #c332 }}
</style>
</head>
<body>
<table>
<caption>Kubernetes versions that releases and components work with</caption>
<thead>
{head}
</thead>
<tbody>
{body}
</tbody>
</table>
{note}</body>
</html>
"""


def row_label(row: Row) -> str:
    """Return the label of a row: a release, or a component with its version and addon."""
    if not row.name:
        return row.releases[0]
    return f"{row.name} {row.version}{f' [addon {row.addon}]' if row.addon else ''}"


def cell_text(cell: Cell) -> str:
    """Return the text of a cell."""
    return f"{cell.verdict.value}{PARTLY if cell.partly else ''}"


def is_partly(matrix: Matrix) -> bool:
    """Return whether a verdict of the matrix holds for some patch releases only."""
    return any(cell.partly for row in (*matrix.releases, *matrix.components) for cell in row.cells)


def matrix_html(matrix: Matrix) -> str:
    """Return the matrix as a page that needs no other file and runs no script."""
    minors = "".join(f'<th scope="col">{escape(str(minor))}</th>' for minor in matrix.minors)
    body = [
        f'<tr><th scope="row">{escape(printable(row_label(row)))}</th>{"".join(map(_html_cell, row.cells))}</tr>'
        for row in (*matrix.releases, *matrix.components)
    ]
    note = f"<p>{escape(NOT_EVERY_PATCH)}</p>\n" if is_partly(matrix) else ""
    return _PAGE.format(head=f'<tr><th scope="col">Kubernetes</th>{minors}</tr>', body="\n".join(body), note=note)


def matrix_markdown(matrix: Matrix) -> str:
    """Return the matrix as a table of GitHub Flavored Markdown."""
    lines = [
        _markdown_row("Kubernetes", *map(str, matrix.minors)),
        f"|{' --- |' * (len(matrix.minors) + 1)}",
        *(
            _markdown_row(row_label(row), *(f"{MARKS[cell.verdict].sign} {cell_text(cell)}" for cell in row.cells))
            for row in (*matrix.releases, *matrix.components)
        ),
    ]
    if is_partly(matrix):
        lines += ["", _markdown(NOT_EVERY_PATCH)]
    return "\n".join(lines) + "\n"


def _html_cell(cell: Cell) -> str:
    verdict = escape(cell.verdict.value)
    return f'<td class="{verdict}">{MARKS[cell.verdict].sign} {escape(cell_text(cell))}</td>'


def _markdown_row(*cells: str) -> str:
    return f"| {' | '.join(map(_markdown, cells))} |"


def _markdown(text: str) -> str:
    """Return a text that Markdown and the HTML in it show as it is, in one line."""
    line = " ".join(printable(text).split())
    return _SPECIAL.sub(r"\\\1", escape(line, quote=False))
