"""Adds the dependencies of charts to their ``charts/``."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING

from clusterstacks.net.oci.credentials import ANONYMOUS
from clusterstacks.release.charts.chart_cache import DiskChartCache
from clusterstacks.release.charts.dependencies import ChartIdentity, held, lacking, requirements
from clusterstacks.release.charts.errors import ChartBroken
from clusterstacks.release.charts.repository import ChartDownloader
from clusterstacks.release.charts.resolve import ChartResolver, FoundChart

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from pathlib import Path

    from clusterstacks.net.http.allowlist import AllowedHosts
    from clusterstacks.net.http.client import HTTPClient
    from clusterstacks.net.oci.credentials import RegistryCredentials
    from clusterstacks.net.oci.reference import Reference
    from clusterstacks.release.charts.dependencies import ChartRequirement
    from clusterstacks.release.charts.lockfile import ResolvedChart
    from clusterstacks.release.charts.repository import FindCredentials


@dataclass(frozen=True, slots=True)
class Vendored:
    """A chart whose ``charts/`` is complete."""

    files: Mapping[str, bytes]
    resolved: tuple[ResolvedChart, ...] = ()
    """The charts that were added to ``charts/``."""
    unlocked: tuple[ResolvedChart, ...] = ()
    """Those of them that no lock file pins; ``helm dependency update`` writes one."""


async def no_credentials(reference: Reference) -> RegistryCredentials:  # noqa: ARG001 - the signature of credential finders
    """Find credentials nowhere: every repository is read anonymously."""
    return ANONYMOUS


class ChartDependencies:
    """Finds, verifies and caches charts.

    Args:
        cache: The cache directory; None to cache nothing.
        offline: Use only the cache.
        allowed: The allowed hosts; None for all, if the author of the charts is trusted.
        credentials: Finds the credentials for a registry or for the host of a repository.
    """

    def __init__(
        self,
        web: HTTPClient,
        cache: Path | None,
        *,
        offline: bool = False,
        allowed: AllowedHosts | None = None,
        credentials: FindCredentials = no_credentials,
    ) -> None:
        self._downloads = ChartDownloader(web, allowed, credentials)
        self._cache = DiskChartCache(cache)
        self._offline = offline

    async def vendor(
        self,
        files: Mapping[str, bytes],
        label: str,
        pinned: Sequence[ResolvedChart] = (),
        *,
        tree: Mapping[str, bytes] | None = None,
    ) -> Vendored:
        """Complete one chart; see :meth:`vendor_all`."""
        return (await self.vendor_all({label: files}, pinned, tree=tree))[label]

    async def vendor_all(
        self,
        charts: Mapping[str, Mapping[str, bytes]],
        pinned: Sequence[ResolvedChart] = (),
        *,
        tree: Mapping[str, bytes] | None = None,
    ) -> dict[str, Vendored]:
        """Add the missing dependencies of each chart to its ``charts/``.

        Existing charts that fit stay unchanged; other versions of an added chart are removed. Without a pin, the
        version of the lock file is used, and without a lock file the newest allowed version. The same charts and pins
        give the same bytes. The index of a repository is read once for all charts.

        Args:
            charts: The files of each chart by its label, which is its path in the stack: ``cluster-addon/cni``.
            pinned: Earlier resolutions, which are used without a new choice.
            tree: The files of the whole stack by path, for ``file://`` repositories.

        Raises:
            SpecError: A chart, its lock file or a repository is not valid or not allowed, or the content differs from a
                pin; :class:`SpecError` if an archive is missing offline.
            DependencyError: A repository lacks the chart or cannot be read now, or the cache cannot be written.
        """
        resolver = ChartResolver(self._downloads, self._cache, offline=self._offline, pinned=pinned, tree=tree or {})
        missing = {label: await asyncio.to_thread(lacking, files, label) for label, files in charts.items()}
        wanted = [(label, requirement) for label, needs in missing.items() for requirement in needs]
        resolved = dict(zip(wanted, await resolver.resolve_all(wanted), strict=True))
        return {
            label: await asyncio.to_thread(
                _completed,
                files,
                label,
                {requirement: resolved[label, requirement] for requirement in missing[label]},
            )
            for label, files in charts.items()
        }


def _completed(files: Mapping[str, bytes], label: str, added: Mapping[ChartRequirement, FoundChart]) -> Vendored:
    if not added:
        return Vendored(files)
    resolved = tuple(sorted({chart.resolved for chart in added.values()}))
    if len({chart.path for chart in resolved}) < len(resolved):
        names = ", ".join(map(str, resolved))
        raise ChartBroken(label, f"requires one version of a chart from two repositories ({names}): use one of them")
    unlocked = tuple(sorted({chart.resolved for requirement, chart in added.items() if not requirement.exact}))
    stale = _stale(files, label, added)
    kept = {path: content for path, content in files.items() if not path.startswith(stale)}
    return Vendored(kept | {chart.resolved.path: chart.packed for chart in added.values()}, resolved, unlocked)


def _stale(files: Mapping[str, bytes], label: str, vendored: Iterable[ChartRequirement]) -> tuple[str, ...]:
    """Return the charts in ``charts/`` that nothing requires and that have the name of an added chart."""
    added = {requirement.name for requirement in vendored}
    wanted = requirements(files, label)

    def is_stale(chart: ChartIdentity) -> bool:
        return chart.name in added and not any(requirement.fits(chart) for requirement in wanted)

    return tuple(path for path, chart in held(files, label).items() if is_stale(chart))
