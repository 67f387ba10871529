"""Errors of chart archives and chart dependencies.

::

    SpecError
    ├── UnsafeArchive             an archive is damaged or contains something that releases must not contain
    ├── ChartRepositoryRefused    a repository is of an unsupported kind, or its host is not allowed
    ├── ChartDigestMismatch       the content of a chart version changed
    └── ChartBroken               an archive is not the expected chart
    DependencyError
    ├── ChartNotFound             the repository does not have the chart (yet)
    └── ChartsUnavailable         a repository cannot be used now
"""

from __future__ import annotations

from clusterstacks.model.errors import DependencyError, SpecError


class UnsafeArchive(SpecError):
    """An archive is rejected.

    ``archive`` is its name (``release x: y.tgz``), ``member`` empty if the archive as a whole is the problem, and
    ``cause`` the predicate of a sentence.
    """

    def __init__(self, archive: str, member: str, cause: str) -> None:
        subject = f"{archive}: member {member!r}" if member else archive
        super().__init__("UnsafeArchive", f"{subject} {cause}; build the release again")
        self.member = member
        self.cause = cause


class ChartRepositoryRefused(SpecError):
    """A chart repository must not be used; ``remedy`` is what the user may change."""

    def __init__(self, subject: object, repository: str, problem: str, remedy: str) -> None:
        super().__init__("ChartRepositoryRefused", f"{subject}: the chart repository {repository} {problem}: {remedy}")
        self.remedy = remedy


def chart_not_cached(requirement: object, repository: str) -> SpecError:
    """Return the error for a chart that is not in the cache while the network must not be used."""
    return SpecError(
        "ChartNotCached",
        f"{requirement} of {repository} is not in the cache: run once without --offline, add it to charts/, "
        "or leave the charts unchanged (--dependencies leave)",
    )


class ChartDigestMismatch(SpecError):
    """The content of a chart version changed."""

    def __init__(self, chart: object, *, expected: str, found: str) -> None:
        super().__init__(
            "ChartDigestMismatch",
            f"{chart} must have the digest {expected}, but its repository now returns {found}: restore the previous "
            "archive, or use another version of the chart",
        )


class ChartBroken(SpecError):
    """An archive is not the expected chart."""

    def __init__(self, chart: object, problem: str) -> None:
        super().__init__("ChartBroken", f"{chart} {problem}")


class ChartNotFound(DependencyError):
    """A repository does not have the chart, or no allowed version of it."""

    def __init__(self, requirement: object, repository: str, problem: str) -> None:
        super().__init__(
            "ChartNotFound", f"{requirement} is not in {repository} ({problem}): publish it there or correct the chart"
        )


class ChartsUnavailable(DependencyError):
    """Charts that a release depends on cannot be fetched now."""

    def __init__(self, cause: DependencyError) -> None:
        super().__init__(cause.code, f"charts that the release depends on: {cause.message}")
