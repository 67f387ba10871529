"""Looking for charts: in the stack, in the cache, in their repositories; and believing none of them."""

from __future__ import annotations

import asyncio
import re
from dataclasses import dataclass
from hashlib import sha256
from typing import TYPE_CHECKING

from clusterstacks.charts.chart_version import WantedChart
from clusterstacks.charts.errors import ChartDigestMismatch, ChartNotCached, ChartRepositoryRefused
from clusterstacks.charts.lockfile import Resolved, pin_of
from clusterstacks.charts.packages import FILE, check_package, pack_neighbour
from clusterstacks.charts.repository import IndexRepository, RegistryRepository, Repository
from clusterstacks.oci.reference import SCHEME
from clusterstacks.oci.transfers import side_by_side

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from clusterstacks.charts.chart_cache import Shelf
    from clusterstacks.charts.chart_download import Downloads
    from clusterstacks.charts.requirements import ChartRequirement

_ALIAS = ("alias:", "@")
_CREDENTIALS = re.compile(r"([a-z0-9+.-]*://)[^/?#]*@")


@dataclass(frozen=True, slots=True)
class Found:
    """A chart and its archive."""

    resolved: Resolved
    packed: bytes


class ChartSearch:
    """One look for charts: the index of every repository is read once.

    Args:
        downloads: What may be asked.
        shelf: Where archives are kept.
        offline: Whether nobody is asked.
        pinned: What was resolved before.
        tree: The files of the stack.
    """

    def __init__(
        self,
        downloads: Downloads,
        shelf: Shelf,
        *,
        offline: bool,
        pinned: Sequence[Resolved],
        tree: Mapping[str, bytes],
    ) -> None:
        self._downloads = downloads
        self._shelf = shelf
        self._offline = offline
        self._pinned = pinned
        self._tree = tree
        self._repositories: dict[str, Repository] = {}

    async def find_all(self, wanted: Iterable[tuple[str, ChartRequirement]]) -> list[Found]:
        """Find everything, in the order given; the first failure ends all.

        Raises:
            SpecError: As :meth:`ChartDependencies.vendor_all` says.
            DependencyError: Likewise.
        """
        return await side_by_side(lambda one: self._find(*one), wanted)

    async def _find(self, label: str, requirement: ChartRequirement) -> Found:
        pin = pin_of(label, requirement, self._pinned)
        if requirement.repository.startswith(FILE):
            identity, packed = await asyncio.to_thread(pack_neighbour, requirement, label, self._tree)
            return self._verified(label, requirement, identity.version, packed, pin)
        repository = self._repository(label, requirement)
        wanted = WantedChart(requirement.name, requirement.constraint, pin.version if pin else requirement.locked)
        kept = await asyncio.to_thread(self._kept, requirement, wanted, pin)
        if kept is None and self._offline:
            raise ChartNotCached(f"{label}: {wanted}", requirement.repository)
        version, packed = kept or await self._fetched(repository, wanted, requirement, pin)
        found = self._verified(label, requirement, version, packed, pin)
        place = f"chart {requirement.name} {version} of {requirement.repository}"
        await asyncio.to_thread(check_package, packed, requirement.name, version, place)
        if kept is None:
            await asyncio.to_thread(self._shelf.keep, requirement.repository, requirement.name, version, packed)
        return found

    def _repository(self, label: str, requirement: ChartRequirement) -> Repository:
        """Return what knows how to ask a repository; what may not be asked gives nothing from the cache either."""
        name, subject = requirement.repository, f"{label}: {requirement}"
        if not name:
            raise ChartRepositoryRefused(subject, "''", "is none", "put the chart into charts/, or name its repository")
        if _CREDENTIALS.match(name):
            problem = "has credentials in it, which every reader of the chart would know"
            way_out = "take them out, and log in with 'docker login' or 'helm registry login'"
            raise ChartRepositoryRefused(subject, _CREDENTIALS.sub(r"\1", name), problem, way_out)
        if name.startswith(_ALIAS):
            problem = "is a name on its author's machine"
            raise ChartRepositoryRefused(subject, name, problem, "write the repository's URL, and lock it again")
        if name.startswith(SCHEME):
            self._downloads.check(subject, f"{name.rstrip('/')}/{requirement.name}")
            return self._repositories.setdefault(name, RegistryRepository(self._downloads, name))
        if name.startswith(("https://", "http://")):
            self._downloads.check(subject, name)
            return self._repositories.setdefault(name, IndexRepository(self._downloads, name))
        raise ChartRepositoryRefused(subject, name, "is of no known kind", "write https://, oci:// or file://")

    def _kept(
        self, requirement: ChartRequirement, wanted: WantedChart, pin: Resolved | None
    ) -> tuple[str, bytes] | None:
        """Return version and archive from the cache, if they surely are what a repository would give."""
        place = (requirement.repository, requirement.name)
        version = wanted.named
        if self._offline:
            version = wanted.choose(self._shelf.versions(*place)) or version
        digest = pin.digest if pin else version and self._shelf.digest(*place, version)
        packed = self._shelf.read(digest) if digest else None
        return None if packed is None else (version, packed)

    async def _fetched(
        self, repository: Repository, wanted: WantedChart, requirement: ChartRequirement, pin: Resolved | None
    ) -> tuple[str, bytes]:
        offer = await repository.offer(wanted)
        if pin and offer.digest and offer.digest != pin.digest:
            raise ChartDigestMismatch(pin, expected=pin.digest, found=offer.digest)
        packed = await asyncio.to_thread(self._shelf.read, offer.digest)
        if packed is None:
            packed = await repository.fetch(wanted, offer)
        found = f"sha256:{sha256(packed).hexdigest()}"
        if offer.digest and found != offer.digest:
            chart = f"chart {requirement.name} {offer.version} of {requirement.repository}"
            raise ChartDigestMismatch(chart, expected=offer.digest, found=found)
        return (pin.version if pin else offer.version), packed

    def _verified(
        self, label: str, requirement: ChartRequirement, version: str, packed: bytes, pin: Resolved | None
    ) -> Found:
        digest = f"sha256:{sha256(packed).hexdigest()}"
        if pin and digest != pin.digest:
            raise ChartDigestMismatch(pin, expected=pin.digest, found=digest)
        return Found(Resolved(label, requirement.name, version, requirement.repository, digest), packed)
