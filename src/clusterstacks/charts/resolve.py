"""Looking for charts: in the stack, in the cache, in their repositories; and believing none of them."""

from __future__ import annotations

import asyncio
import posixpath
import re
from dataclasses import dataclass
from hashlib import sha256
from typing import TYPE_CHECKING

from clusterstacks.charts.archive import write_archive
from clusterstacks.charts.chart import CHART_FILE, read_chart
from clusterstacks.charts.errors import ChartBroken, ChartDigestMismatch, ChartNotCached, ChartRepositoryRefused
from clusterstacks.charts.helmignore import chart_files
from clusterstacks.charts.lockfile import Resolved, pin_of
from clusterstacks.charts.repository import IndexRepository, RegistryRepository, Repository
from clusterstacks.charts.requirements import ChartIdentity, WantedChart, identify, lacking, same_version
from clusterstacks.oci.reference import SCHEME
from clusterstacks.oci.transfers import BLOBS_AT_ONCE
from clusterstacks.runtime.concurrency import gather

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from clusterstacks.charts.chart_cache import Shelf
    from clusterstacks.charts.repository import Downloads
    from clusterstacks.charts.requirements import ChartRequirement


FILE = "file://"


def check_package(packed: bytes, name: str, version: str, label: str) -> None:
    """Check that an archive is the chart it should be, and complete.

    Raises:
        ChartBroken: It is another chart, or lacks one it depends on itself.
        UnsafeArchive: It is damaged, too large, or no archive of a chart.
    """
    files = read_chart(packed, label)
    identity = identify(files, label)
    if identity.name != name or not same_version(identity.version, version):
        raise ChartBroken(label, f"is the chart {identity.name} {identity.version}: its repository is broken")
    _check_complete(files, label)


def pack_neighbour(requirement: ChartRequirement, chart: str, tree: Mapping[str, bytes]) -> tuple[ChartIdentity, bytes]:
    """Pack the chart a ``file://`` repository names; the same files always give the same bytes.

    Args:
        requirement: What the chart asks for.
        chart: Where the chart lies in the stack.
        tree: The files of the stack, by path.

    Raises:
        ChartRepositoryRefused: The path leaves the stack, or there is no such chart.
        ChartBroken: It is another chart, or lacks one it depends on itself.
    """
    path = requirement.repository.removeprefix(FILE)
    target = posixpath.normpath(posixpath.join(chart, path))
    if path.startswith("/") or target in ("", ".", "..") or target.startswith("../"):
        raise ChartRepositoryRefused(
            f"{chart}: {requirement}", requirement.repository, "leaves the stack", "name a directory inside of it"
        )
    files = {
        file.removeprefix(f"{target}/"): content for file, content in tree.items() if file.startswith(f"{target}/")
    }
    if CHART_FILE not in files:
        way_out = "put it there, or into the chart's own charts/"
        problem = f"leads to {target}, where no chart is"
        raise ChartRepositoryRefused(f"{chart}: {requirement}", requirement.repository, problem, way_out)
    taken = chart_files(files, target)
    identity = identify(taken, target)
    if not requirement.fits(identity) or (
        requirement.locked and not same_version(requirement.locked, identity.version)
    ):
        raise ChartBroken(target, f"is the chart {identity.name} {identity.version}, and {chart} needs {requirement}")
    _check_complete(taken, target)
    return identity, write_archive({f"{identity.name}/{file}": content for file, content in taken.items()})


def _check_complete(files: Mapping[str, bytes], label: str) -> None:
    missing = lacking(files, label)
    if missing:
        names = ", ".join(map(str, missing))
        raise ChartBroken(
            label, f"does not hold {names}, which it depends on itself: put a package of it that does into charts/"
        )


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
        return await gather(lambda one: self._find(*one), wanted, at_once=BLOBS_AT_ONCE)

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
