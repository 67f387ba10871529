"""A verified release: its files, charts and metadata."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from clusterstacks.model import yaml
from clusterstacks.model.files.node_images import FILE as NODE_IMAGES
from clusterstacks.model.files.node_images import OPENSTACK, read_node_images
from clusterstacks.release.charts.chart import AddonChart, ChartCache, pack_chart, read_addons, read_chart
from clusterstacks.release.charts.lockfile import NOTHING_VENDORED, ResolvedChart, VendoredCharts
from clusterstacks.release.errors import ReleaseBroken, ReleaseDamaged

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from clusterstacks.model.errors import ClusterStacksError
    from clusterstacks.model.files.addon_config import AddonConfig
    from clusterstacks.model.files.compatibility import Compatibility
    from clusterstacks.model.files.hashes import Hashes
    from clusterstacks.model.files.metadata import Metadata
    from clusterstacks.model.files.node_images import NodeImages
    from clusterstacks.model.names import ReleaseName
    from clusterstacks.release.charts.dependencies import ChartRequirement
    from clusterstacks.release.contents import Contents

SINGLE_ADDON = "cluster-addon"
"""Name of the only addon in the single-chart layout, and of its Helm release."""

CLASS_CHART = "cluster-class"
"""Label of the chart of the cluster class: its directory in the stack."""

METADATA = "metadata.yaml"
HASHES = "hashes.json"
ADDON_CONFIG = "clusteraddon.yaml"
ADDON_VALUES = "cluster-addon-values.yaml"


def class_chart_file(name: ReleaseName) -> str:
    """Return the file name of the archive with the class chart."""
    return f"{name.series}-cluster-class-{name.version.dot}.tgz"


def addon_file(name: ReleaseName, metadata: Metadata) -> str:
    """Return the file name of the archive with the addons; their version may be older than the release."""
    return f"{name.series}-cluster-addon-{metadata.cluster_addon.dot}.tgz"


def addon_label(addon: str, *, staged: bool) -> str:
    """Return the label of an addon's chart: its directory in the stack."""
    return f"{SINGLE_ADDON}/{addon}" if staged else SINGLE_ADDON


@dataclass(frozen=True, slots=True)
class AddonFacts:
    """An addon without the bytes of its chart; see :class:`AddonChart`."""

    digest: str
    values_template: str | None
    values_name: str


def _ignore() -> None:
    """Do nothing."""


@dataclass(frozen=True, slots=True, eq=False)
class Release:
    """A release of which every file was verified when it was opened.

    Archives are read again at each access and compared with the verified digest, so an open release needs little
    memory; an access after a change on disk raises :class:`ReleaseDamaged`. Reading is fast (a packed chart comes from
    memory or one small file) and may be done on the event loop.
    """

    contents: Contents
    metadata: Metadata
    config: AddonConfig | None
    """clusteraddon.yaml; None in the single-chart layout."""
    hashes: Hashes
    """hashes.json; empty when the release has none."""
    facts: Mapping[str, AddonFacts]
    charts: ChartCache = field(default_factory=ChartCache)
    class_digest: str = ""
    """Digest of the files of the class chart, with the charts that were added to it."""
    vendored: VendoredCharts = NOTHING_VENDORED
    """Dependencies of charts that the release itself does not contain."""
    lacking: Mapping[str, tuple[ChartRequirement, ...]] = field(default_factory=dict)
    """Dependencies that are still missing, by chart; such a chart cannot be rendered."""
    incomplete: ClusterStacksError | None = None
    """Raised when a chart with missing dependencies is accessed; None if none are missing or may be added."""
    damaged: Callable[[], None] = _ignore
    """Called when a file differs from the verified one."""
    compatibility: Compatibility | None = None

    @property
    def name(self) -> ReleaseName:
        """Stack, Kubernetes minor and version."""
        return self.contents.release

    @property
    def digest(self) -> str:
        """``sha256:<hex>`` over names and contents of all files."""
        return self.contents.digest

    @property
    def staged(self) -> bool:
        """True if the release has the staged layout (clusteraddon.yaml) and not the single-chart layout."""
        return self.config is not None

    @property
    def dependencies(self) -> tuple[ResolvedChart, ...]:
        """The charts that were resolved and added after the download; pin them together with the digest."""
        return self.vendored.resolved

    def class_chart(self) -> bytes:
        """Return the chart of the cluster class as a ``.tgz`` for Helm."""
        return self._packed(CLASS_CHART, CLASS_CHART, self.class_digest)

    def chart_files(self, label: str) -> dict[str, bytes]:
        """Return the files of one chart, without added dependencies.

        ``label`` is :data:`CLASS_CHART` or an addon's label, see :func:`addon_label`.
        """
        file = self._archive(label)
        content, archive = self._read(file), f"release {self.name}: {file}"
        if label in (CLASS_CHART, SINGLE_ADDON):
            return read_chart(content, archive)
        return read_addons(content, archive)[label.removeprefix(f"{SINGLE_ADDON}/")]

    def node_images(self) -> NodeImages | None:
        """Return node-images.yaml of a release for OpenStack; None for other providers, and when there is none.

        Raises:
            SpecError: The file is not valid.
        """
        if NODE_IMAGES not in self.contents.files or self.name.provider != OPENSTACK:
            return None
        return read_node_images(yaml.load(self._read(NODE_IMAGES), name=NODE_IMAGES), OPENSTACK, released=True)

    def addons(self) -> tuple[str, ...]:
        """Return the names of all addons, sorted; ``("cluster-addon",)`` in the single-chart layout."""
        return tuple(sorted(self.facts))

    def addon(self, name: str) -> AddonChart:
        """Return one addon.

        Raises:
            ReleaseBroken: The release has no such addon.
            SpecError, DependencyError: Dependencies are missing, see ``incomplete``.
        """
        facts = self.facts.get(name)
        if facts is None:
            present = ", ".join(self.addons()) or "none"
            raise ReleaseBroken(
                self.name, addon_file(self.name, self.metadata), f"has no addon {name} (it has {present})"
            )
        label = addon_label(name, staged=self.staged)
        if self.incomplete is not None and label in self.lacking:
            raise self.incomplete
        chart = self._packed(label, name, facts.digest)
        return AddonChart(name, chart, facts.digest, facts.values_template, facts.values_name)

    def _packed(self, label: str, directory: str, digest: str) -> bytes:
        # Helm never reads the original archive: it gets the verified files, packed again.
        if label in (CLASS_CHART, SINGLE_ADDON) and label not in self.vendored.labels():
            self._read(self._archive(label))  # so that damage to the file is noticed at each access
        return self.charts.get(digest, lambda: pack_chart(directory, self._completed(label)))

    def _archive(self, label: str) -> str:
        return class_chart_file(self.name) if label == CLASS_CHART else addon_file(self.name, self.metadata)

    def _completed(self, label: str) -> dict[str, bytes]:
        files = self.chart_files(label)
        try:
            return files | self.vendored.files(label)
        except (OSError, ValueError):
            self.damaged()
            raise ReleaseDamaged(self.name, f"charts that {label} depends on") from None

    def _read(self, file: str) -> bytes:
        try:
            return self.contents.read(file)
        except ReleaseDamaged:
            self.damaged()
            raise
