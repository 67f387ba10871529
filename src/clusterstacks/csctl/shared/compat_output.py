"""Output of ``csctl compat``: verdicts, matrices and facts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import click

from clusterstacks.csctl.shared import output
from clusterstacks.csctl.shared.options import TEXT
from clusterstacks.csctl.shared.terminal import ResultMark, columns, cut
from clusterstacks.model.documents import counted
from clusterstacks.plan.compat.matrices import worst
from clusterstacks.plan.compat.verdicts import Verdict

if TYPE_CHECKING:
    from collections.abc import Sequence

    from clusterstacks.model.objects import Manifest
    from clusterstacks.model.versions import KubernetesMinor, KubernetesVersion
    from clusterstacks.plan.compat.matrices import Cell, Matrix, ReleasePart, Row
    from clusterstacks.plan.compat.statements import ComponentFacts, UpgradeStatement, UpstreamStatement

WIDTH: Final = max(map(len, Verdict))
TWO_MINORS: Final = 16
"""Columns that two Kubernetes minors take in a table; labels of rows leave them free on a narrow terminal."""
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
_CELLS: Final = {
    f"{text}{partly}": mark
    for verdict, mark in MARKS.items()
    for text in (verdict.value, mark.sign)
    for partly in ("", PARTLY)
}
LEGEND: Final = "✓ ok, ? untested or unknown, ✗ incompatible"


@dataclass(frozen=True, slots=True)
class CheckedRelease:
    """A release, or the versions of a Cluster, checked with one Kubernetes version."""

    label: str
    kubernetes: KubernetesVersion
    parts: tuple[ReleasePart, ...]

    @property
    def verdict(self) -> Verdict:
        """The worst verdict of its parts."""
        return worst(part.judgement for part in self.parts)

    @property
    def broken(self) -> bool:
        """True if a part is incompatible."""
        return self.verdict is Verdict.INCOMPATIBLE


def print_checked(checked: Sequence[CheckedRelease], contradictions: Sequence[str], form: str) -> None:
    """Print the verdicts on releases, and their contradictory statements."""
    if form != TEXT:
        releases = [checked_document(release) for release in checked]
        output.print_document({"releases": releases, "contradictions": list(contradictions)}, form)
        return
    for release in checked:
        output.say_judged(
            MARKS[release.verdict], f"{release.label} with Kubernetes {release.kubernetes}: {release.verdict.value}"
        )
        for part in release.parts:
            source = f"  {part.judgement.source}" if part.judgement.source else ""
            verdict, text = part.judgement.verdict, f"{part.judgement.text}{_of_addon(part.addon)}{source}"
            output.say_judged(MARKS[verdict], f"{verdict.value.ljust(WIDTH)}  {text}", indent=2)
    for text in contradictions:
        output.note(f"{text}: the statement of the release that provides the component applies")


def print_matrix(matrix: Matrix, form: str) -> None:
    """Print a table of verdicts."""
    if form != TEXT:
        output.print_document(matrix_document(matrix), form)
        return
    lines = (*matrix.releases, *matrix.components)
    words = [[_label(row), *map(_word, row.cells)] for row in lines]
    header = ("KUBERNETES", *map(str, matrix.minors))
    width = columns()
    if not width or output.table_width([header, *words]) <= width:
        output.print_table(header, words, marks=_CELLS)
    else:
        signs = [[cut(_label(row), width - TWO_MINORS), *map(_sign, row.cells)] for row in lines]
        _print_blocks(header, signs, width)
        output.say(LEGEND, wraps=True)
    if any(cell.partly for row in lines for cell in row.cells):
        output.say(NOT_EVERY_PATCH, wraps=True)


def _print_blocks(header: Sequence[str], rows: Sequence[Sequence[str]], width: int) -> None:
    """Print a table as several tables with the same first column, each with as many columns as the terminal has."""
    first = 1
    while first < len(header):
        end = first + 1
        while end < len(header) and _block_width(header, rows, first, end + 1) <= width:
            end += 1
        output.print_table((header[0], *header[first:end]), [(row[0], *row[first:end]) for row in rows], marks=_CELLS)
        first = end


def _block_width(header: Sequence[str], rows: Sequence[Sequence[str]], first: int, end: int) -> int:
    return output.table_width([(row[0], *row[first:end]) for row in (header, *rows)])


def _label(row: Row) -> str:
    """Return the label of a row: a release, or a component with its version and addon."""
    if not row.name:
        return row.releases[0]
    return f"{row.name} {row.version}{_of_addon(row.addon)}"


def _word(cell: Cell) -> str:
    return f"{cell.verdict.value}{PARTLY if cell.partly else ''}"


def _sign(cell: Cell) -> str:
    return f"{MARKS[cell.verdict].sign}{PARTLY if cell.partly else ''}"


def matrix_document(matrix: Matrix) -> Manifest:
    """Return a table of verdicts as JSON."""
    rows = {"releases": matrix.releases, "components": matrix.components}
    return {
        "kubernetes": [str(minor) for minor in matrix.minors],
        **{key: [_row_document(row, matrix.minors) for row in value] for key, value in rows.items()},
    }


def checked_document(checked: CheckedRelease) -> Manifest:
    """Return the verdicts on a release as JSON, with their sources."""
    return {
        "release": checked.label,
        "kubernetes": str(checked.kubernetes),
        "verdict": checked.verdict.value,
        "parts": [
            {
                "fact": part.fact,
                "component": part.name or None,
                "version": part.version or None,
                "addon": part.addon or None,
                "verdict": part.judgement.verdict.value,
                "text": part.judgement.text,
                "source": part.judgement.source or None,
            }
            for part in checked.parts
        ],
    }


def _row_document(row: Row, minors: Sequence[KubernetesMinor]) -> Manifest:
    about = {"component": row.name, "version": row.version, "addon": row.addon or None} if row.name else {}
    cells = zip(minors, row.cells, strict=True)
    return {
        **about,
        "releases": list(row.releases),
        "kubernetes": {str(minor): {"verdict": cell.verdict.value, "partly": cell.partly} for minor, cell in cells},
    }


def _of_addon(addon: str) -> str:
    return f" [addon {addon}]" if addon else ""


BUILT_IN = "built in"


def print_list(known: Sequence[ComponentFacts], form: str) -> None:
    """Print the known components, with the date and the origin of their facts."""
    if form != TEXT:
        output.print_document([_head(component) for component in known], form)
    else:
        rows = [(component.name, component.title, component.read, component.origin or BUILT_IN) for component in known]
        output.print_table(("COMPONENT", "TITLE", "FACTS OF", "FROM"), rows)


def print_sheet(component: ComponentFacts, form: str) -> None:
    """Print all facts about a component."""
    if form != TEXT:
        output.print_document(_document(component), form)
        return
    output.say(f"{component.title}: facts of {component.read}, {component.origin or BUILT_IN}", bold=True)
    wrapped = click.wrap_text(component.semantics, width=100, initial_indent="  ", subsequent_indent="  ")
    output.say_lines(*wrapped.splitlines())
    if verdict := component.outside_verdict:
        output.say(f"  Outside of the ranges: {verdict}.")
    header = ("VERSION", "KUBERNETES", "NEVER OUTSIDE", "KIND", "SOURCE")
    rows = [_statement_cells(statement) for statement in component.statements]
    if not columns() or output.table_width([header, *rows]) <= columns():
        output.print_table(header, rows)
    else:  # ranges must not be cut
        output.print_table(header[:-1], [cells for *cells, _ in rows])
        output.say("Sources:")
        output.say_lines(*(f"  {url}" for url in dict.fromkeys(url for *_, url in rows)))
    if component.upgrade is not None:
        output.say(_upgrade_line(component.upgrade))


def _statement_cells(statement: UpstreamStatement) -> tuple[str, ...]:
    role = f" in a {statement.role} cluster" if statement.role else ""
    doubt = f", {statement.confidence} confidence" if statement.confidence else ""
    return (
        statement.text,
        str(statement.kubernetes or "-"),
        str(statement.limit or "-"),
        f"{statement.kind}{role}{doubt}",
        statement.source.url,
    )


def _upgrade_line(upgrade: UpgradeStatement) -> str:
    step = upgrade.rule.max_minor_step
    up = "by any number of minors" if step is None else f"by at most {counted(step, 'minor')}"
    down = "and down" if upgrade.rule.downgrade else "and never down"
    since = f" from {upgrade.since} on" if upgrade.since is not None else ""
    return f"Upgraded{since} {up} at a time {down}: {upgrade.source.url}"


def _head(component: ComponentFacts) -> Manifest:
    return {
        "component": component.name,
        "title": component.title,
        "factsOf": component.read,
        "installed": component.origin or None,
    }


def _document(component: ComponentFacts) -> Manifest:
    outside, upgrade = component.outside_verdict, component.upgrade
    return {
        **_head(component),
        "semantics": component.semantics,
        "outside": outside.value if outside else None,
        "statements": [_statement_document(statement) for statement in component.statements],
        "upgrade": _upgrade_document(upgrade) if upgrade is not None else None,
    }


def _statement_document(statement: UpstreamStatement) -> Manifest:
    return {
        "version": statement.text,
        "kubernetes": str(statement.kubernetes) if statement.kubernetes else None,
        "neverOutside": str(statement.limit) if statement.limit else None,
        "kind": statement.kind,
        "role": statement.role or None,
        "confidence": statement.confidence or "high",
        "source": statement.source.url,
        "published": statement.source.published or None,
        "retrieved": statement.source.retrieved,
        "notes": statement.notes or None,
    }


def _upgrade_document(upgrade: UpgradeStatement) -> Manifest:
    return {
        "maxMinorStep": upgrade.rule.max_minor_step,
        "downgrade": upgrade.rule.downgrade,
        "since": str(upgrade.since) if upgrade.since is not None else None,
        "source": upgrade.source.url,
    }
