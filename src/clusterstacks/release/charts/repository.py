"""Downloads charts from repositories with an index.yaml and from OCI registries.

Only allowed hosts are contacted, also after redirects.

Public indexes reach 30 MB, and reading that much YAML takes minutes and gigabytes. Helm writes the name of each chart
on a line of its own, so the part of one chart is cut out of the text and only that part is read. An index of another
form is read completely if it is small.
"""

from __future__ import annotations

import asyncio
import json
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

from yarl import URL

from clusterstacks.model import yaml
from clusterstacks.model.documents import Node
from clusterstacks.model.errors import SpecError
from clusterstacks.net.http.allowlist import host_of
from clusterstacks.net.http.errors import NotThere
from clusterstacks.net.http.messages import shown_url
from clusterstacks.net.http.urls import may_follow
from clusterstacks.net.oci.reference import SCHEME, Reference
from clusterstacks.net.oci.registry import Registry
from clusterstacks.release.charts.errors import ChartBroken, ChartNotFound, ChartRepositoryRefused

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterator

    from clusterstacks.net.http.allowlist import AllowedHosts
    from clusterstacks.net.http.client import HTTPClient
    from clusterstacks.net.oci.credentials import RegistryCredentials
    from clusterstacks.release.charts.dependencies import ChartRequirement

    FindCredentials = Callable[[Reference], Awaitable[RegistryCredentials]]


MAX_CHART_BYTES = 16 * 1024 * 1024
"""Maximum size of a chart archive (arbitrary; the largest known has 1 MB)."""

CHART_LAYER = "application/vnd.cncf.helm.chart.content.v1.tar+gzip"
"""Media type of the archive in a registry (https://helm.sh/docs/topics/registries/)."""

MAX_INDEX_BYTES = 64 * 1024 * 1024
"""Maximum size of an index (arbitrary; twice the largest known)."""

MAX_PART_BYTES = 8 * 1024 * 1024
"""Maximum size of the part of one chart (arbitrary; the largest known has 2 MB)."""

MAX_WHOLE_BYTES = 4 * 1024 * 1024
"""Maximum size of an index of an unusual form (arbitrary: about ten seconds)."""

_ENTRIES = re.compile(
    rb"""^(?:entries|"entries"|'entries'):[ \t]*\r?\n(?:[ \t]*(?:#.*)?\r?\n)*(?P<margin> +)""", re.MULTILINE
)
"""The start of the entries, and the margin of the chart names."""
_CHART = rb"""^%(margin)s["']?%(name)s["']?:.*\n(?:%(margin)s[ -].*\n?|[ \t]*(?:#.*)?\r?\n)*+"""
"""The name of a chart with its versions: lines with a larger margin, or with a dash."""
_DIGEST = re.compile(r"(?:sha256:)?([0-9a-f]{64})")


@dataclass(frozen=True, slots=True)
class ChartDownloader:
    """Downloads from allowed hosts (None allows all), with the credentials of a registry or of a repository's host."""

    web: HTTPClient
    allowed: AllowedHosts | None
    credentials: FindCredentials

    def check(self, subject: object, url: str) -> None:
        """Refuse a URL that is not allowed; ``subject`` is the chart in the message.

        Raises:
            ChartRepositoryRefused: The host is not allowed.
        """
        if self.allowed is not None and not self.allowed.allows(url):
            host = host_of(url)
            remedy = f"allow {host} with --chart-repositories" if host else "correct its URL"
            raise ChartRepositoryRefused(subject, shown_url(url), "is not allowed", remedy)

    async def get(self, subject: object, url: URL, limit: int) -> bytes:
        """Read a document of at most ``limit`` bytes; targets of redirects must be allowed as well."""
        self.check(subject, str(url))
        headers = await self._authorization(url)
        async with self.web.open(
            "GET", str(url), headers=headers, check=lambda target: self.check(subject, target)
        ) as answer:
            if answer.status != 200:
                raise answer.error()
            return await answer.read(limit)

    async def _authorization(self, url: URL) -> dict[str, str]:
        # Credentials are configured by host; the path of a web server is not a repository of a registry.
        credentials = await self.credentials(Reference(url.authority, "charts"))
        return {"Authorization": f"Basic {credentials.basic}"} if credentials.username else {}


