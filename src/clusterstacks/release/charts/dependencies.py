"""Reads the dependencies of a chart, finds those missing from its ``charts/``, and selects versions.

Charts of ``apiVersion: v2`` declare dependencies in Chart.yaml and lock them in Chart.lock, older charts in
requirements.yaml and requirements.lock. A dependency that a condition disables must also exist: Helm rejects a chart
that lacks any.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from clusterstacks.model import yaml
from clusterstacks.model.documents import DocumentError, Node
from clusterstacks.model.errors import SpecError
from clusterstacks.model.semver import Constraint, InvalidConstraint, SemVer
from clusterstacks.model.versions import InvalidVersion
from clusterstacks.release.charts.chart import CHART_FILE, MAX_DOCUMENT_BYTES, read_chart
from clusterstacks.release.charts.errors import ChartBroken, ChartDigestMismatch, ChartsUnavailable

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence


CHARTS = "charts/"
CHART_LOCK = "Chart.lock"
OLD_FILE = "requirements.yaml"
OLD_LOCK = "requirements.lock"

MAX_REQUIREMENTS = 50
"""Maximum number of dependencies of one chart (arbitrary; the largest known has eight)."""

MAX_URL_CHARACTERS = 2000
"""Maximum length of the URL of a repository (arbitrary; many servers reject longer ones)."""

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,249}")


class ChartInvalid(DocumentError):
    """The description of a chart or of its dependencies is not valid."""

    CODE = "ChartInvalid"


def chart_lock_outdated(chart: str, lock: str, problem: str) -> SpecError:
    """Return the error for a lock file that does not match the dependencies of its chart."""
    return SpecError(
        "ChartLockOutdated",
        f"{chart}: {lock} does not match the dependencies of the chart: {problem}; run helm dependency update, or "
        "leave the charts unchanged (--dependencies leave)",
    )


@dataclass(frozen=True, slots=True)
class ChartRequirement:
    """A dependency as the chart declares it."""

    name: str
    constraint: Constraint
    repository: str
    """Its repository, as written; empty if it is part of the chart."""
    locked: str = ""
    """The version in the lock file, or of an earlier resolution; empty for the newest allowed."""

    def fits(self, chart: ChartIdentity) -> bool:
        """Report whether a chart fulfils the requirement by the rules of Helm."""
        try:
            return chart.name == self.name and self.constraint.allows(SemVer.parse(chart.version))
        except InvalidVersion:
            return False

    @property
    def exact(self) -> str:
        """The only version that the lock file, or the chart itself, allows; empty if there are several."""
        return self.locked or self.constraint.exact

    def choose(self, versions: Iterable[str]) -> str | None:
        """Return the version to use of those in a repository; None if none is allowed.

        A locked version matches in any spelling (``v1.2.3`` or ``1.2.3``), including its build. Otherwise the newest
        allowed version is used; texts that are not versions are skipped, as in Helm.
        """
        known = list(dict.fromkeys(versions))
        if self.locked and self.locked not in known:
            return next((text for text in known if same_version(text, self.locked)), None)
        if self.locked:
            return self.locked
        if self.constraint.text in known:
            return self.constraint.text
        allowed = [(version, text) for text, version in _parsed(known) if self.constraint.allows(version)]
        return max(allowed)[1] if allowed else None

    def __str__(self) -> str:
        return f"{self.name} {self.locked or self.constraint}"


class ChartDependenciesMissing(SpecError):
    """The charts of a release lack dependencies that must not be fetched; ``lacking`` has them by the chart's label."""

    def __init__(self, release: object, lacking: Mapping[str, Sequence[ChartRequirement]], remedy: str) -> None:
        missing = "; ".join(
            f"{chart} needs {requirement} of {requirement.repository or 'its own charts/'}"
            for chart, requirements in sorted(lacking.items())
            for requirement in requirements
        )
        vendor = "build the release with its dependencies vendored (csctl create)"
        super().__init__(
            "ChartDependenciesMissing",
            f"release {release} lacks chart dependencies: {missing}; {remedy}, or {vendor}",
        )


