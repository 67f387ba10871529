"""Resolves one chart dependency: in the stack, in the cache or in its repository; every archive is verified."""

from __future__ import annotations

import asyncio
import posixpath
import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from clusterstacks.model.digests import sha256_digest
from clusterstacks.net.oci.reference import SCHEME
from clusterstacks.net.oci.transfers import BLOBS_AT_ONCE
from clusterstacks.release.charts.archive import write_archive
from clusterstacks.release.charts.chart import CHART_FILE, read_chart
from clusterstacks.release.charts.dependencies import ChartIdentity, identify, lacking, same_version
from clusterstacks.release.charts.errors import (
    ChartBroken,
    ChartDigestMismatch,
    ChartRepositoryRefused,
    chart_not_cached,
)
from clusterstacks.release.charts.helmignore import chart_files
from clusterstacks.release.charts.lockfile import ResolvedChart, pin_of
from clusterstacks.release.charts.repository import IndexRepository, RegistryRepository, Repository
from clusterstacks.runtime.concurrency import gather

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from clusterstacks.release.charts.chart_cache import DiskChartCache
    from clusterstacks.release.charts.dependencies import ChartRequirement
    from clusterstacks.release.charts.repository import ChartDownloader


FILE = "file://"


def check_package(packed: bytes, name: str, version: str, label: str) -> None:
    """Check that an archive is the expected chart and complete.

    Raises:
        ChartBroken: It is another chart, or lacks a dependency.
        UnsafeArchive: It is damaged, too large, or not the archive of a chart.
    """
    files = read_chart(packed, label)
    identity = identify(files, label)
    if identity.name != name or not same_version(identity.version, version):
        raise ChartBroken(
            label, f"is the chart {identity.name} {identity.version}: report this to the owner of the repository"
        )
    _check_complete(files, label)


def pack_local_chart(
    requirement: ChartRequirement, chart: str, tree: Mapping[str, bytes]
) -> tuple[ChartIdentity, bytes]:
    """Pack the chart of a ``file://`` repository; the same files give the same bytes.

    ``chart`` is the path in the stack of the chart that has the dependency, ``tree`` the files of the stack by path.

    Raises:
        ChartRepositoryRefused: The path leaves the stack, or there is no chart.
        ChartBroken: It is another chart, or lacks a dependency.
    """
    path = requirement.repository.removeprefix(FILE)
    target = posixpath.normpath(posixpath.join(chart, path))
    if path.startswith("/") or target in ("", ".", "..") or target.startswith("../"):
        raise ChartRepositoryRefused(
            f"{chart}: {requirement}", requirement.repository, "leaves the stack", "use a directory of the stack"
        )
    files = {
        file.removeprefix(f"{target}/"): content for file, content in tree.items() if file.startswith(f"{target}/")
    }
    if CHART_FILE not in files:
        remedy = "add the chart there, or to charts/"
        problem = f"refers to {target}, which is not a chart"
        raise ChartRepositoryRefused(f"{chart}: {requirement}", requirement.repository, problem, remedy)
    included = chart_files(files, target)
    identity = identify(included, target)
    if not requirement.fits(identity) or (
        requirement.locked and not same_version(requirement.locked, identity.version)
    ):
        raise ChartBroken(
            target, f"is the chart {identity.name} {identity.version}, but {chart} requires {requirement}"
        )
    _check_complete(included, target)
    return identity, write_archive({f"{identity.name}/{file}": content for file, content in included.items()})


def _check_complete(files: Mapping[str, bytes], label: str) -> None:
    missing = lacking(files, label)
    if missing:
        names = ", ".join(map(str, missing))
        raise ChartBroken(label, f"lacks its dependencies {names}: add a complete package of it to charts/")


_ALIAS = ("alias:", "@")
_CREDENTIALS = re.compile(r"([a-z0-9+.-]*://)[^/?#]*@")


@dataclass(frozen=True, slots=True)
class FoundChart:
    """A resolved chart and its archive."""

    resolved: ResolvedChart
    packed: bytes


