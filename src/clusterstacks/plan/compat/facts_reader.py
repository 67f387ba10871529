"""Reads facts files and checks their consistency."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from clusterstacks.model.documents import DocumentError, Node
from clusterstacks.model.files.compatibility import UpgradeRule
from clusterstacks.model.files.definitions import read
from clusterstacks.model.files.facts import FactsFile, Source, Upgrade, VersionStatement
from clusterstacks.plan.compat.statements import (
    ChartStatement,
    ComponentFacts,
    FactSource,
    UpgradeStatement,
    UpstreamStatement,
)
from clusterstacks.plan.compat.support import SupportEnd
from clusterstacks.plan.compat.verdicts import Verdict

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from datetime import date

    from clusterstacks.model.ranges import Range

RECOMMENDED: Final = "recommended"


def parse_facts(document: object, *, file: str, supported: Callable[[], Range], origin: str = "") -> ComponentFacts:
    """Read the decoded facts file of a component.

    Args:
        document: The decoded file.
        file: Name of the file in messages.
        supported: Returns the Kubernetes versions that are not past their end of life.
        origin: The file, if it is not a built-in one.

    Raises:
        DocumentError: A field is missing, unknown or invalid; the message names it.
    """
    stated = read(FactsFile, document, file=file)
    sources = {source.id: _source(source) for source in stated.sources}
    return ComponentFacts(
        name=stated.component,
        title=stated.title,
        read=max(source.retrieved for source in sources.values()),
        semantics=" ".join(stated.semantics.split()),
        statements=tuple(_statement(statement, sources, supported) for statement in stated.versions),
        outside=None if stated.outside is None else Verdict(stated.outside),
        upgrade=None if stated.upgrade is None else _upgrade(stated.upgrade, sources),
        charts=tuple(
            ChartStatement(chart.name, chart.repository, {version.chart: version.app for version in chart.map})
            for chart in stated.charts
        ),
        origin=origin,
    )


def _source(source: Source) -> FactSource:
    return FactSource(source.url, str(source.retrieved), str(source.published or ""), source.authority)


def _statement(
    stated: VersionStatement, sources: Mapping[str, FactSource], supported: Callable[[], Range]
) -> UpstreamStatement:
    return UpstreamStatement(
        versions=stated.versions,
        text=stated.text,
        kind=stated.kind,
        source=sources[stated.source],
        kubernetes=supported() if stated.kubernetes_rule else stated.kubernetes,
        limit=stated.kubernetes_hard,
        limit_source=None if stated.kubernetes_hard is None else sources[stated.hard_source],
        role=stated.role,
        confidence=stated.confidence,
        support_end=_support_end(stated, sources[stated.lifecycle_source or stated.source]),
        notes=stated.notes,
    )


def _support_end(stated: VersionStatement, source: FactSource) -> SupportEnd | None:
    return None if stated.eol is None else SupportEnd(stated.eol, source.url, source.retrieved)


def _upgrade(stated: Upgrade, sources: Mapping[str, FactSource]) -> UpgradeStatement | None:
    """Return the rule; None if steps are only recommended, or may have any size, and so forbid nothing."""
    limit = stated.max_minor_step if stated.strength != RECOMMENDED else None
    if not isinstance(limit, int):
        if stated.downgrade is None:
            return None
        limit = None
    return UpgradeStatement(UpgradeRule(limit, stated.downgrade is True), sources[stated.source], stated.since)


_REFERENCES: Final = ("source", "hardSource", "lifecycleSource", "corroboratedBy", "conflictsWith", "sources")


def check_consistency(document: object, *, file: str, today: date) -> None:
    """Check the consistency of a facts file.

    Every reference names a source of the file, and every source is referenced. Statements are not repeated. Days of
    sources are not in the future, and a series ends after its beginning.

    Args:
        document: A decoded facts file of a component or of Kubernetes itself.
        file: Name of the file in messages.
        today: The day of the check.

    Raises:
        DocumentError: The file is not consistent; the message names the field.
    """
    node = Node(document, file)
    sources = read(tuple[Source, ...], node.child("sources").value, file=f"{file}: sources")
    unused = {source.id for source in sources}
    ids = sorted(unused)
    for reference in (
        place for key in node.mapping() if key != "sources" for place in _references(node.child(str(key)))
    ):
        if reference.value not in ids:
            raise reference.refuse(f"write the id of a source: {', '.join(ids)}")
        unused.discard(str(reference.value))
    if unused:
        raise DocumentError(f"{file}: sources: {min(unused)} is not referenced: remove it, or name it where it is used")
    for source, place in zip(sources, node.child("sources").items(), strict=True):
        for key, day in (
            ("published", source.published),
            ("snapshot", source.snapshot),
            ("retrieved", source.retrieved),
        ):
            if day is not None and day > today:
                raise place.child(key).refuse(f"write a day that is not in the future: today is {today}")
    statements = read(tuple[VersionStatement, ...], node.child("versions").value or [], file=f"{file}: versions")
    _check_statements(statements, node.child("versions").items())


def _check_statements(statements: tuple[VersionStatement, ...], places: tuple[Node, ...]) -> None:
    seen = set[tuple[object, ...]]()
    for statement, place in zip(statements, places, strict=True):
        released, eol = statement.released, statement.eol
        if released and eol and not released < eol:
            raise place.child("eol").refuse(f"write a day after {released}, on which it was released")
        identity = statement.text, statement.role, statement.kubernetes, statement.kind
        # Statements without a range may differ in their contracts, and never decide.
        if statement.kubernetes is not None and identity in seen:
            raise DocumentError(f"{place.file}: {place.field} repeats an earlier statement: write it once")
        seen.add(identity)


def _references(node: Node) -> Iterator[Node]:
    """Yield every field that names a source."""
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