CHART_ERRORS: Final = (ChartBroken, ChartDependenciesMissing, ChartDigestMismatch, ChartsUnavailable)
"""Errors that are caused by the dependencies of a release's charts, not by the release itself."""


@dataclass(frozen=True, slots=True)
class ChartIdentity:
    """Name and version of a chart in its Chart.yaml; the version is empty if there is none."""

    name: str
    version: str


def identify(files: Mapping[str, bytes], label: str) -> ChartIdentity:
    """Read name and version of a chart.

    Raises:
        SpecError: Chart.yaml is missing, not valid YAML, or has no name.
    """
    chart = _load(files, CHART_FILE, label)
    return ChartIdentity(_texts(chart, "name").text(), _texts(chart, "version").optional_text())


def requirements(files: Mapping[str, bytes], label: str) -> tuple[ChartRequirement, ...]:
    """Read the dependencies of a chart without its lock file; an error names file and field."""
    declared = _declared(files, label)
    names = [_texts(node, "alias").optional_text() or _texts(node, "name").value for node in declared]
    for at, name in enumerate(names):
        if name in names[:at]:
            raise declared[at].child("name").refuse("Helm allows each name or alias once: add a unique alias")
    return tuple(map(_requirement, declared))


def locked(files: Mapping[str, bytes], label: str) -> tuple[ChartRequirement, ...]:
    """Read the dependencies of a chart with the versions of its lock file.

    The lock file must list the same charts of the same repositories, in allowed versions. Its digest is not compared:
    it also covers fields such as ``condition``, which do not matter here.

    Raises:
        SpecError: The lock file was made for other dependencies.
    """
    wanted = requirements(files, label)
    lock = next((file for file in (CHART_LOCK, OLD_LOCK) if file in files), None)
    if lock is None or not wanted:
        return wanted
    entries = _list(_load(files, lock, label))
    charts = [(_texts(entry, "name").value, entry.child("repository").optional_text().strip()) for entry in entries]
    if charts != [(requirement.name, requirement.repository) for requirement in wanted]:
        listed = ", ".join(f"{name} of {repository}" if repository else str(name) for name, repository in charts)
        raise chart_lock_outdated(label, lock, f"it lists {listed or 'nothing'}")
    pinned = [
        replace(requirement, locked=_version(entry, requirement))
        for requirement, entry in zip(wanted, entries, strict=True)
    ]
    for requirement in pinned:
        if requirement.locked and not requirement.constraint.allows(SemVer.parse(requirement.locked)):
            raise chart_lock_outdated(
                label, lock, f"it has {requirement}, but the chart requires {requirement.constraint}"
            )
    return tuple(pinned)


def lacking(files: Mapping[str, bytes], label: str) -> tuple[ChartRequirement, ...]:
    """Return the dependencies that no chart in ``charts/`` fulfils, with the versions of the lock file.

    The lock file is read only if there are any: a complete chart is rendered without it.
    """
    missing = _missing(files, label)
    known = dict.fromkeys(locked(files, label) if missing else ())
    return tuple(requirement for requirement in known if replace(requirement, locked="") in missing)


def unmet(files: Mapping[str, bytes], label: str) -> tuple[ChartRequirement, ...]:
    """Return the dependencies without which Helm does not render the chart, as :func:`lacking` does.

    Helm compares only names, so a release that was built with another version than its chart requires still works. An
    invalid lock file is reported only when the dependencies are fetched.
    """
    names = {_texts(node, "name").value for node in _declared(files, label)}
    if not names or names <= {chart.name for chart in held(files, label).values()}:
        return ()
    missing = _missing(files, label)
    try:
        return lacking(files, label)
    except SpecError:  # the lock file; everything else was read above
        return missing


def _missing(files: Mapping[str, bytes], label: str) -> tuple[ChartRequirement, ...]:
    wanted = requirements(files, label)
    present = list(held(files, label).values()) if wanted else []
    return tuple(dict.fromkeys(requirement for requirement in wanted if not any(map(requirement.fits, present))))