class ChartResolver:
    """Resolves dependencies; reads the index of each repository once.

    ``pinned`` are earlier resolutions, ``tree`` the files of the stack for ``file://`` repositories.
    """

    def __init__(
        self,
        downloads: ChartDownloader,
        cache: DiskChartCache,
        *,
        offline: bool,
        pinned: Sequence[ResolvedChart],
        tree: Mapping[str, bytes],
    ) -> None:
        self._downloads = downloads
        self._cache = cache
        self._offline = offline
        self._pinned = pinned
        self._tree = tree
        self._repositories: dict[str, Repository] = {}

    async def resolve_all(self, wanted: Iterable[tuple[str, ChartRequirement]]) -> list[FoundChart]:
        """Resolve all dependencies, in the given order; the first failure ends the search."""
        return await gather(lambda dependency: self._find(*dependency), wanted, at_once=BLOBS_AT_ONCE)

    async def _find(self, label: str, requirement: ChartRequirement) -> FoundChart:
        pin = pin_of(label, requirement, self._pinned)
        if requirement.repository.startswith(FILE):
            identity, packed = await asyncio.to_thread(pack_local_chart, requirement, label, self._tree)
            return self._verified(label, requirement, identity.version, packed, pin)
        repository = self._repository(label, requirement)
        if pin:
            requirement = replace(requirement, locked=pin.version)
        cached = await asyncio.to_thread(self._cached, requirement, pin)
        if cached is None and self._offline:
            raise chart_not_cached(f"{label}: {requirement}", requirement.repository)
        version, packed = cached or await self._fetched(repository, requirement, pin)
        chart = self._verified(label, requirement, version, packed, pin)
        place = f"chart {requirement.name} {version} of {requirement.repository}"
        await asyncio.to_thread(check_package, packed, requirement.name, version, place)
        if cached is None:
            await asyncio.to_thread(self._cache.store, requirement.repository, requirement.name, version, packed)
        return chart

    def _repository(self, label: str, requirement: ChartRequirement) -> Repository:
        """Return the client of a repository; a disallowed repository also gives nothing from the cache."""
        name, subject = requirement.repository, f"{label}: {requirement}"
        if not name:
            raise ChartRepositoryRefused(
                subject, "''", "is missing", "add the chart to charts/, or write its repository"
            )
        if _CREDENTIALS.match(name):
            problem = "contains credentials, which every reader of the chart could see"
            remedy = "remove them, and log in with 'docker login' or 'helm registry login'"
            raise ChartRepositoryRefused(subject, _CREDENTIALS.sub(r"\1", name), problem, remedy)
        if name.startswith(_ALIAS):
            problem = "is an alias that is only defined on the machine of the author"
            raise ChartRepositoryRefused(
                subject, name, problem, "write the URL of the repository, and run helm dependency update"
            )
        if name.startswith(SCHEME):
            self._downloads.check(subject, f"{name.rstrip('/')}/{requirement.name}")
            return self._repositories.setdefault(name, RegistryRepository(self._downloads, name))
        if name.startswith(("https://", "http://")):
            self._downloads.check(subject, name)
            return self._repositories.setdefault(name, IndexRepository(self._downloads, name))
        raise ChartRepositoryRefused(subject, name, "is of an unknown kind", "use https://, oci:// or file://")

    def _cached(self, requirement: ChartRequirement, pin: ResolvedChart | None) -> tuple[str, bytes] | None:
        """Return version and archive from the cache if the repository would certainly return the same."""
        place = (requirement.repository, requirement.name)
        version = requirement.exact
        if self._offline:
            version = requirement.choose(self._cache.versions(*place)) or version
        digest = pin.digest if pin else version and self._cache.digest(*place, version)
        packed = self._cache.read(digest) if digest else None
        return None if packed is None else (version, packed)

    async def _fetched(
        self, repository: Repository, requirement: ChartRequirement, pin: ResolvedChart | None
    ) -> tuple[str, bytes]:
        chart_version = await repository.find(requirement)
        if pin and chart_version.digest and chart_version.digest != pin.digest:
            raise ChartDigestMismatch(pin, expected=pin.digest, found=chart_version.digest)
        packed = await asyncio.to_thread(self._cache.read, chart_version.digest)
        if packed is None:
            packed = await repository.fetch(requirement, chart_version)
        digest = sha256_digest(packed)
        if chart_version.digest and digest != chart_version.digest:
            chart = f"chart {requirement.name} {chart_version.version} of {requirement.repository}"
            raise ChartDigestMismatch(chart, expected=chart_version.digest, found=digest)
        return (pin.version if pin else chart_version.version), packed

    def _verified(
        self, label: str, requirement: ChartRequirement, version: str, packed: bytes, pin: ResolvedChart | None
    ) -> FoundChart:
        digest = sha256_digest(packed)
        if pin and digest != pin.digest:
            raise ChartDigestMismatch(pin, expected=pin.digest, found=digest)
        return FoundChart(ResolvedChart(label, requirement.name, version, requirement.repository, digest), packed)
