"""Charts that the operator downloads from allowed repositories because a release lacks them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from clusterstacks.model.errors import DependencyError
from clusterstacks.release.charts.errors import ChartsUnavailable
from clusterstacks.release.charts.vendor import ChartDependencies

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from clusterstacks.release.charts.lockfile import ResolvedChart
    from clusterstacks.release.charts.vendor import Vendored


class RepositoryCharts(ChartDependencies):
    """Chart dependencies with their own error class, so that callers distinguish repositories from sources."""

    async def vendor_all(
        self,
        charts: Mapping[str, Mapping[str, bytes]],
        pinned: Sequence[ResolvedChart] = (),
        *,
        tree: Mapping[str, bytes] | None = None,
    ) -> dict[str, Vendored]:
        """Add the missing dependencies of each chart.

        Raises:
            ChartsUnavailable: A repository lacks a chart or is unavailable.
        """
        try:
            return await super().vendor_all(charts, pinned, tree=tree)
        except DependencyError as error:
            raise ChartsUnavailable(error) from error
