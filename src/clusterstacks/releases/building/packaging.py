"""Building a release from the source directory of a cluster stack (FORMATS sections 3, 4, 5 and 8)."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from clusterstacks.api import yaml
from clusterstacks.domain.metadata import Metadata
from clusterstacks.domain.names import ReleaseName
from clusterstacks.domain.versions import StackVersion
from clusterstacks.releases.archives import write_archive
from clusterstacks.releases.building.sourcetree import fill_tags, hash_tree, overlaid, read_settings, read_tree
from clusterstacks.releases.charts import CHART_FILE, ChartCache
from clusterstacks.releases.contents import survey
from clusterstacks.releases.errors import SourceBroken
from clusterstacks.releases.helmignore import chart_files
from clusterstacks.releases.opening import open_release
from clusterstacks.releases.release import ADDON_CONFIG, ADDON_VALUES, HASHES, METADATA, addon_file, class_chart_file
from clusterstacks.releases.staging import Staging

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

_CLASS = "cluster-class/"
_ADDON = "cluster-addon/"
_VERSION_LINE = re.compile(rb"^version:.*$", re.MULTILINE)


def build_release(
    source: Path,
    into: Path,
    *,
    cluster_stack: str,
    cluster_addon: str,
    node_image: str,
    changes: Path | None = None,
) -> ReleaseName:
    """Build a release into ``into/<release name>/``; the same source always gives the same bytes (INCUMBENT D73).

    The directory appears at once and complete. Building again what is already there changes nothing.

    Args:
        source: The stack directory, with csctl.yaml at its top.
        into: Where the release directory is made; made itself when it is missing.
        cluster_stack: Version of the release, e.g. ``v1`` or ``v0-sha.abc1234``.
        cluster_addon: Version of the addons.
        node_image: Version of the node images; the Go operator refuses releases without one.
        changes: A directory laid over ``source``, see :func:`~clusterstacks.releases.building.sourcetree.overlaid`.

    Raises:
        SpecError: The source is incomplete or wrong, or another release of that name is there already.
        OSError: ``into`` cannot be written.
    """
    tree = read_tree(source)
    if changes is not None:
        tree = overlaid(tree, read_tree(changes))
    settings = read_settings(tree)
    metadata = Metadata(
        StackVersion.parse(cluster_stack),
        settings.kubernetes,
        StackVersion.parse(cluster_addon),
        StackVersion.parse(node_image),
    )
    name = ReleaseName(settings.provider, settings.stack, settings.kubernetes.series, metadata.cluster_stack)
    _store(name, _Build(name, metadata, tree).files(), into)
    return name


@dataclass(frozen=True, slots=True)
class _Build:
    """One release in the making."""

    name: ReleaseName
    metadata: Metadata
    source: Mapping[str, bytes]

    def files(self) -> dict[str, bytes]:
        """Make every file of the release."""
        filled = fill_tags(self.source, self._tags())
        files = {
            METADATA: yaml.dump(self.metadata.document()).encode(),
            HASHES: json.dumps(hash_tree(self.source).document(), indent=2).encode(),
            class_chart_file(self.name): self._class_chart(filled),
        }
        addon = addon_file(self.name, self.metadata)
        if ADDON_CONFIG in self.source:
            # csctl copies the stages as they are written, without replacing tags.
            return files | {ADDON_CONFIG: self.source[ADDON_CONFIG], addon: write_archive(_below(filled, _ADDON))}
        values = _require(filled, ADDON_VALUES, f"a stack has it or {ADDON_CONFIG}")
        return files | {ADDON_VALUES: values, addon: self._single_addon(filled)}

    def _tags(self) -> dict[str, str]:
        node_image = self.metadata.node_image
        return {
            "ClusterClassVersion": self.metadata.cluster_stack.dot,
            "ClusterAddonVersion": self.metadata.cluster_addon.dot,
            "NodeImageVersion": node_image.dot if node_image else "",
        }

    def _class_chart(self, filled: Mapping[str, bytes]) -> bytes:
        expected = f"{self.name.series}-cluster-class"
        return _package(filled, _CLASS, self.metadata.cluster_stack, expected)

    def _single_addon(self, filled: Mapping[str, bytes]) -> bytes:
        return _package(filled, _ADDON, self.metadata.cluster_addon)


def _package(tree: Mapping[str, bytes], directory: str, version: StackVersion, expected: str = "") -> bytes:
    """Pack one chart as ``helm package`` does, with its version forced and without what ``.helmignore`` names."""
    place = f"{directory}{CHART_FILE}"
    chart, count = _VERSION_LINE.subn(f"version: {version.dot}".encode(), _require(tree, place, "a chart needs it"))
    document = yaml.load(chart, name=place)
    name = document.get("name") if isinstance(document, dict) else None
    if not isinstance(name, str) or not name or (expected and name != expected):
        raise SourceBroken(place, f"names the chart {name!r}: write name: {expected or '<name of the chart>'}")
    if count != 1 or document.get("version") != version.dot:
        raise SourceBroken(place, "has no line with the version alone: write version: v1")
    files = chart_files(_below(tree, directory) | {CHART_FILE: chart}, directory)
    return write_archive({f"{name}/{path}": content for path, content in files.items()})


def _require(tree: Mapping[str, bytes], path: str, why: str) -> bytes:
    if path not in tree:
        raise SourceBroken(path, f"is missing: {why}")
    return tree[path]


def _below(tree: Mapping[str, bytes], directory: str) -> dict[str, bytes]:
    return {path.removeprefix(directory): content for path, content in tree.items() if path.startswith(directory)}


def _store(name: ReleaseName, files: Mapping[str, bytes], into: Path) -> None:
    into.mkdir(parents=True, exist_ok=True)
    staging = Staging.create(into)
    try:
        for file, content in files.items():
            (staging.path / file).write_bytes(content)
        built = survey(name, staging.path)
        open_release(built, ChartCache())
        target = into / name.release
        try:
            staging.publish(target, readable=True)
        except FileExistsError:
            if survey(name, target).digest != built.digest:
                way_out = "choose another version, or remove it"
                raise SourceBroken(target, f"is there already, with another content: {way_out}") from None
    finally:
        staging.remove()
