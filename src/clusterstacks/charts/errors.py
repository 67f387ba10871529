"""Errors of chart archives and chart dependencies.

::

    SpecError
    ├── UnsafeArchive             an archive holds what no archive of a release may hold, or is damaged
    ├── ChartRepositoryRefused    a repository of a kind, or at a place, that is not asked
    ├── ChartNotCached            it would have to be fetched, and the network is not to be used
    ├── ChartDigestMismatch       a chart changed under its version
    └── ChartBroken               an archive is not the chart it should be
    DependencyError
    ├── ChartNotFound             the repository has no such chart (yet)
    └── ChartsUnavailable         a repository cannot be used now
"""

from __future__ import annotations

from clusterstacks.domain.errors import DependencyError, SpecError


class UnsafeArchive(SpecError):
    """An archive that is not read any further.

    Args:
        archive: What the archive is, e.g. ``release x: y.tgz``.
        member: The member at fault; empty when it is the archive as a whole.
        cause: What is wrong with it.
    """

    def __init__(self, archive: str, member: str, cause: str) -> None:
        place = f"{archive}: member {member!r}" if member else archive
        super().__init__("UnsafeArchive", f"{place} {cause}; build the release again")
        self.member = member
        self.cause = cause


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
