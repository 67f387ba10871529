"""Semantic versions (https://semver.org, 2.0.0) and the version constraints of Helm charts.

Versions of charts and of other software; those of cluster stacks and of Kubernetes are in :mod:`.versions`. The
grammar and the meaning of constraints are those of Helm (the Go library Masterminds/semver, version 3), because a chart
must resolve to the same dependencies in both. One exception follows the library's documentation instead of its
behaviour: ``^*`` allows every release, not only ``0.0.0``.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from functools import total_ordering
from typing import TYPE_CHECKING, TypeAlias

from clusterstacks.model.documents import shown
from clusterstacks.model.errors import SpecError
from clusterstacks.model.versions import InvalidVersion

if TYPE_CHECKING:
    from collections.abc import Iterator

MAX_VERSION_CHARACTERS = 256
MAX_CONSTRAINT_CHARACTERS = 512
MAX_ALTERNATIVES = 32
"""Longest accepted text and most alternatives of a constraint: the limits of Masterminds/semver since 3.5."""

_PRE = r"[0-9A-Za-z-]+(?:\.[0-9A-Za-z-]+)*"
_SUFFIXES = rf"(?:-({_PRE}))?(?:\+({_PRE}))?"
_VERSION = re.compile(rf"v?([0-9]+)(?:\.([0-9]+))?(?:\.([0-9]+))?{_SUFFIXES}")

_WHOLE_VERSION = re.compile(rf"v?[0-9]+\.[0-9]+\.[0-9]+{_SUFFIXES}")

_PART = r"[0-9]+|[xX*]"
_WILD = rf"v?({_PART})(?:\.({_PART}))?(?:\.({_PART}))?{_SUFFIXES}"
_TERM = re.compile(rf"(!=|>=|=>|<=|=<|~>|=|>|<|~|\^)?{_WILD}")
_ANY_WILD = _WILD.replace("(", "(?:").replace("(?:?:", "(?:")
_RANGE = re.compile(rf"\s*({_ANY_WILD})\s+-\s+({_ANY_WILD})(?=[\s,=<>~^!]|$)")
_OPERATOR_GAP = re.compile(r"(?<=[=<>~^])\s+(?=[v0-9xX*])")
_AND = re.compile(r"\s*,\s*|\s+")
_SPELLINGS = {"": "=", "=>": ">=", "=<": "<=", "~>": "~"}

_Release: TypeAlias = tuple[int, int, int]


class InvalidConstraint(SpecError):
    """The text is not a version constraint."""

    def __init__(self, text: object) -> None:
        super().__init__(
            "InvalidConstraint",
            f"{shown(text)} is not a valid version constraint (expected for example 1.2.3, ~1.2, ^1.2.3 or >=1.2 <3)",
        )


@total_ordering
@dataclass(frozen=True, slots=True)
class SemVer:
    """A semantic version; ordered, compared and hashed by precedence, which ignores the build.

    ``pre`` and ``build`` are the identifiers without dash or plus: ``rc.1``.
    """

    major: int
    minor: int = 0
    patch: int = 0
    pre: str = ""
    build: str = field(default="", compare=False)

    @classmethod
    def parse(cls, text: object) -> SemVer:
        """Parse a version; raise InvalidVersion if it is none.

        A leading ``v``, leading zeros and absent minor or patch numbers are tolerated.
        """
        match = _VERSION.fullmatch(text) if isinstance(text, str) and len(text) <= MAX_VERSION_CHARACTERS else None
        if match is None or not _sound_pre(match[4] or ""):
            raise InvalidVersion(
                f"{shown(text)} is not a valid semantic version (expected for example 1.2.3 or 1.2.3-rc.1)"
            )
        return cls(int(match[1]), int(match[2] or 0), int(match[3] or 0), match[4] or "", match[5] or "")

    @property
    def release(self) -> tuple[int, int, int]:
        """Major, minor and patch number."""
        return self.major, self.minor, self.patch

    def __str__(self) -> str:
        pre = f"-{self.pre}" if self.pre else ""
        build = f"+{self.build}" if self.build else ""
        return f"{self.major}.{self.minor}.{self.patch}{pre}{build}"

    def __lt__(self, other: SemVer) -> bool:
        return self._key < other._key

    @property
    def _key(self) -> tuple[_Release, bool, tuple[tuple[bool, int, str], ...]]:
        # A version follows its pre-releases; numbers precede words, fewer identifiers precede more.
        parts = tuple(
            (False, int(part), "") if part.isdecimal() else (True, 0, part) for part in self.pre.split(".") if part
        )
        return self.release, not self.pre, parts


def _sound_pre(pre: str) -> bool:
    return not any(part.isdecimal() and len(part) > 1 and part.startswith("0") for part in pre.split("."))


@dataclass(frozen=True, slots=True)
class Constraint:
    """A set of versions: alternatives (``||``) of terms that must all match (blank or comma).

    Terms are ``1.2.3`` or a series (``1.2``, ``1.2.x``, ``1``, ``*``), with one of ``= != > >= < <= ~ ^`` before them,
    and ranges with two ends (``1.2 - 1.4``). Only an alternative that names a pre-release allows pre-releases.
    """

    text: str
    _alternatives: tuple[tuple[_Term, ...], ...] = field(repr=False, compare=False)

    @classmethod
    def parse(cls, text: object) -> Constraint:
        """Parse a constraint; raise InvalidConstraint if the text is empty or has another form."""
        if not isinstance(text, str) or len(text) > MAX_CONSTRAINT_CHARACTERS:
            raise InvalidConstraint(text)
        alternatives = text.split("||")
        if len(alternatives) > MAX_ALTERNATIVES:
            raise InvalidConstraint(text)
        return cls(text, tuple(tuple(_terms(alternative, text)) for alternative in alternatives))

    @property
    def exact(self) -> str:
        """The text if it is exactly one full version; else empty."""
        return self.text if _WHOLE_VERSION.fullmatch(self.text) else ""

    def allows(self, version: SemVer) -> bool:
        """Return whether one of the alternatives allows the version."""
        return any(_all_allow(terms, version) for terms in self._alternatives)

    def __str__(self) -> str:
        return self.text


@dataclass(frozen=True, slots=True)
class _Term:
    """A comparison with a version; ``parts`` is the number of given numbers (0 for ``*``), the others are 0."""

    operator: str
    base: SemVer
    parts: int

    def allows(self, version: SemVer) -> bool:
        match self.operator:
            case "!=":
                allowed = not self._names(version)
            case "<":
                allowed = version < self.base
            case ">=":
                allowed = version >= self.base
            case ">":
                allowed = self._beyond(version) if self.parts else version > self.base
            case "<=":
                allowed = not self._beyond(version)
            case "=" if self.parts == 3:
                allowed = version == self.base
            case _:
                allowed = self._within(version)
        return allowed

    def _names(self, version: SemVer) -> bool:
        if self.parts in (0, 3):
            return version == self.base
        same_series = version.release[: self.parts] == self.base.release[: self.parts]
        return same_series and (self.parts == 1 or version.pre == self.base.pre)

    def _beyond(self, version: SemVer) -> bool:
        return version > self.base if self.parts == 3 else version.release >= self._series_end()

    def _within(self, version: SemVer) -> bool:
        if version < self.base:
            return False
        if self.parts == 0 or (self.operator == "~" and self.parts == 3 and self.base.release == (0, 0, 0)):
            return True
        return version.release < (self._caret_end() if self.operator == "^" else self._series_end())

    def _series_end(self) -> _Release:
        """Return the end of the series: of the major for ``1``, else of the minor."""
        major, minor, _ = self.base.release
        return (major + 1, 0, 0) if self.parts == 1 else (major, minor + 1, 0)

    def _caret_end(self) -> _Release:
        """Return the version at which the first given number other than 0 changes."""
        major, minor, patch = self.base.release
        if major or self.parts == 1:
            return major + 1, 0, 0
        return (0, minor + 1, 0) if minor or self.parts == 2 else (0, 0, patch + 1)


def _all_allow(terms: tuple[_Term, ...], version: SemVer) -> bool:
    if version.pre and not any(term.base.pre for term in terms):
        return False
    return all(term.allows(version) for term in terms)


def _terms(alternative: str, text: str) -> Iterator[_Term]:
    spelled = _OPERATOR_GAP.sub("", _RANGE.sub(r">=\1 <=\2 ", alternative)).strip()
    for piece in _AND.split(spelled):
        match = _TERM.fullmatch(piece)
        if match is None or not _sound_pre(match[5] or ""):
            raise InvalidConstraint(text)
        numbers = tuple(_named(match[2], match[3], match[4]))
        major, minor, patch = (*numbers, 0, 0, 0)[:3]
        operator = match[1] or ""
        yield _Term(_SPELLINGS.get(operator, operator), SemVer(major, minor, patch, match[5] or ""), len(numbers))


def _named(*parts: str | None) -> Iterator[int]:
    """Yield the numbers before the first omitted one."""
    for part in parts:
        if part is None or part in "xX*":
            return
        yield int(part)
