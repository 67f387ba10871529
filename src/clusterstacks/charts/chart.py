"""The Helm charts inside a release's archives."""

from __future__ import annotations

import threading
from collections import OrderedDict
from dataclasses import dataclass
from hashlib import sha256
from typing import TYPE_CHECKING

from clusterstacks.api import yaml
from clusterstacks.charts.archive import read_archive, write_archive
from clusterstacks.charts.errors import UnsafeArchive
from clusterstacks.charts.helmignore import chart_files
from clusterstacks.domain.digests import content_digest

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

CHART_FILE = "Chart.yaml"
OVERWRITE = "overwrite.yaml"

MAX_DOCUMENT_BYTES = 1024 * 1024
"""Longest Chart.yaml, metadata.yaml, clusteraddon.yaml or values template read (arbitrary)."""

CACHED_BYTES = 16 * 1024 * 1024
"""Packed charts kept in memory (arbitrary: some fifty releases of the size known)."""


@dataclass(frozen=True, slots=True)
class AddonChart:
    """One addon of a release.

    Args:
        name: Its chart's directory, ``cluster-addon`` in the single-chart layout.
        chart: A ``.tgz`` Helm loads.
        digest: Of the chart's files, ``sha256:<hex>``; the same in every release that holds the same files, however
            they are packed.
        values_template: The text that becomes the chart's values once rendered; None when there is none.
        values_name: The file it stands in, for messages.
    """

    name: str
    chart: bytes
    digest: str
    values_template: str | None
    values_name: str


def read_chart(packed: bytes, archive: str) -> dict[str, bytes]:
    """Unpack a Helm package; paths start below its top directory.

    Raises:
        UnsafeArchive: The archive is refused, or is not one chart in one directory.
        YamlError: Chart.yaml is no YAML.
    """
    members = read_archive(packed, archive)
    charts = _by_directory(members)
    if len(charts) != 1:
        raise UnsafeArchive(archive, "", f"has {len(charts)} top directories where a Helm package has one")
    if outside := [path for path in members if "/" not in path]:
        raise UnsafeArchive(archive, outside[0], "lies outside the chart's directory")
    (files,) = charts.values()
    _check_chart(files, archive)
    return files


def read_addons(packed: bytes, archive: str) -> dict[str, dict[str, bytes]]:
    """Unpack the addon archive of the multi-stage layout: the files of each chart by its directory.

    Files beside the directories, and directories that hold no chart, are left out; so are files of a chart that Helm
    ignores, but for its values template.

    Raises:
        UnsafeArchive: The archive is refused.
        YamlError: A Chart.yaml is no YAML.
    """
    directories = _by_directory(read_archive(packed, archive))
    charts = {name: _taken(files, f"{archive}: {name}") for name, files in directories.items() if CHART_FILE in files}
    for name, files in charts.items():
        _check_chart(files, f"{archive}: {name}")
    return charts


def pack_chart(name: str, files: Mapping[str, bytes]) -> bytes:
    """Pack one chart the way Helm loads it, quickly rather than tightly: it stays in memory."""
    return write_archive({f"{name}/{path}": content for path, content in files.items()}, level=1)


def chart_digest(files: Mapping[str, bytes]) -> str:
    """Digest the files of a chart, whatever archive they came in."""
    return content_digest((path, sha256(content).hexdigest()) for path, content in files.items())


class ChartCache:
    """Packed charts by digest, least recently used first out, up to a number of bytes; safe to use from threads."""

    def __init__(self, limit_bytes: int = CACHED_BYTES) -> None:
        self._limit = limit_bytes
        self._charts: OrderedDict[str, bytes] = OrderedDict()
        self._lock = threading.Lock()

    def get(self, digest: str, pack: Callable[[], bytes]) -> bytes:
        """Return the chart of a digest; ``pack`` makes it when it is not there (any more)."""
        with self._lock:
            if (chart := self._charts.get(digest)) is not None:
                self._charts.move_to_end(digest)
                return chart
        chart = pack()
        with self._lock:
            self._charts[digest] = chart
            while sum(map(len, self._charts.values())) > self._limit:
                self._charts.popitem(last=False)
        return chart


def _taken(files: Mapping[str, bytes], chart: str) -> dict[str, bytes]:
    # The template is read by the operator, not by Helm.
    template = {OVERWRITE: files[OVERWRITE]} if OVERWRITE in files else {}
    return chart_files(files, chart) | template


def _by_directory(files: Mapping[str, bytes]) -> dict[str, dict[str, bytes]]:
    directories: dict[str, dict[str, bytes]] = {}
    for path, content in files.items():
        top, slash, rest = path.partition("/")
        if slash:
            directories.setdefault(top, {})[rest] = content
    return directories


def _check_chart(files: Mapping[str, bytes], chart: str) -> None:
    if CHART_FILE not in files:
        raise UnsafeArchive(chart, "", f"has no {CHART_FILE}")
    label = f"{chart}: {CHART_FILE}"
    document = yaml.load(files[CHART_FILE], name=label, max_bytes=MAX_DOCUMENT_BYTES)
    if not isinstance(document, dict) or not isinstance(document.get("name"), str):
        raise UnsafeArchive(chart, CHART_FILE, "names no chart")
