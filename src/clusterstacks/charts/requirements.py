"""What a chart depends on by its own files, and what of that its directory ``charts/`` does not hold.

Charts of ``apiVersion: v2`` say it in Chart.yaml and lock it in Chart.lock, older ones in requirements.yaml and
requirements.lock. A dependency that a condition switches off must be there, too: Helm refuses a chart that lacks any.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, replace
from hashlib import sha256
from typing import TYPE_CHECKING, Any

from clusterstacks.api import yaml
from clusterstacks.charts.chart import CHART_FILE, MAX_DOCUMENT_BYTES, read_chart
from clusterstacks.domain.documents import DocumentError, Node
from clusterstacks.domain.errors import SpecError
from clusterstacks.domain.semver import Constraint, InvalidConstraint, SemVer
from clusterstacks.domain.versions import InvalidVersion

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

CHARTS = "charts/"
CHART_LOCK = "Chart.lock"
OLD_FILE = "requirements.yaml"
OLD_LOCK = "requirements.lock"

MAX_REQUIREMENTS = 50
"""Most dependencies of one chart (arbitrary; the largest known has eight)."""

MAX_URL_CHARACTERS = 2000
"""Longest URL of a repository (arbitrary; longer ones are refused by many servers)."""

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,249}")
_HASHED = ("name", "version", "repository", "condition", "tags", "enabled", "import-values", "alias")
"""The fields of a dependency in the order in which Helm hashes them; all but name and repository only when set."""


class ChartInvalid(DocumentError):
    """A chart describes itself or its dependencies in a way that cannot be used."""

    CODE = "ChartInvalid"


class ChartLockOutdated(SpecError):
    """The lock file belongs to other dependencies than the chart now has; Helm refuses it, too."""

    def __init__(self, chart: str, lock: str) -> None:
        super().__init__(
            "ChartLockOutdated",
            f"{chart}: {lock} is out of step with the dependencies the chart names: run helm dependency update",
        )


@dataclass(frozen=True, slots=True)
class ChartRequirement:
    """One dependency of a chart.

    Args:
        name: Name of the chart it depends on.
        constraint: The versions that will do.
        repository: Where it is published, as written; empty when it is part of the chart.
        locked: The one version the lock file names; empty without a lock file.
    """

    name: str
    constraint: Constraint
    repository: str
    locked: str = ""

    def fits(self, chart: ChartIdentity) -> bool:
        """Tell whether a chart fulfils it, as Helm sees it."""
        try:
            return chart.name == self.name and self.constraint.allows(SemVer.parse(chart.version))
        except InvalidVersion:
            return False

    @property
    def exact(self) -> str:
        """The one version the lock file, or the chart itself, names; empty where there is a choice."""
        return self.locked or self.constraint.exact

    def __str__(self) -> str:
        return f"{self.name} {self.locked or self.constraint}"


class ChartDependenciesMissing(SpecError):
    """A release whose charts lack dependencies that are not going to be fetched.

    Args:
        release: Which release.
        lacking: What is missing, by the chart that depends on it.
        way_out: What to do.
    """

    def __init__(self, release: object, lacking: Mapping[str, Sequence[ChartRequirement]], way_out: str) -> None:
        missing = "; ".join(
            f"{chart} needs {requirement} of {requirement.repository or 'its own charts/'}"
            for chart, requirements in sorted(lacking.items())
            for requirement in requirements
        )
        vendor = "build the release with its dependencies vendored: csctl create does"
        super().__init__(
            "ChartDependenciesMissing",
            f"release {release} lacks charts its charts depend on: {missing}; {way_out}, or {vendor}",
        )


@dataclass(frozen=True, slots=True)
class ChartIdentity:
    """What a chart calls itself; the version is the text of its Chart.yaml, empty when there is none."""

    name: str
    version: str


def identify(files: Mapping[str, bytes], label: str) -> ChartIdentity:
    """Read name and version of a chart.

    Raises:
        SpecError: Chart.yaml is missing, no YAML, or names no chart.
    """
    chart = _load(files, CHART_FILE, label)
    return ChartIdentity(_texts(chart, "name").text(), _texts(chart, "version").optional_text())


def requirements(files: Mapping[str, bytes], label: str) -> tuple[ChartRequirement, ...]:
    """Read the dependencies of a chart; a lock file is not looked at.

    Raises:
        SpecError: They cannot be read; the message names file and field.
    """
    declared = _declared(files, label)
    names = [_texts(node, "alias").optional_text() or _texts(node, "name").value for node in declared]
    for at, name in enumerate(names):
        if name in names[:at]:
            raise declared[at].child("name").refuse("Helm takes a name or alias once: give it an alias of its own")
    return tuple(map(_requirement, declared))


def locked(files: Mapping[str, bytes], label: str) -> tuple[ChartRequirement, ...]:
    """Read the dependencies of a chart together with the versions its lock file names.

    Raises:
        ChartLockOutdated: The lock file was made for other dependencies.
        SpecError: As :func:`requirements`.
    """
    wanted = requirements(files, label)
    lock = next((file for file in (CHART_LOCK, OLD_LOCK) if file in files), None)
    if lock is None or not wanted:
        return wanted
    document = _load(files, lock, label)
    entries = _list(document)
    if document.child("digest").value not in tuple(_digests(files, label, [entry.value for entry in entries])):
        raise ChartLockOutdated(label, lock)
    names = [_texts(entry, "name").value for entry in entries]
    if names != [requirement.name for requirement in wanted]:
        raise ChartLockOutdated(label, lock)
    return tuple(
        replace(requirement, locked=_version(entry, requirement))
        for requirement, entry in zip(wanted, entries, strict=True)
    )


def lacking(files: Mapping[str, bytes], label: str) -> tuple[ChartRequirement, ...]:
    """Return the dependencies that no chart in ``charts/`` fulfils, with the versions the lock file names.

    The lock file is looked at only when there are any: a chart that holds what it needs is rendered without.

    Raises:
        SpecError: As :func:`locked`, or a chart in ``charts/`` cannot be read.
    """
    missing = _missing(files, label)
    known = dict.fromkeys(locked(files, label) if missing else ())
    return tuple(requirement for requirement in known if replace(requirement, locked="") in missing)


def unmet(files: Mapping[str, bytes], label: str) -> tuple[ChartRequirement, ...]:
    """Return what :func:`lacking` does, but nothing for a chart that Helm renders.

    Helm compares names alone, so a release that was built with another version than its chart asks for still works.
    A lock file that cannot be used counts when the dependencies are fetched, and not before.

    Raises:
        SpecError: As :func:`requirements`, or a chart in ``charts/`` cannot be read.
    """
    names = {_texts(node, "name").value for node in _declared(files, label)}
    if not names or names <= {chart.name for chart in held(files, label).values()}:
        return ()
    missing = _missing(files, label)
    try:
        return lacking(files, label)
    except SpecError:  # of the lock file: everything else was read above
        return missing


def _missing(files: Mapping[str, bytes], label: str) -> tuple[ChartRequirement, ...]:
    wanted = requirements(files, label)
    there = list(held(files, label).values()) if wanted else []
    return tuple(dict.fromkeys(one for one in wanted if not any(map(one.fits, there))))


def held(files: Mapping[str, bytes], label: str) -> dict[str, ChartIdentity]:
    """Return the charts in ``charts/`` by the path of their archive or directory.

    Raises:
        SpecError: One of them cannot be read.
    """
    found: dict[str, ChartIdentity] = {}
    for path, content in files.items():
        top, _, rest = path.removeprefix(CHARTS).partition("/")
        # Helm leaves such names out, and files of other kinds.
        if not path.startswith(CHARTS) or top.startswith((".", "_")):
            continue
        if rest == CHART_FILE:
            found[f"{CHARTS}{top}/"] = identify({CHART_FILE: content}, f"{label}: {CHARTS}{top}")
        elif not rest and top.endswith(".tgz"):
            found[path] = identify(read_chart(content, f"{label}: {path}"), f"{label}: {path}")
    return found


def lock_digest(requirements: list[Any], lock: list[Any]) -> str:
    """Digest what a chart asks for and what its lock file answers, as Helm 3 and 4 do."""
    return _go_digest([[_hashed(entry) for entry in requirements], [_hashed(entry) for entry in lock]])


def _digests(files: Mapping[str, bytes], label: str, lock: list[Any]) -> Iterator[str]:
    declared = [node.value for node in _declared(files, label)]
    yield lock_digest(declared, lock)
    if _load(files, CHART_FILE, label).child("apiVersion").value == "v1":
        # Helm 2 hashed the requirements alone.
        yield _go_digest({"dependencies": [_hashed(entry) for entry in declared]})


def _declared(files: Mapping[str, bytes], label: str) -> tuple[Node, ...]:
    # Helm reads requirements.yaml after Chart.yaml, and into the same place.
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
        raise ChartInvalid(f"{place} is missing: every chart has it")
    document = yaml.load(files[file], name=place, max_bytes=MAX_DOCUMENT_BYTES)
    return Node({} if document is None else document, place, error=ChartInvalid)


def _requirement(node: Node) -> ChartRequirement:
    name = _texts(node, "name")
    # It becomes part of file names and URLs.
    if not _NAME.fullmatch(name.text()):
        raise name.refuse("write the name of a chart: letters, digits, dots and dashes")
    version = _texts(node, "version")
    try:
        constraint = Constraint.parse(version.value)
    except InvalidConstraint:
        raise version.refuse("write a version or a constraint like ~1.2, in quotes") from None
    if not constraint.text.isprintable():
        raise version.refuse("write it on one line")
    repository = node.child("repository")
    url = repository.optional_text().strip()
    if len(url) > MAX_URL_CHARACTERS or not url.isprintable():
        raise repository.refuse(f"write a URL of at most {MAX_URL_CHARACTERS} characters")
    return ChartRequirement(name.text(), constraint, url)


def _version(entry: Node, requirement: ChartRequirement) -> str:
    version = _texts(entry, "version")
    try:
        allowed = requirement.constraint.allows(SemVer.parse(version.value))
    except InvalidVersion:
        # A dependency that is part of the chart is locked to its constraint.
        if requirement.repository:
            raise version.refuse("a lock file names exact versions: run helm dependency update") from None
        return ""
    if not allowed:
        raise version.refuse(f"the chart asks for {requirement.constraint}: run helm dependency update")
    return version.text()


def _hashed(entry: Any) -> dict[str, object]:  # noqa: ANN401 - a document nobody has checked
    read = {key: _as_text(value) for key, value in entry.items()} if isinstance(entry, dict) else {}
    if isinstance(tags := read.get("tags"), list):
        read["tags"] = [_as_text(tag) for tag in tags]
    read |= {"name": read.get("name") or "", "repository": read.get("repository") or ""}
    if isinstance(entry, dict) and "enabled" in entry:
        read["enabled"] = entry["enabled"]
    return {key: _sorted(read[key]) for key in _HASHED if read.get(key) or key in ("name", "repository")}


def _as_text(value: object) -> object:
    """Return numbers and booleans as the texts Helm makes of them where it expects a text: ``version: 1`` is fine."""
    if isinstance(value, bool):
        return str(value).lower()
    return repr(value).removesuffix(".0") if isinstance(value, (int, float)) else value


def _texts(node: Node, key: str) -> Node:
    child = node.child(key)
    return replace(child, value=_as_text(child.value))


def _sorted(value: object) -> object:
    """Put the keys of mappings into the order in which Go writes them."""
    if isinstance(value, dict):
        return {key: _sorted(value[key]) for key in sorted(value)}
    return [_sorted(item) for item in value] if isinstance(value, list) else value


def _go_digest(document: object) -> str:
    text = json.dumps(document, ensure_ascii=False, separators=(",", ":"))
    for sign in "<>&\u2028\u2029":
        text = text.replace(sign, f"\\u{ord(sign):04x}")
    return f"sha256:{sha256(text.encode(errors='surrogatepass')).hexdigest()}"
