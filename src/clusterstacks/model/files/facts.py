"""Facts file: what an upstream project states about the versions with which its software works.

``clusterstacks/plan/compat/facts/README.md`` explains the meaning. Keys that only people read have no type.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from datetime import date
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BeforeValidator, Field, StrictBool, StrictInt, ValidationInfo

from clusterstacks.model.errors import SpecError
from clusterstacks.model.files.definitions import (
    OptionalText,
    Parsed,
    RangeText,
    Remedy,
    Section,
    Text,
    matching,
    refusal,
    unique,
)
from clusterstacks.model.ranges import Range
from clusterstacks.model.semver import SemVer

StatementKind = Literal["tested", "recommended", "supported", "skew", "documented", "bundled", "built-with"]
"""Kinds of evidence for a statement."""

_SERIES = re.compile(r"(\d{1,9})\.(\d{1,8})")
_EXACT = re.compile(r"\d+\.\d+\.\d+")


def _day(value: object) -> date:
    try:
        return date.fromisoformat(str(value))
    except ValueError:
        raise SpecError("DayInvalid", "not a day of the calendar") from None


def _versions(value: object) -> Range:
    if not isinstance(value, str) or not value.strip():
        raise refusal("write a version like '1.18', '1.18.2' or '>=1.9 <1.10', in quotes")
    if series := _SERIES.fullmatch(value):
        return Range.parse(f">={value} <{series[1]}.{int(series[2]) + 1}")
    return Range.parse(f"={value}" if _EXACT.fullmatch(value) else value)


Day = Annotated[date, Parsed(_day, r"^\d{4}-\d{2}-\d{2}$"), Remedy("write a day like '2026-11-20', in quotes")]
"""A day of the calendar."""
SourceId = Annotated[str, Remedy("write the id of a source")]
"""The id of a source of the same file."""


@dataclass(frozen=True, slots=True)
class Source(Section):
    """A document that states facts.

    Args:
        id: Unique in the file.
        url: Address of the document, with the commit if it is a file of a repository.
        retrieved: Day on which it was read.
        authority: upstream, mirror (a copy of upstream's content), secondary (a third party) or community (a data set,
            which never makes a pair incompatible).
        published: Day of its content.
        snapshot: Day of the newest commit of the repository that was read.
        note: Free text.
    """

    id: Text
    url: Text
    retrieved: Day
    authority: Literal["upstream", "mirror", "secondary", "community"]
    published: Day | None = None
    snapshot: Day | None = None
    note: Any = None


@dataclass(frozen=True, slots=True)
class VersionStatement(Section):
    """A statement about some versions of the component.

    Args:
        text: A series like 1.18, one version, or a range.
        kind: Evidence for the statement.
        source: Id of the source.
        kubernetes: Range of Kubernetes versions.
        kubernetes_rule: Instead of the range, every Kubernetes minor before its end of life on the day of the facts.
        kubernetes_hard: Range of Kubernetes versions outside which it does not work.
        hard_source: Id of the source of that range.
        role: Kind of cluster that the statement is about.
        confidence: Absent for a high one.
        released: Day on which the series was released.
        eol: Day on which its support ends.
        lifecycle_source: Id of the source of both days.
        notes: Free text.
    """

    versions: Annotated[Range, Parsed(_versions), Field(alias="version")]
    text: Annotated[str, BeforeValidator(str), Field(alias="version")]
    kind: StatementKind
    source: SourceId
    kubernetes: RangeText | None = None
    kubernetes_rule: Literal["all-upstream-supported"] | None = None
    kubernetes_hard: RangeText | None = None
    hard_source: SourceId = ""
    role: Literal["management", "workload", ""] = ""
    confidence: Literal["low", "medium", ""] = ""
    released: Day | None = None
    eol: Day | None = None
    notes: OptionalText = ""
    corroborated_by: Any = None
    conflicts_with: Any = None
    requires: Any = None
    contract: Any = None
    built_with: Any = None
    eol_rule: Any = None
    lifecycle_source: SourceId = ""


@dataclass(frozen=True, slots=True)
class Upgrade(Section):
    """Rules of the project for upgrades of the component.

    Args:
        source: Id of the source.
        max_minor_step: Largest number of minors at a time, or any.
        downgrade: Whether it may be downgraded.
        since: First version for which this holds.
        strength: A limit of steps that is only recommended does not forbid larger ones.
    """

    source: SourceId
    max_minor_step: Annotated[
        Annotated[StrictInt, Field(ge=1)] | Literal["any"] | None, Remedy("write a number of minors, or any")
    ] = None
    downgrade: StrictBool | None = None
    since: Annotated[SemVer, Parsed(SemVer.parse), Remedy("write a version like '1.5.0', in quotes")] | None = None
    strength: Any = None
    max_minor_rollback: Any = None
    latest_patch_first: Any = None
    enforced: Any = None
    direct_from: Any = None
    lts_skip: Any = None
    order: Any = None
    preconditions: Any = None
    within_major: Any = None
    notes: Any = None


@dataclass(frozen=True, slots=True)
class AppVersion(Section):
    """The version of the software in one version of a chart.

    Args:
        chart: Version of the chart.
        app: Version of the software.
    """

    chart: Text
    app: Text


@dataclass(frozen=True, slots=True)
class Chart(Section):
    """A chart that contains the component.

    Args:
        name: Name of the chart.
        repository: URL of the repository.
        map: Versions of the chart with those of the software; without it they are the same.
        rule: How to tell one version from the other, in words.
        source: Id of the source.
        newest_seen: Newest version of the chart when it was read.
    """

    name: Text
    repository: Text
    map: tuple[AppVersion, ...] = ()
    rule: Any = None
    source: Any = None
    newest_seen: Any = None


def _check_source(reference: str, sources: tuple[Source, ...], *place: str | int) -> None:
    ids = sorted(source.id for source in sources)
    if reference not in ids:
        raise refusal(f"write the id of a source: {', '.join(ids)}", *place)


def _check_statements(statements: tuple[VersionStatement, ...], info: ValidationInfo) -> tuple[VersionStatement, ...]:
    sources = info.data.get("sources", ())
    for at, statement in enumerate(statements):
        _check_source(statement.source, sources, at, "source")
        if statement.kubernetes_hard is not None:
            _check_source(statement.hard_source, sources, at, "hardSource")
        if statement.lifecycle_source:
            _check_source(statement.lifecycle_source, sources, at, "lifecycleSource")
    return statements


def _check_upgrade(upgrade: Upgrade | None, info: ValidationInfo) -> Upgrade | None:
    if upgrade is not None:
        _check_source(upgrade.source, info.data.get("sources", ()), "source")
    return upgrade


def _at_least_one(sources: tuple[Source, ...]) -> tuple[Source, ...]:
    if not sources:
        raise refusal("name at least one source: every fact needs a source")
    return sources


@dataclass(frozen=True, slots=True)
class FactsFile(Section):
    """Facts about the versions of a component.

    Args:
        component: Id of the component; the file is named after it.
        title: Name of the component for people.
        semantics: What the project means by its statements.
        sources: Documents that state the facts.
        versions: Statements about versions.
        outside: What holds outside every range; by default the kind of the statements decides.
        upgrade: Rules of the project for upgrades of the component.
        charts: Charts that contain the component.
        schema_version: Version of this schema.
    """

    component: Annotated[
        str,
        # It becomes the name of a file.
        matching("[a-z0-9][a-z0-9.-]{0,62}"),
        Remedy("write an id of small letters, digits, dots and dashes, at most 63"),
    ]
    title: Text
    semantics: Annotated[Text, Remedy("say what the project means by its statements")]
    sources: Annotated[tuple[Source, ...], unique("id", "give every source its own id"), AfterValidator(_at_least_one)]
    versions: Annotated[tuple[VersionStatement, ...], AfterValidator(_check_statements)] = ()
    outside: Literal["untested", "incompatible", "unknown"] | None = None
    upgrade: Annotated[Upgrade | None, AfterValidator(_check_upgrade)] = None
    charts: tuple[Chart, ...] = ()
    schema_version: Literal[1] = field(kw_only=True)
    category: Any = None
    constraints: Any = None
    rules: Any = None
    facts: Any = None
    limits: Any = None
    policy: Any = None
    lifecycle: Any = None
    planned: Any = None
    status: Any = None
    contracts: Any = None
    api_versions: Any = None
    kubeadm_config: Any = None
