"""The files of a release, made from those of a stack directory (FORMATS sections 3, 4, 5 and 8).

Nothing here reads or writes files: :func:`prepared` fills in versions, :func:`packed` makes the archives, and between
the two chart dependencies may be added.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING

from clusterstacks.api import yaml
from clusterstacks.building.pinning import ADDON_DIRECTORY, with_addon_versions
from clusterstacks.building.source_tree import TAGS, fill_tags
from clusterstacks.building.yaml_edit import with_values
from clusterstacks.charts.archive import write_archive
from clusterstacks.charts.chart import CHART_FILE
from clusterstacks.charts.errors import UnsafeArchive
from clusterstacks.charts.helmignore import chart_files
from clusterstacks.domain.compatibility import FILE as COMPATIBILITY
from clusterstacks.releases.errors import SourceBroken
from clusterstacks.releases.release import ADDON_CONFIG, ADDON_VALUES, HASHES, METADATA, addon_file, class_chart_file

if TYPE_CHECKING:
    from collections.abc import Mapping

    from clusterstacks.building.settings import StackSettings
    from clusterstacks.domain.hashes import Hashes
    from clusterstacks.domain.metadata import Metadata
    from clusterstacks.domain.names import ReleaseName
    from clusterstacks.domain.versions import StackVersion

CLASS_DIRECTORY = "cluster-class/"


@dataclass(frozen=True, slots=True)
class Blueprint:
    """What one release is to be.

    Args:
        settings: Whose release it is.
        metadata: Its versions.
        hashes: Of the source.
    """

    settings: StackSettings
    metadata: Metadata
    hashes: Hashes

    @property
    def name(self) -> ReleaseName:
        """The release's name."""
        return self.settings.release(self.metadata.cluster_stack)


def chart_directories(tree: Mapping[str, bytes]) -> tuple[str, ...]:
    """Return the directories of the charts a release holds, each with a slash at its end: the class first.

    The presence of clusteraddon.yaml tells the layouts apart: without it ``cluster-addon/`` is one chart.
    """
    if ADDON_CONFIG not in tree:
        return CLASS_DIRECTORY, ADDON_DIRECTORY
    inner = {path.split("/")[1] for path in tree if path.startswith(ADDON_DIRECTORY) and path.count("/") >= 2}
    addons = sorted(f"{ADDON_DIRECTORY}{name}/" for name in inner)
    return CLASS_DIRECTORY, *(addon for addon in addons if f"{addon}{CHART_FILE}" in tree)


def prepared(tree: Mapping[str, bytes], settings: StackSettings, metadata: Metadata) -> dict[str, bytes]:
    """Return the files with every version in its place, by their paths in the stack directory.

    Raises:
        SourceBroken: A required file is missing, a tag or the name of a chart is wrong.
        SpecError: A chart cannot be read.
    """
    filled = fill_tags(tree, _tags(metadata))
    if ADDON_CONFIG in tree:
        # csctl copies the stages as they are written, without replacing tags.
        filled[ADDON_CONFIG] = tree[ADDON_CONFIG]
    filled = with_addon_versions(filled, settings)
    expected = f"{settings.series}-cluster-class"
    _set_version(filled, CLASS_DIRECTORY, metadata.cluster_stack, expected, sets_name=settings.sets_names)
    if ADDON_CONFIG not in tree:
        _require(filled, ADDON_VALUES, f"a stack has it or {ADDON_CONFIG}")
        _set_version(filled, ADDON_DIRECTORY, metadata.cluster_addon)
    return filled


def packed(blueprint: Blueprint, files: Mapping[str, bytes]) -> dict[str, bytes]:
    """Make every file of the release; the same files always give the same bytes (INCUMBENT D73).

    Args:
        blueprint: What the release is.
        files: As :func:`prepared` returned them, with or without dependencies of charts added.
    """
    metadata = blueprint.metadata
    single = ADDON_CONFIG not in files
    return {
        METADATA: yaml.dump(metadata.document()).encode(),
        HASHES: json.dumps(blueprint.hashes.document(), indent=2).encode(),
        class_chart_file(blueprint.name): _chart(files, CLASS_DIRECTORY),
        addon_file(blueprint.name, metadata): _chart(files, ADDON_DIRECTORY) if single else _raw(files),
        **{name: files[name] for name in (ADDON_VALUES if single else ADDON_CONFIG, COMPATIBILITY) if name in files},
    }


def visible(files: Mapping[str, bytes]) -> dict[str, bytes]:
    """Return those of the prepared files that a release holds, by their paths in the stack directory."""
    single = ADDON_CONFIG not in files
    addons = _of_chart(files, ADDON_DIRECTORY) if single else below(files, ADDON_DIRECTORY)
    top = {name: files[name] for name in (ADDON_VALUES if single else ADDON_CONFIG, COMPATIBILITY) if name in files}
    return top | _under(CLASS_DIRECTORY, _of_chart(files, CLASS_DIRECTORY)) | _under(ADDON_DIRECTORY, addons)


def below(files: Mapping[str, bytes], directory: str) -> dict[str, bytes]:
    """Return the files of a directory by their paths in it."""
    return {path.removeprefix(directory): content for path, content in files.items() if path.startswith(directory)}


def _tags(metadata: Metadata) -> dict[str, str]:
    node_image = metadata.node_image.dot if metadata.node_image else ""
    return dict(zip(TAGS, (metadata.cluster_stack.dot, metadata.cluster_addon.dot, node_image), strict=True))


def _set_version(
    files: dict[str, bytes], directory: str, version: StackVersion, expected: str = "", *, sets_name: bool = False
) -> None:
    """Force the version of a chart, and check its name, or set that, too."""
    place = f"{directory}{CHART_FILE}"
    content = _require(files, place, "a chart needs it")
    document = yaml.load(content, name=place)
    name = document.get("name") if isinstance(document, dict) else None
    wanted = expected if sets_name else name
    if not isinstance(wanted, str) or not wanted or (expected and wanted != expected):
        raise SourceBroken(place, f"names the chart {name!r}: write name: {expected or '<name of the chart>'}")
    changed = with_values(content, {("version",): version.dot, ("name",): wanted}, name=place)
    if changed is None:
        raise SourceBroken(place, "has no name, or no line with the version alone: write name and version: v1")
    files[place] = changed


def _chart(files: Mapping[str, bytes], directory: str) -> bytes:
    """Pack one chart as ``helm package`` does, without what ``.helmignore`` names."""
    place = f"{directory}{CHART_FILE}"
    name = yaml.load(files[place], name=place)["name"]
    return _archive(_under(f"{name}/", _of_chart(files, directory)), directory)


def _raw(files: Mapping[str, bytes]) -> bytes:
    return _archive(below(files, ADDON_DIRECTORY), ADDON_DIRECTORY)


def _archive(files: Mapping[str, bytes], directory: str) -> bytes:
    try:
        return write_archive(files)
    except UnsafeArchive as error:
        raise SourceBroken(directory, f"cannot be packed: {error.member!r} {error.cause}: rename the file") from None


def _of_chart(files: Mapping[str, bytes], directory: str) -> dict[str, bytes]:
    try:
        return chart_files(below(files, directory), directory)
    except UnsafeArchive as error:
        raise SourceBroken(f"{directory}{error.member}", f"{error.cause}: correct it") from None


def _under(directory: str, files: Mapping[str, bytes]) -> dict[str, bytes]:
    return {f"{directory}{path}": content for path, content in files.items()}


def _require(files: Mapping[str, bytes], path: str, why: str) -> bytes:
    if path not in files:
        raise SourceBroken(path, f"is missing: {why}")
    return files[path]
