"""Where charts are published: repositories with an index.yaml, and OCI registries."""

from __future__ import annotations

import asyncio
import json
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

from yarl import URL

from clusterstacks.api import yaml
from clusterstacks.charts.errors import ChartBroken, ChartNotFound, ChartRepositoryRefused
from clusterstacks.domain.documents import Node
from clusterstacks.domain.errors import SpecError
from clusterstacks.http.allowlist import host_of
from clusterstacks.http.errors import NotThere
from clusterstacks.http.messages import shown_url, status_error
from clusterstacks.http.urls import may_follow
from clusterstacks.oci.reference import SCHEME, Reference
from clusterstacks.oci.registry import Registry

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterator

    from clusterstacks.charts.requirements import WantedChart
    from clusterstacks.http.allowlist import AllowedHosts
    from clusterstacks.http.client import HTTPClient
    from clusterstacks.oci.credentials import RegistryCredentials

    FindCredentials = Callable[[Reference], Awaitable[RegistryCredentials]]


@dataclass(frozen=True, slots=True)
class Downloads:
    """What may be asked, and as whom.

    Args:
        web: What carries the requests.
        allowed: The places that may be asked; None for all.
        credentials: Finds those for a registry or for the host of a repository.
    """

    web: HTTPClient
    allowed: AllowedHosts | None
    credentials: FindCredentials

    def check(self, subject: object, url: str) -> None:
        """Refuse a place that may not be asked.

        Args:
            subject: What is looked for there, for the message.
            url: The place.

        Raises:
            ChartRepositoryRefused: It may not.
        """
        if self.allowed is not None and not self.allowed.allows(url):
            host = host_of(url)
            way_out = f"allow {host} with --chart-repositories" if host else "correct it"
            raise ChartRepositoryRefused(subject, shown_url(url), "may not be asked", way_out)

    async def get(self, subject: object, url: URL, limit: int) -> bytes:
        """Read a document of at most ``limit`` bytes.

        Raises:
            ChartRepositoryRefused: The place, or one it redirects to, may not be asked.
            DependencyError: It cannot be had now.
        """
        self.check(subject, str(url))
        headers = await self._authorization(url)
        async with self.web.open(
            "GET", str(url), headers=headers, check=lambda target: self.check(subject, target)
        ) as answer:
            if answer.status != 200:
                raise status_error(answer)
            return await answer.read(limit)

    async def _authorization(self, url: URL) -> dict[str, str]:
        # Configuration files name hosts; a path of a web server need not be one of a registry.
        credentials = await self.credentials(Reference(url.authority, "charts"))
        return {"Authorization": f"Basic {credentials.basic}"} if credentials.username else {}


MAX_INDEX_BYTES = 64 * 1024 * 1024
"""Largest index read (arbitrary; twice the largest known)."""

MAX_PART_BYTES = 8 * 1024 * 1024
"""Largest part of one chart (arbitrary; the largest known has 2 MB)."""

MAX_WHOLE_BYTES = 4 * 1024 * 1024
"""Largest index of an unusual form (arbitrary: some ten seconds)."""

_ENTRIES = re.compile(rb"""^(?:entries|"entries"|'entries'):[ \t]*\r?\n""", re.MULTILINE)
_TOP = re.compile(rb"^[^\s#-]", re.MULTILINE)
_FIRST = re.compile(rb"^( +)[^\s#-]", re.MULTILINE)
_DIGEST = re.compile(r"(?:sha256:)?([0-9a-f]{64})")


@dataclass(frozen=True, slots=True)
class IndexEntry:
    """One version of a chart in an index.

    Args:
        version: As the index writes it.
        url: Where its archive is; may be relative to the repository.
        digest: ``sha256:<hex>`` of the archive; empty when the index states none.
    """

    version: str
    url: str
    digest: str


def read_entries(index: bytes, chart: str, label: str) -> tuple[IndexEntry, ...]:
    """Return every version of a chart that can be downloaded; empty when the index does not know it.

    Takes time for a large index: call it in a thread.

    Args:
        index: The document.
        chart: The chart's name.
        label: How messages call the index.

    Raises:
        SpecError: The index cannot be read.
    """
    entries = Node(_load(index, chart, label), label).child("entries")
    listed = {} if entries.value is None else entries.mapping()
    return tuple(_usable(Node(listed.get(chart), label, f"entries.{chart}")))


def _usable(versions: Node) -> Iterator[IndexEntry]:
    for node in versions.items():
        fields = node.value if isinstance(node.value, dict) else {}
        version, urls, digest = fields.get("version"), fields.get("urls"), fields.get("digest")
        if isinstance(version, str) and isinstance(urls, list) and urls and isinstance(urls[0], str):
            stated = _DIGEST.fullmatch(digest.lower()) if isinstance(digest, str) else None
            yield IndexEntry(version, urls[0], f"sha256:{stated[1]}" if stated else "")


def _load(index: bytes, chart: str, label: str) -> Any:  # noqa: ANN401 - a document nobody has checked
    if index.lstrip()[:1] == b"{":
        return _load_json(index, label)
    try:
        part = _cut(index, chart.encode())
        if part is not None:
            return yaml.load(part, name=label, max_bytes=MAX_PART_BYTES)
    except yaml.YamlError:
        # A sign that belongs to a text of several lines, or an anchor elsewhere, may have misled the knife.
        if len(index) > MAX_WHOLE_BYTES:
            raise
    if len(index) > MAX_WHOLE_BYTES:
        raise ChartBroken(
            label, f"has a form that is read up to {MAX_WHOLE_BYTES} bytes: write it with helm repo index"
        )
    return yaml.load(index, name=label, max_bytes=MAX_WHOLE_BYTES)


def _load_json(index: bytes, label: str) -> Any:  # noqa: ANN401 - a document nobody has checked
    try:
        return json.loads(index)
    except (ValueError, RecursionError):
        raise SpecError("ChartIndexInvalid", f"{label} is no JSON: write it with helm repo index") from None


def _cut(index: bytes, chart: bytes) -> bytes | None:
    """Return the index as if it had this chart alone; None when it has not the form Helm writes."""
    found = _ENTRIES.search(index)
    first = _FIRST.search(index, found.end()) if found else None
    if found is None or first is None:
        return None
    end = _start(_TOP.search(index, found.end()), index)
    margin = re.escape(first[1])
    key = re.compile(rb"^%s[\"']?%s[\"']?:(?P<rest>[^\r\n]*)" % (margin, re.escape(chart)), re.MULTILINE)
    shown_url = key.search(index, found.end(), end)
    if shown_url is None:
        return b"entries: {}"
    if shown_url["rest"].strip():
        return None
    after = re.compile(rb"^ {0,%d}[^\s#-]" % len(first[1]), re.MULTILINE)
    return b"entries:\n" + index[shown_url.start() : min(end, _start(after.search(index, shown_url.end()), index))]


def _start(found: re.Match[bytes] | None, text: bytes) -> int:
    return found.start() if found else len(text)


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
        entries = await asyncio.to_thread(read_entries, self._index, wanted.name, shown_url(url))
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
