"""The charts that those of a release depend on and the release does not hold: resolved once, when it arrives."""

from __future__ import annotations

from typing import TYPE_CHECKING

from clusterstacks.charts.errors import ChartsUnavailable
from clusterstacks.charts.vendor import ChartDependencies
from clusterstacks.domain.errors import DependencyError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from clusterstacks.charts.lockfile import Resolved
    from clusterstacks.charts.vendor import Vendored


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