@dataclass(frozen=True, slots=True)
class IndexEntry:
    """One version of a chart in an index."""

    version: str  # as the index writes it
    url: str
    """The URL of its archive; may be relative to the repository."""
    digest: str
    """``sha256:<hex>`` of the archive; empty if the index has none."""


def read_entries(index: bytes, chart: str, label: str) -> tuple[IndexEntry, ...]:
    """Return all versions of a chart that can be downloaded; empty if the index does not have the chart.

    It takes long for a large index: call it in a thread. ``label`` is the name of the index in messages.
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


def _load(index: bytes, chart: str, label: str) -> Any:  # noqa: ANN401 - an unchecked document
    if index.lstrip()[:1] == b"{":
        return _load_json(index, label)
    try:
        part = _cut(index, chart.encode())
        if part is not None:
            return yaml.load(part, name=label, max_bytes=MAX_PART_BYTES)
    except yaml.YamlError:
        # A block scalar, or an anchor elsewhere, may have led to a wrong cut.
        if len(index) > MAX_WHOLE_BYTES:
            raise
    if len(index) > MAX_WHOLE_BYTES:
        raise ChartBroken(
            label, f"has more than {MAX_WHOLE_BYTES} bytes and was not written by Helm: write it with helm repo index"
        )
    return yaml.load(index, name=label, max_bytes=MAX_WHOLE_BYTES)


def _load_json(index: bytes, label: str) -> Any:  # noqa: ANN401 - an unchecked document
    try:
        return json.loads(index)
    except (ValueError, RecursionError):
        raise SpecError("ChartIndexInvalid", f"{label} is not valid JSON: write it with helm repo index") from None


def _cut(index: bytes, chart: bytes) -> bytes | None:
    """Return the index with only this chart; None if it does not have the form that Helm writes."""
    entries = _ENTRIES.search(index)
    if entries is None:
        return None
    pattern = _CHART % {b"margin": entries["margin"], b"name": re.escape(chart)}
    part = re.compile(pattern, re.MULTILINE).search(index, entries.start("margin"))
    return b"entries:\n" + part.group() if part else b"entries: {}"


@dataclass(frozen=True, slots=True)
class ChartVersion:
    """One version of a chart in a repository."""

    version: str  # as the repository writes it
    digest: str
    """The digest of the archive in the repository; empty if unknown."""
    url: str


class Repository(Protocol):
    """A web server with an index, or an OCI registry."""

    async def find(self, wanted: ChartRequirement) -> ChartVersion:
        """Find the version to use.

        Raises:
            ChartNotFound: The repository has no allowed version.
            SpecError: Its content is not valid, or it must not be used.
            DependencyError: It cannot be read now.
        """
        ...

    async def fetch(self, wanted: ChartRequirement, version: ChartVersion) -> bytes:
        """Return the archive of a version; raises as :meth:`find`."""
        ...


@dataclass(slots=True)
class IndexRepository:
    """A web server with an index.yaml, which is read once."""

    downloads: ChartDownloader
    repository: str
    _index: bytes | None = None
    _reading: asyncio.Lock = field(default_factory=asyncio.Lock)

    async def find(self, wanted: ChartRequirement) -> ChartVersion:
        """Find the version to use in the index."""
        url = self._resolve(wanted, "index.yaml")
        async with self._reading:
            if self._index is None:
                self._index = await self.downloads.get(wanted, url, MAX_INDEX_BYTES)
        entries = await asyncio.to_thread(read_entries, self._index, wanted.name, shown_url(url))
        version = wanted.choose(entry.version for entry in entries)
        if version is None:
            known = f"it has {len(entries)} other versions" if entries else "the chart does not exist"
            raise ChartNotFound(wanted, self.repository, known)
        entry = next(entry for entry in entries if entry.version == version)
        return ChartVersion(version, entry.digest, entry.url)

    async def fetch(self, wanted: ChartRequirement, version: ChartVersion) -> bytes:
        """Download the archive from the URL in the index, which may be a registry."""
        if version.url.startswith(SCHEME):
            reference = Reference.parse(version.url)
            self._resolve(wanted, f"https://{reference.host}/")  # the same check as for other URLs
            target = reference.digest or reference.tag or _tag(version.version)
            return await _fetch_layer(await registry_at(self.downloads, wanted, reference), target)
        return await self.downloads.get(wanted, self._resolve(wanted, version.url), MAX_CHART_BYTES)

    def _resolve(self, wanted: ChartRequirement, path: str) -> URL:
        try:
            base = URL(self.repository)
            target = base.with_path(f"{base.path.rstrip('/')}/").join(URL(path))
            if may_follow(base, target):
                return target if URL(path).host else target.update_query(base.query)
        except ValueError:
            pass
        raise ChartRepositoryRefused(wanted, self.repository, "contains an invalid or disallowed URL", "correct it")


@dataclass(frozen=True, slots=True)
class RegistryRepository:
    """``oci://<host>/<path>`` in a registry; each chart is a repository below it, with a tag for each version."""

    downloads: ChartDownloader
    repository: str

    async def find(self, wanted: ChartRequirement) -> ChartVersion:
        """Find the version to use; an exact version does not need the list of tags."""
        registry = await self._registry(wanted)
        version = wanted.exact or await self._newest(registry, wanted)
        try:
            digest = await registry.head(_tag(version))
        except NotThere:
            digest = None
        if digest is None:
            raise ChartNotFound(wanted, self.repository, f"the tag {_tag(version)} does not exist")
        # The manifest digest also pins the archive: the tag may move in between.
        return ChartVersion(version, "", digest)

    async def fetch(self, wanted: ChartRequirement, version: ChartVersion) -> bytes:
        """Download the layer that contains the chart."""
        return await _fetch_layer(await self._registry(wanted), version.url)

    async def _registry(self, wanted: ChartRequirement) -> Registry:
        return await registry_at(
            self.downloads, wanted, Reference.parse(f"{self.repository.rstrip('/')}/{wanted.name}")
        )

    async def _newest(self, registry: Registry, wanted: ChartRequirement) -> str:
        try:
            tags = await registry.tags()
        except NotThere:
            raise ChartNotFound(wanted, self.repository, "the chart does not exist") from None
        version = wanted.choose(tag.replace("_", "+") for tag in tags)
        if version is None:
            raise ChartNotFound(wanted, self.repository, f"none of its {len(tags)} tags is an allowed version")
        return version


async def registry_at(downloads: ChartDownloader, subject: object, reference: Reference) -> Registry:
    """Return a repository of a registry, which is refused if its host is not allowed.

    The token service and the blob storage of the registry may use other hosts: their content is verified by digest.
    """
    downloads.check(subject, f"{SCHEME}{reference.place}")
    return Registry(downloads.web, reference, await downloads.credentials(reference))


async def _fetch_layer(registry: Registry, target: str) -> bytes:
    manifest = await registry.manifest(target)
    layers = [layer for layer in manifest.layers if layer.media_type == CHART_LAYER]
    if len(layers) != 1:
        raise ChartBroken(
            manifest.place, f"contains {len(layers)} chart layers instead of one: correct the name of the chart"
        )
    return await registry.small_blob(layers[0], MAX_CHART_BYTES)


def _tag(version: str) -> str:
    """Return the tag of a version: tags cannot contain a plus, so Helm writes an underscore."""
    return version.replace("+", "_")
