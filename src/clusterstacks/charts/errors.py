"""What can be wrong with the charts another chart depends on.

::

    SpecError
    ├── ChartDependenciesMissing  a release lacks charts, and nobody may or can fetch them
    ├── ChartRepositoryRefused    a repository of a kind, or at a place, that is not asked
    ├── ChartNotCached            it would have to be fetched, and the network is not to be used
    ├── ChartDigestMismatch       a chart changed under its version
    └── ChartBroken               an archive is not the chart it should be
    DependencyError
    ├── ChartNotFound             the repository has no such chart (yet)
    └── ChartsUnavailable         a repository cannot be used now
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from clusterstacks.domain.errors import DependencyError, SpecError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from clusterstacks.charts.requirements import Requirement


class ChartDependenciesMissing(SpecError):
    """A release whose charts lack dependencies that are not going to be fetched.

    Args:
        release: Which release.
        lacking: What is missing, by the chart that depends on it.
        way_out: What to do.
    """

    def __init__(self, release: object, lacking: Mapping[str, Sequence[Requirement]], way_out: str) -> None:
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


class ChartRepositoryRefused(SpecError):
    """A repository that is not asked; ``way_out`` is what a person may do."""

    def __init__(self, subject: object, repository: str, problem: str, way_out: str) -> None:
        super().__init__("ChartRepositoryRefused", f"{subject}: the chart repository {repository} {problem}: {way_out}")
        self.way_out = way_out


class ChartNotCached(SpecError):
    """A chart that is not on this machine while the network must not be used."""

    def __init__(self, requirement: object, repository: str) -> None:
        super().__init__(
            "ChartNotCached",
            f"{requirement} of {repository} is not in the cache: run once without --offline, put it into charts/, "
            "or take the charts as they are (--dependencies leave)",
        )


class ChartDigestMismatch(SpecError):
    """A chart whose content changed under its version."""

    def __init__(self, chart: object, *, expected: str, found: str) -> None:
        super().__init__(
            "ChartDigestMismatch",
            f"{chart} should have the digest {expected}, but its repository now gives {found}: bring back the old "
            "archive, or take another version of the chart",
        )


class ChartBroken(SpecError):
    """An archive that is not the chart it should be."""

    def __init__(self, chart: object, problem: str) -> None:
        super().__init__("ChartBroken", f"{chart} {problem}")


class ChartNotFound(DependencyError):
    """A repository without the chart, or without a version that will do."""

    def __init__(self, requirement: object, repository: str, problem: str) -> None:
        super().__init__(
            "ChartNotFound", f"{requirement} is not in {repository} ({problem}): publish it there or correct the chart"
        )


class ChartsUnavailable(DependencyError):
    """Charts that a release depends on cannot be had now."""

    def __init__(self, cause: DependencyError) -> None:
        super().__init__(cause.code, f"charts that the release depends on: {cause.message}")


CHART_ERRORS: Final = (ChartBroken, ChartDependenciesMissing, ChartDigestMismatch, ChartNotFound, ChartsUnavailable)
"""Not the release is at fault, but the charts that its charts depend on."""
