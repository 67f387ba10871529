"""Reads and packs the Helm charts in the archives of a release."""

from __future__ import annotations

import threading
from collections import OrderedDict
from dataclasses import dataclass
from hashlib import sha256
from itertools import product
from typing import TYPE_CHECKING, Final

from clusterstacks.model import yaml
from clusterstacks.model.digests import content_digest
from clusterstacks.model.ranges import Range
from clusterstacks.model.semver import SemVer
from clusterstacks.release.charts.archive import read_archive, write_archive
from clusterstacks.release.charts.errors import UnsafeArchive
from clusterstacks.release.charts.helmignore import chart_files

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from clusterstacks.model.semver import Constraint


CHART_FILE = "Chart.yaml"
OVERWRITE = "overwrite.yaml"

MAX_DOCUMENT_BYTES = 1024 * 1024
"""Maximum size of Chart.yaml, metadata.yaml, clusteraddon.yaml or a values template (arbitrary)."""

CACHED_BYTES = 16 * 1024 * 1024
"""Size of the packed charts kept in memory (arbitrary: about fifty releases of the known size)."""


@dataclass(frozen=True, slots=True)
class AddonChart:
    """An addon of a release, ready to be rendered."""

    name: str
    """The directory of its chart; ``cluster-addon`` in the single-chart layout."""
    chart: bytes
    """A ``.tgz`` that Helm loads."""
    digest: str
    """``sha256:<hex>`` of the files of the chart; equal for equal files, however they are packed."""
    values_template: str | None
    """The template of the chart's values; None if there is none."""
    values_name: str
    """The file name of the template, for messages."""


def read_chart(packed: bytes, archive: str) -> dict[str, bytes]:
    """Unpack a Helm package; paths are relative to its top directory.

    Raises:
        UnsafeArchive: The archive is rejected, or is not one chart in one directory.
        YamlError: Chart.yaml is not valid YAML.
    """
    members = read_archive(packed, archive)
    charts = _by_directory(members)
    if len(charts) != 1:
        raise UnsafeArchive(archive, "", f"has {len(charts)} top directories (a Helm package has one)")
    if outside := [path for path in members if "/" not in path]:
        raise UnsafeArchive(archive, outside[0], "is outside of the chart directory")
    (files,) = charts.values()
    _check_chart(files, archive)
    return files


def read_addons(packed: bytes, archive: str) -> dict[str, dict[str, bytes]]:
    """Unpack the addon archive of the multi-stage layout: the files of each chart by its directory.

    Files outside of the directories and directories without a chart are left out. So are the files of a chart that Helm
    ignores, except for its values template.
    """
    directories = _by_directory(read_archive(packed, archive))
    charts = {
        name: _chart_files(files, f"{archive}: {name}") for name, files in directories.items() if CHART_FILE in files
    }
    for name, files in charts.items():
        _check_chart(files, f"{archive}: {name}")
    return charts


def pack_chart(name: str, files: Mapping[str, bytes]) -> bytes:
    """Pack one chart for Helm, with fast compression: the archive stays in memory."""
    return write_archive({f"{name}/{path}": content for path, content in files.items()}, level=1)


MAX_NESTED = 10
"""Levels of archives in archives of a chart (arbitrary; charts are published with one or two)."""


def repack(packed: bytes, archive: str, levels: int = MAX_NESTED) -> bytes:
    """Return a chart of :func:`pack_chart` in which the archives in ``charts/`` are packed again, at any depth.

    So Helm sees only files that :func:`read_archive` has read.

    Raises:
        UnsafeArchive: An archive is rejected, or archives are nested deeper than ``levels``.
    """
    files = read_archive(packed, archive)
    subcharts = [path for path in files if _is_subchart(path)]
    if not subcharts:
        return packed
    if not levels:
        raise UnsafeArchive(archive, subcharts[0], f"is below more than {MAX_NESTED} other archives")
    nested = {path: repack(files[path], f"{archive}: {path}", levels - 1) for path in subcharts}
    return write_archive(files | nested, level=1)


def _is_subchart(path: str) -> bool:
    """Report whether Helm loads a file as an archive: ``a/charts/b.tgz``, ``a/charts/b/charts/c.tgz``."""
    *parents, name = path.split("/")
    return name.endswith(".tgz") and not name.startswith((".", "_")) and set(parents[1::2]) == {"charts"}


def chart_digest(files: Mapping[str, bytes]) -> str:
    """Return the digest of the files of a chart, independent of its archive."""
    return content_digest((path, sha256(content).hexdigest()) for path, content in files.items())


class ChartCache:
    """Packed charts by digest; the least recently used are dropped above a size limit. Thread-safe."""

    def __init__(self, limit_bytes: int = CACHED_BYTES) -> None:
        self._limit = limit_bytes
        self._charts: OrderedDict[str, bytes] = OrderedDict()
        self._lock = threading.Lock()

    def get(self, digest: str, pack: Callable[[], bytes]) -> bytes:
        """Return the chart of a digest; ``pack`` makes it if it is not in the cache."""
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


def _chart_files(files: Mapping[str, bytes], chart: str) -> dict[str, bytes]:
    # The operator reads the template, Helm does not.
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
        raise UnsafeArchive(chart, CHART_FILE, "has no chart name")


MINORS: Final = 60
PATCHES: Final = 50
"""Minors and patches that are evaluated (arbitrary: Kubernetes has three minors a year and about 17 patches each)."""


def kubernetes_range(constraint: Constraint) -> Range | None:
    """Convert ``kubeVersion`` of a chart into a range; None if it allows no release or every release.

    Constraints are more expressive than ranges (``^1.25``, ``1.x``, bounds at pre-releases), so the constraint is
    evaluated for every possible release.
    """
    spans = [f"{low} {high}".strip() for low, high in _spans(constraint)]
    return None if spans in ([], [">=1.0"]) else Range.parse(" || ".join(spans))


def _spans(constraint: Constraint) -> Iterator[tuple[str, str]]:
    begin = ""
    for minor, patch in product(range(MINORS), range(PATCHES)):
        allowed = constraint.allows(SemVer(1, minor, patch))
        if allowed and not begin:
            begin = f">={_text(minor, patch)}"
        elif begin and not allowed:
            yield begin, f"<{_text(minor, patch)}"
            begin = ""
    if begin:
        yield begin, ""


def _text(minor: int, patch: int) -> str:
    return f"1.{minor}.{patch}" if patch else f"1.{minor}"
