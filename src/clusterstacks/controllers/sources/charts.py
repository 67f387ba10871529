"""The charts that those of a release depend on and the release does not hold: resolved once, when it arrives."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from clusterstacks.domain.errors import ClusterStacksError, DependencyError
from clusterstacks.releases.dependencies.errors import (
    ChartBroken,
    ChartDependenciesMissing,
    ChartDigestMismatch,
    ChartNotFound,
)
from clusterstacks.releases.dependencies.vendoring import ChartDependencies

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from clusterstacks.releases.dependencies.vendoring import Vendored
    from clusterstacks.releases.vendored import Resolved


class ChartsUnavailable(DependencyError):
    """Charts cannot be had now."""

    def __init__(self, cause: DependencyError) -> None:
        super().__init__(cause.code, f"charts that the release depends on: {cause.message}")


_TROUBLES: Final = (ChartBroken, ChartDependenciesMissing, ChartDigestMismatch, ChartNotFound, ChartsUnavailable)


class RepositoryCharts(ChartDependencies):
    """Tells the troubles of chart repositories from those of the release's own source."""

    async def vendor_all(
        self,
        charts: Mapping[str, Mapping[str, bytes]],
        pinned: Sequence[Resolved] = (),
        *,
        tree: Mapping[str, bytes] | None = None,
    ) -> dict[str, Vendored]:
        """Add to each chart what it depends on.

        Raises:
            ChartsUnavailable: A repository lacks a chart or cannot be asked now.
            SpecError: As in the base class.
        """
        try:
            return await super().vendor_all(charts, pinned, tree=tree)
        except DependencyError as error:
            raise ChartsUnavailable(error) from error


def concerns_charts(error: ClusterStacksError) -> bool:
    """Whether it is not the release that is at fault, but the charts it depends on."""
    return isinstance(error, _TROUBLES)
