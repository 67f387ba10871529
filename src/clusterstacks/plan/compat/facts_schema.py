"""Parses facts files (``facts/README.md`` describes the schema) and checks their consistency."""

from __future__ import annotations

import re
from dataclasses import replace
from datetime import date
from typing import TYPE_CHECKING, Final

from clusterstacks.model.documents import DocumentError, Node
from clusterstacks.model.errors import SpecError
from clusterstacks.model.files.compatibility import UpgradeRule
from clusterstacks.model.ranges import Range
from clusterstacks.model.semver import SemVer
from clusterstacks.plan.compat.statements import (
    OUTSIDE,
    ChartStatement,
    ComponentFacts,
    FactSource,
    UpgradeStatement,
    UpstreamStatement,
)
from clusterstacks.plan.compat.verdicts import Verdict

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

VERSION: Final = 1
ALL_SUPPORTED: Final = "all-upstream-supported"
"""The only value of ``kubernetesRule``: all Kubernetes minors that were supported on the day of the facts."""

ROLES: Final = ("management", "workload")
AUTHORITIES: Final = ("upstream", "mirror", "secondary")
CONFIDENCES: Final = ("low", "medium")
RECOMMENDED: Final = "recommended"


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


_TOP: Final = _words(
    "schemaVersion component title category semantics outside sources versions upgrade charts "
    "constraints rules facts limits policy lifecycle planned status contracts apiVersions "
    "kubeadmConfig"
)
_ENTRY: Final = _words(
    "version kubernetes kind source corroboratedBy conflictsWith role kubernetesHard hardSource "
    "kubernetesRule requires contract builtWith released eol eolRule lifecycleSource confidence notes"
)
_SOURCE: Final = _words("id url published snapshot retrieved authority note")
_UPGRADE: Final = _words(
    "maxMinorStep maxMinorRollback downgrade latestPatchFirst enforced strength since directFrom "
    "ltsSkip order preconditions source withinMajor notes"
)
_CHART: Final = _words("name repository rule map source newestSeen")
_NAME: Final = re.compile(r"[a-z0-9][a-z0-9.-]{0,62}")
_SERIES: Final = re.compile(r"(\d{1,9})\.(\d{1,8})")
_EXACT: Final = re.compile(r"\d+\.\d+\.\d+")


def parse_facts(document: object, *, file: str, supported: Callable[[], Range], origin: str = "") -> ComponentFacts:
    """Read a facts file of a component.

    Args:
        document: The decoded file.
        file: Name of the file in messages.
        supported: Returns the Kubernetes versions that are not past their end of life.
        origin: The file, if it is not a built-in one.

    Raises:
        DocumentError: A field is missing, unknown or invalid; the message names it.
    """
    node = Node(document, file)
    node.only(_TOP)
    version = node.child("schemaVersion")
    if version.value != VERSION:
        raise version.refuse(f"write {VERSION}, the schema this program reads")
    sources = read_sources(node.child("sources"))
    upgrade, semantics = node.child("upgrade"), node.child("semantics")
    return ComponentFacts(
        name=_name(node.child("component")),
        title=node.child("title").text(),
        read=max(source.retrieved for source in sources.values()),
        semantics=" ".join(semantics.text("say what the project means by its statements").split()),
        statements=tuple(_statement(one, sources, supported) for one in node.child("versions").items()),
        outside=_outside(node.child("outside")),
        upgrade=None if upgrade.value is None else _upgrade(upgrade, sources),
        charts=tuple(map(_chart, node.child("charts").items())),
        origin=origin,
    )


def _name(node: Node) -> str:
    name = node.text()
    # It becomes the name of a file.
    if not _NAME.fullmatch(name):
        raise node.refuse("write an id of small letters, digits, dots and dashes, at most 63")
    return name


def read_sources(node: Node) -> dict[str, FactSource]:
    """Read the sources of a facts file by their ids; raises as :func:`parse_facts`."""
    sources: dict[str, FactSource] = {}
    for one in node.items():
        one.only(_SOURCE)
        key = one.child("id").text()
        if key in sources:
            raise one.child("id").refuse("give every source its own id")
        retrieved = read_day(one.child("retrieved"))
        if retrieved is None:
            raise one.child("retrieved").refuse("write the day it was read, like '2026-11-20'")
        published = read_day(one.child("published"))
        authority = _one_of(one.child("authority"), AUTHORITIES)
        url = one.child("url").text()
        sources[key] = FactSource(url, str(retrieved), str(published or ""), authority)
    if not sources:
        raise node.refuse("name at least one source: every fact needs a source")
    return sources


def _statement(node: Node, sources: Mapping[str, FactSource], supported: Callable[[], Range]) -> UpstreamStatement:
    node.only(_ENTRY)
    role, confidence = node.child("role"), node.child("confidence")
    limit = _optional_range(node.child("kubernetesHard"))
    return UpstreamStatement(
        versions=_versions(node.child("version")),
        text=node.child("version").text(),
        kind=_one_of(node.child("kind"), tuple(OUTSIDE)),
        source=_source(node.child("source"), sources),
        kubernetes=_kubernetes(node, supported),
        limit=limit,
        limit_source=None if limit is None else _source(node.child("hardSource"), sources),
        role="" if role.value is None else _one_of(role, ROLES),
        confidence="" if confidence.value is None else _one_of(confidence, CONFIDENCES),
        notes=node.child("notes").optional_text(),
    )