def held(files: Mapping[str, bytes], label: str) -> dict[str, ChartIdentity]:
    """Return the charts in ``charts/`` by the path of their archive or directory."""
    charts: dict[str, ChartIdentity] = {}
    for path, content in files.items():
        top, _, rest = path.removeprefix(CHARTS).partition("/")
        # Helm ignores these names and other files.
        if not path.startswith(CHARTS) or top.startswith((".", "_")):
            continue
        if rest == CHART_FILE:
            charts[f"{CHARTS}{top}/"] = identify({CHART_FILE: content}, f"{label}: {CHARTS}{top}")
        elif not rest and top.endswith(".tgz"):
            charts[path] = identify(read_chart(content, f"{label}: {path}"), f"{label}: {path}")
    return charts


def _declared(files: Mapping[str, bytes], label: str) -> tuple[Node, ...]:
    # Helm reads requirements.yaml after Chart.yaml, into the same field.
    old = _list(_load(files, OLD_FILE, label)) if OLD_FILE in files else ()
    declared = old or _list(_load(files, CHART_FILE, label))
    if len(declared) > MAX_REQUIREMENTS:
        raise declared[MAX_REQUIREMENTS].refuse(f"a chart may have at most {MAX_REQUIREMENTS} dependencies")
    return declared


def _list(document: Node) -> tuple[Node, ...]:
    return document.child("dependencies").items()


def _load(files: Mapping[str, bytes], file: str, label: str) -> Node:
    place = f"{label}: {file}"
    if file not in files:
        raise ChartInvalid(f"{place} is missing: every chart needs it")
    document = yaml.load(files[file], name=place, max_bytes=MAX_DOCUMENT_BYTES)
    return Node({} if document is None else document, place, error=ChartInvalid)


def _requirement(node: Node) -> ChartRequirement:
    name = _texts(node, "name")
    # The name is used in file names and URLs.
    if not _NAME.fullmatch(name.text()):
        raise name.refuse("expected the name of a chart: letters, digits, dots and dashes")
    version = _texts(node, "version")
    try:
        constraint = Constraint.parse(version.value)
    except InvalidConstraint:
        raise version.refuse("expected a version or a constraint such as ~1.2, in quotes") from None
    if not constraint.text.isprintable():
        raise version.refuse("write it on one line")
    repository = node.child("repository")
    url = repository.optional_text().strip()
    if len(url) > MAX_URL_CHARACTERS or not url.isprintable():
        raise repository.refuse(f"expected a URL of at most {MAX_URL_CHARACTERS} characters")
    return ChartRequirement(name.text(), constraint, url)


def _version(entry: Node, requirement: ChartRequirement) -> str:
    version = _texts(entry, "version")
    try:
        SemVer.parse(version.value)
    except InvalidVersion:
        # A dependency that is part of the chart is locked to its constraint.
        if requirement.repository:
            raise version.refuse("a lock file names exact versions: run helm dependency update") from None
        return ""
    return version.text()


def _as_text(value: object) -> object:
    """Convert numbers and booleans into the texts that Helm reads, because it accepts ``version: 1``."""
    if isinstance(value, bool):
        return str(value).lower()
    return repr(value).removesuffix(".0") if isinstance(value, (int, float)) else value


def _texts(node: Node, key: str) -> Node:
    child = node.child(key)
    return replace(child, value=_as_text(child.value))


def same_version(first_text: str, second_text: str) -> bool:
    """Report whether two spellings denote the same version and build."""
    try:
        first, second = SemVer.parse(first_text), SemVer.parse(second_text)
    except InvalidVersion:
        return False
    return (first, first.build) == (second, second.build)


def _parsed(versions: list[str]) -> Iterable[tuple[str, SemVer]]:
    for text in versions:
        try:
            yield text, SemVer.parse(text)
        except InvalidVersion:
            continue
