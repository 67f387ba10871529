"""Where charts are published: repositories with an index.yaml, and OCI registries."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

from yarl import URL

from clusterstacks.charts.errors import ChartBroken, ChartNotFound, ChartRepositoryRefused
from clusterstacks.charts.repository_index import MAX_INDEX_BYTES, IndexEntry, read_entries
from clusterstacks.http.errors import NotThere
from clusterstacks.http.redirects import may_follow
from clusterstacks.http.response import place
from clusterstacks.oci.reference import SCHEME, Reference
from clusterstacks.oci.registry import Registry

if TYPE_CHECKING:
    from clusterstacks.charts.chart_download import Downloads
    from clusterstacks.charts.chart_version import WantedChart

MAX_CHART_BYTES = 16 * 1024 * 1024
"""Largest archive of a chart (arbitrary; the largest known has 1 MB)."""

CHART_LAYER = "application/vnd.cncf.helm.chart.content.v1.tar+gzip"
"""What Helm calls the archive in a registry (helm.sh/docs/topics/registries)."""


@dataclass(frozen=True, slots=True)
class ChartOffer:
    """One version of a chart that a repository has.

    Args:
        version: As the repository writes it.
        digest: Of the archive, as the repository states it; empty when it does not.
        url: Where the archive is.
    """

    version: str
    digest: str
    url: str


class Repository(Protocol):
    """Where charts are published."""

    async def offer(self, wanted: WantedChart) -> ChartOffer:
        """Find the version to take.

        Raises:
            ChartNotFound: The repository has none that will do.
            SpecError: It says something that cannot be used, or may not be asked.
            DependencyError: It cannot be asked now.
        """
        ...

    async def fetch(self, wanted: WantedChart, offer: ChartOffer) -> bytes:
        """Return the archive of an offer; raises as :meth:`offer`."""
        ...


@dataclass(slots=True)
class IndexRepository:
    """A web server with an index.yaml, which is read once.

    Args:
        downloads: What may be asked.
        repository: Its URL, as charts write it.
    """

    downloads: Downloads
    repository: str
    _index: bytes | None = None
    _reading: asyncio.Lock = field(default_factory=asyncio.Lock)

    async def offer(self, wanted: WantedChart) -> ChartOffer:
        """Find the version to take in the index."""
        url = self._resolve(wanted, "index.yaml")
        async with self._reading:
            if self._index is None:
                self._index = await self.downloads.get(wanted, url, MAX_INDEX_BYTES)
        entries = await asyncio.to_thread(read_entries, self._index, wanted.name, place(url))
        version = wanted.choose(entry.version for entry in entries)
        if version is None:
            raise ChartNotFound(wanted, self.repository, _known(entries))
        entry = next(entry for entry in entries if entry.version == version)
        return ChartOffer(version, entry.digest, entry.url)

    async def fetch(self, wanted: WantedChart, offer: ChartOffer) -> bytes:
        """Download the archive from where the index says; that may be a registry."""
        if offer.url.startswith(SCHEME):
            reference = Reference.parse(offer.url)
            self._resolve(wanted, f"https://{reference.host}/")  # as far away as any other place it may name
            target = reference.digest or reference.tag or _tag(offer.version)
            return await _fetch_layer(await registry_at(self.downloads, wanted, reference), target)
        return await self.downloads.get(wanted, self._resolve(wanted, offer.url), MAX_CHART_BYTES)

    def _resolve(self, wanted: WantedChart, path: str) -> URL:
        try:
            base = URL(self.repository)
            target = base.with_path(f"{base.path.rstrip('/')}/").join(URL(path))
            if may_follow(base, target):
                return target if URL(path).host else target.update_query(base.query)
        except ValueError:
            pass
        raise ChartRepositoryRefused(
            wanted, self.repository, "has or names a URL that is none or leads astray", "correct it"
        )


@dataclass(frozen=True, slots=True)
class RegistryRepository:
    """A path in an OCI registry, below which every chart is a repository with a tag for each version.

    Args:
        downloads: What may be asked.
        repository: ``oci://<host>/<path>``, as charts write it.
    """

    downloads: Downloads
    repository: str

    async def offer(self, wanted: WantedChart) -> ChartOffer:
        """Find the version to take among the tags; one that is known exactly needs no list of them."""
        registry = await self._registry(wanted)
        version = wanted.named or await self._newest(registry, wanted)
        try:
            digest = await registry.head(_tag(version))
        except NotThere:
            digest = None
        if digest is None:
            raise ChartNotFound(wanted, self.repository, f"there is no tag {_tag(version)}")
        # The digest of the manifest, which pins the archive's: the tag may move in between.
        return ChartOffer(version, "", digest)

    async def fetch(self, wanted: WantedChart, offer: ChartOffer) -> bytes:
        """Download the layer that holds the chart."""
        return await _fetch_layer(await self._registry(wanted), offer.url)

    async def _registry(self, wanted: WantedChart) -> Registry:
        return await registry_at(
            self.downloads, wanted, Reference.parse(f"{self.repository.rstrip('/')}/{wanted.name}")
        )

    async def _newest(self, registry: Registry, wanted: WantedChart) -> str:
        try:
            tags = await registry.tags()
        except NotThere:
            raise ChartNotFound(wanted, self.repository, "there is no such chart") from None
        version = wanted.choose(tag.replace("_", "+") for tag in tags)
        if version is None:
            raise ChartNotFound(wanted, self.repository, f"none of its {len(tags)} tags is an allowed version")
        return version


async def registry_at(downloads: Downloads, subject: object, reference: Reference) -> Registry:
    """Return the repository of a registry that may be asked.

    The registry's token service, and where it keeps its blobs, may be at other hosts: what comes from there is
    verified by digest.

    Raises:
        ChartRepositoryRefused: It may not be asked.
    """
    downloads.check(subject, f"{SCHEME}{reference.place}")
    return Registry(downloads.web, reference, await downloads.credentials(reference))


async def _fetch_layer(registry: Registry, target: str) -> bytes:
    manifest = await registry.manifest(target)
    layers = [layer for layer in manifest.layers if layer.media_type == CHART_LAYER]
    if len(layers) != 1:
        raise ChartBroken(manifest.place, f"holds {len(layers)} charts where a chart's tag has one: correct the name")
    return await registry.small_blob(layers[0], MAX_CHART_BYTES)


def _tag(version: str) -> str:
    """Return the tag of a version: tags have no plus, so Helm writes an underscore."""
    return version.replace("+", "_")


def _known(entries: tuple[IndexEntry, ...]) -> str:
    return f"it has {len(entries)} other versions" if entries else "there is no such chart"
