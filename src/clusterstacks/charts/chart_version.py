"""Which of the published versions of a chart is taken."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from clusterstacks.domain.semver import SemVer
from clusterstacks.domain.versions import InvalidVersion

if TYPE_CHECKING:
    from collections.abc import Iterable

    from clusterstacks.domain.semver import Constraint


@dataclass(frozen=True, slots=True)
class WantedChart:
    """What is looked for in a repository.

    Args:
        name: The chart's name.
        constraint: The versions that will do.
        exact: The one version that was locked or pinned; empty for the newest that will do.
    """

    name: str
    constraint: Constraint
    exact: str = ""

    @property
    def named(self) -> str:
        """The version that can be asked for by its name: the exact one, or the only one the constraint names."""
        return self.exact or self.constraint.exact

    def choose(self, versions: Iterable[str]) -> str | None:
        """Return the version to take, None when none will do.

        An exact version is taken however it is spelled (``v1.2.3`` or ``1.2.3``), but with its build. Otherwise the
        newest wins that the constraint allows; texts that are no versions are passed over, as by Helm.
        """
        known = list(dict.fromkeys(versions))
        if self.exact:
            return self.exact if self.exact in known else _same(self.exact, known)
        if self.constraint.text in known:
            return self.constraint.text
        allowed = [(version, text) for text, version in _parsed(known) if self.constraint.allows(version)]
        return max(allowed)[1] if allowed else None

    def __str__(self) -> str:
        return f"{self.name} {self.exact or self.constraint}"


def same_version(one: str, two: str) -> bool:
    """Tell whether two spellings are the same version with the same build."""
    try:
        first, second = SemVer.parse(one), SemVer.parse(two)
    except InvalidVersion:
        return False
    return (first, first.build) == (second, second.build)


def _same(exact: str, versions: list[str]) -> str | None:
    return next((text for text in versions if same_version(text, exact)), None)


def _parsed(versions: list[str]) -> Iterable[tuple[str, SemVer]]:
    for text in versions:
        try:
            yield text, SemVer.parse(text)
        except InvalidVersion:
            continue
