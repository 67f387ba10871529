"""Bringing the charts another chart depends on into its ``charts/``."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from clusterstacks.charts.chart_cache import Shelf
from clusterstacks.charts.chart_download import Downloads
from clusterstacks.charts.errors import ChartBroken, ChartDigestMismatch, ChartNotFound, ChartsUnavailable
from clusterstacks.charts.requirements import ChartDependenciesMissing, ChartIdentity, held, lacking, requirements
from clusterstacks.charts.resolve import ChartSearch, Found
from clusterstacks.oci.docker_config import ANONYMOUS

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from pathlib import Path

    from clusterstacks.charts.chart_download import FindCredentials
    from clusterstacks.charts.lockfile import Resolved
    from clusterstacks.charts.requirements import ChartRequirement
    from clusterstacks.http.allowlist import AllowedHosts
    from clusterstacks.http.client import Web
    from clusterstacks.oci.docker_config import RegistryCredentials
    from clusterstacks.oci.reference import Reference

CHART_ERRORS: Final = (ChartBroken, ChartDependenciesMissing, ChartDigestMismatch, ChartNotFound, ChartsUnavailable)
"""Not the release is at fault, but the charts that its charts depend on."""


@dataclass(frozen=True, slots=True)
class Vendored:
    """A chart with the charts it depends on.

    Args:
        files: Every file of it, by path.
        resolved: What was added to ``charts/``.
        unlocked: What of that was a choice, as no lock file names it: run ``helm dependency update``.
    """

    files: Mapping[str, bytes]
    resolved: tuple[Resolved, ...] = ()
    unlocked: tuple[Resolved, ...] = ()


async def nobody(reference: Reference) -> RegistryCredentials:  # noqa: ARG001 - one of several ways to find credentials
    """Find no credentials for anything."""
    return ANONYMOUS


class ChartDependencies:
    """Finds charts, verifies them and keeps them.

    Args:
        web: What carries the requests.
        cache: Directory for archives and what is known of them; None keeps nothing.
        offline: Take everything from the cache and ask nobody.
        allowed: The places that may be asked; None for all, as is right for who trusts the chart's author.
        credentials: Finds those for a registry or for the host of a repository.
    """

    def __init__(
        self,
        web: Web,
        cache: Path | None,
        *,
        offline: bool = False,
        allowed: AllowedHosts | None = None,
        credentials: FindCredentials = nobody,
    ) -> None:
        self._downloads = Downloads(web, allowed, credentials)
        self._shelf = Shelf(cache)
        self._offline = offline

    async def vendor(
        self,
        files: Mapping[str, bytes],
        label: str,
        pinned: Sequence[Resolved] = (),
        *,
        tree: Mapping[str, bytes] | None = None,
    ) -> Vendored:
        """Complete one chart; see :meth:`vendor_all`."""
        return (await self.vendor_all({label: files}, pinned, tree=tree))[label]

    async def vendor_all(
        self,
        charts: Mapping[str, Mapping[str, bytes]],
        pinned: Sequence[Resolved] = (),
        *,
        tree: Mapping[str, bytes] | None = None,
    ) -> dict[str, Vendored]:
        """Add to each chart what it depends on and its ``charts/`` does not hold.

        What is there and fits stays as it is; another version of a chart that is added goes. Without a pin the version
        of the lock file is taken, without a lock file the newest allowed. The same charts and pins give the same bytes.
        A repository's index is read once for all charts.

        Args:
            charts: The files of each chart by its label, which is its path in the stack: ``cluster-addon/cni``.
            pinned: What was resolved before: exactly that is taken, or nothing.
            tree: The files of the whole stack by path, in which ``file://`` repositories are looked for.

        Raises:
            SpecError: A chart, its lock file or a repository says something that cannot be used, may not be asked, or
                gives another content than is pinned; :class:`ChartNotCached` when there is nothing offline.
            DependencyError: A repository lacks the chart or cannot be asked now, or the disk refuses.
        """
        search = ChartSearch(self._downloads, self._shelf, offline=self._offline, pinned=pinned, tree=tree or {})
        missing = {label: await asyncio.to_thread(lacking, files, label) for label, files in charts.items()}
        wanted = [(label, requirement) for label, needs in missing.items() for requirement in needs]
        found = dict(zip(wanted, await search.find_all(wanted), strict=True))
        return {
            label: await asyncio.to_thread(
                _completed, files, label, {requirement: found[label, requirement] for requirement in missing[label]}
            )
            for label, files in charts.items()
        }


def _completed(files: Mapping[str, bytes], label: str, found: Mapping[ChartRequirement, Found]) -> Vendored:
    if not found:
        return Vendored(files)
    resolved = tuple(sorted({one.resolved for one in found.values()}))
    if len({one.path for one in resolved}) < len(resolved):
        names = ", ".join(map(str, resolved))
        raise ChartBroken(label, f"asks for one version of a chart from two repositories ({names}): name one of them")
    unlocked = tuple(sorted({one.resolved for requirement, one in found.items() if not requirement.exact}))
    stale = _stale(files, label, found)
    kept = {path: content for path, content in files.items() if not path.startswith(stale)}
    return Vendored(kept | {one.resolved.path: one.packed for one in found.values()}, resolved, unlocked)


def _stale(files: Mapping[str, bytes], label: str, found: Iterable[ChartRequirement]) -> tuple[str, ...]:
    """Name the charts in ``charts/`` that nothing asks for and that have the name of one that is added."""
    added = {requirement.name for requirement in found}
    wanted = requirements(files, label)

    def is_stale(chart: ChartIdentity) -> bool:
        return chart.name in added and not any(requirement.fits(chart) for requirement in wanted)

    return tuple(path for path, chart in held(files, label).items() if is_stale(chart))