def _kubernetes(node: Node, supported: Callable[[], Range]) -> Range | None:
    rule = node.child("kubernetesRule")
    if rule.value is None:
        return _optional_range(node.child("kubernetes"))
    _one_of(rule, (ALL_SUPPORTED,))
    return supported()


def _versions(node: Node) -> Range:
    text = node.text("write a version like '1.18', '1.18.2' or '>=1.9 <1.10', in quotes")
    if series := _SERIES.fullmatch(text):
        text = f">={text} <{series[1]}.{int(series[2]) + 1}"
    elif _EXACT.fullmatch(text):
        text = f"={text}"
    return Range.at(replace(node, value=text))


def _upgrade(node: Node, sources: Mapping[str, FactSource]) -> UpgradeStatement | None:
    """Read an upgrade rule; steps that are only recommended, or of any size, forbid nothing."""
    node.only(_UPGRADE)
    source = _source(node.child("source"), sources)
    step, downgrade, since = (node.child(key) for key in ("maxMinorStep", "downgrade", "since"))
    if step.value not in (None, "any") and (type(step.value) is not int or step.value < 1):
        raise step.refuse("write a number of minors, or any")
    if not isinstance(downgrade.value, bool | None):
        raise downgrade.refuse("write true or false")
    limited = isinstance(step.value, int) and node.child("strength").value != RECOMMENDED
    if not limited and downgrade.value is None:
        return None
    rule = UpgradeRule(step.value if limited and isinstance(step.value, int) else None, downgrade.value is True)
    return UpgradeStatement(rule, source, None if since.value is None else _semver(since))


def _chart(node: Node) -> ChartStatement:
    node.only(_CHART)
    versions = {one.child("chart").text(): one.child("app").text() for one in node.child("map").items()}
    return ChartStatement(node.child("name").text(), node.child("repository").text(), versions)


def _outside(node: Node) -> Verdict | None:
    if node.value is None:
        return None
    return Verdict(_one_of(node, tuple(verdict for verdict in Verdict if verdict is not Verdict.OK)))


def _semver(node: Node) -> SemVer:
    try:
        return SemVer.parse(node.value)
    except SpecError:
        raise node.refuse("write a version like '1.5.0', in quotes") from None


def _optional_range(node: Node) -> Range | None:
    return None if node.value is None else Range.at(node)


def _source(node: Node, sources: Mapping[str, FactSource]) -> FactSource:
    if not isinstance(node.value, str) or node.value not in sources:
        raise node.refuse(f"write the id of a source: {', '.join(sorted(sources))}")
    return sources[node.value]


def _one_of(node: Node, words: tuple[str, ...]) -> str:
    if not isinstance(node.value, str) or node.value not in words:
        raise node.refuse(f"write one of {', '.join(words)}")
    return node.value


def read_day(node: Node) -> date | None:
    """Read a day of the calendar; None for an absent one. Raises as :func:`parse_facts`."""
    if node.value is None:
        return None
    try:
        return date.fromisoformat(node.text())
    except ValueError:
        raise node.refuse("write a day like '2026-11-20', in quotes") from None


_REFERENCES: Final = ("source", "hardSource", "lifecycleSource", "corroboratedBy", "conflictsWith", "sources")


def check_consistency(document: object, *, file: str, today: date) -> None:
    """Check the consistency of a facts file.

    Every reference names a source of the file, and every source is referenced. Statements are not repeated. Dates are
    days of the calendar, those of sources are not in the future, and a series ends after its beginning.

    Args:
        document: A decoded facts file of a component or of Kubernetes itself.
        file: Name of the file in messages.
        today: The day of the check.

    Raises:
        DocumentError: The file is not consistent; the message names the field.
    """
    node = Node(document, file)
    sources = read_sources(node.child("sources"))
    used = set[str]()
    for place in (one for key in node.mapping() if key != "sources" for one in _references(node.child(str(key)))):
        if not isinstance(place.value, str) or place.value not in sources:
            raise place.refuse(f"write the id of a source: {', '.join(sorted(sources))}")
        used.add(place.value)
    if unused := sorted(sources.keys() - used):
        raise DocumentError(f"{file}: sources: {unused[0]} is not referenced: remove it, or name it where it is used")
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
        # Entries without a range may differ in their contracts, and never decide.
        if identity in seen and entry.child("kubernetes").value is not None:
            raise DocumentError(f"{entry.file}: {entry.field} repeats an earlier statement: write it once")
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


def _check_day(node: Node, today: date) -> None:
    day = read_day(node)
    if day is not None and day > today:
        raise node.refuse(f"write a day that is not in the future: today is {today}")
