"""Makes the files of a release from the files of a stack directory, without reading or writing files.

:func:`fill_versions` sets the versions and :func:`package` makes the archives. Chart dependencies may be added in
between.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from clusterstacks.csctl.building.pinning import ADDON_DIRECTORY, with_addon_versions
from clusterstacks.csctl.building.source_tree import TAGS, fill_tags
from clusterstacks.csctl.building.yaml_edit import with_values
from clusterstacks.model import yaml
from clusterstacks.model.files.compatibility import FILE as COMPATIBILITY
from clusterstacks.release.charts.archive import write_archive
from clusterstacks.release.charts.chart import CHART_FILE
from clusterstacks.release.charts.errors import UnsafeArchive
from clusterstacks.release.charts.helmignore import chart_files
from clusterstacks.release.errors import SourceBroken
from clusterstacks.release.release import ADDON_CONFIG, ADDON_VALUES, HASHES, METADATA, addon_file, class_chart_file

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

    from clusterstacks.csctl.building.settings import StackSettings
    from clusterstacks.model.files.hashes import Hashes
    from clusterstacks.model.files.metadata import Metadata
    from clusterstacks.model.names import ReleaseName
    from clusterstacks.model.versions import KubernetesVersion, StackVersion


CLASS_DIRECTORY = "cluster-class/"


def chart_directories(tree: Mapping[str, bytes]) -> tuple[str, ...]:
    """Return the chart directories of a release, each with a slash at its end; the class is first.

    With clusteraddon.yaml, each directory of ``cluster-addon/`` is a chart; otherwise ``cluster-addon/`` itself is one.
    """
    if ADDON_CONFIG not in tree:
        return CLASS_DIRECTORY, ADDON_DIRECTORY
    inner = {path.split("/")[1] for path in tree if path.startswith(ADDON_DIRECTORY) and path.count("/") >= 2}
    addons = sorted(f"{ADDON_DIRECTORY}{name}/" for name in inner)
    return CLASS_DIRECTORY, *(addon for addon in addons if f"{addon}{CHART_FILE}" in tree)


def fill_versions(tree: Mapping[str, bytes], settings: StackSettings, metadata: Metadata) -> dict[str, bytes]:
    """Return the files with all versions filled in, by their paths in the stack directory."""
    filled = fill_tags(tree, _tags(metadata))
    if ADDON_CONFIG in tree:
        # csctl written in Go copies the stages without replacing tags.
        filled[ADDON_CONFIG] = tree[ADDON_CONFIG]
    filled = with_addon_versions(filled, settings)
    expected = f"{settings.series}-cluster-class"
    _set_version(filled, CLASS_DIRECTORY, metadata.cluster_stack, expected, sets_name=settings.sets_names)
    if ADDON_CONFIG not in tree:
        _require(filled, ADDON_VALUES, f"a stack needs this file or {ADDON_CONFIG}")
        _set_version(filled, ADDON_DIRECTORY, metadata.cluster_addon)
    return filled


def package(files: Mapping[str, bytes], name: ReleaseName, metadata: Metadata, hashes: Hashes) -> dict[str, bytes]:
    """Make all files of a release from those of :func:`fill_versions`; the same files give the same bytes."""
    if metadata.cluster_class is None:
        hashes = replace(hashes, cluster_class_dir="")
    return {
        METADATA: yaml.dump(metadata.document()).encode(),
        HASHES: json.dumps(hashes.document(), indent=2).encode(),
        class_chart_file(name): _chart(files, CLASS_DIRECTORY),
        addon_file(name, metadata): _addons(files),
        **_top_files(files),
    }


def released_files(files: Mapping[str, bytes]) -> dict[str, bytes]:
    """Return the files with filled versions that a release contains, by their paths in the stack directory."""
    single = ADDON_CONFIG not in files
    addons = _of_chart(files, ADDON_DIRECTORY) if single else files_below(files, ADDON_DIRECTORY)
    return (
        _top_files(files) | _under(CLASS_DIRECTORY, _of_chart(files, CLASS_DIRECTORY)) | _under(ADDON_DIRECTORY, addons)
    )


def files_below(files: Mapping[str, bytes], directory: str) -> dict[str, bytes]:
    """Return the files of a directory by their paths in it."""
    return {path.removeprefix(directory): content for path, content in files.items() if path.startswith(directory)}


def _top_files(files: Mapping[str, bytes]) -> dict[str, bytes]:
    names = (ADDON_CONFIG if ADDON_CONFIG in files else ADDON_VALUES, COMPATIBILITY)
    return {name: files[name] for name in names if name in files}


def _tags(metadata: Metadata) -> dict[str, str]:
    node_image = metadata.node_image.dot if metadata.node_image else ""
    return dict(zip(TAGS, (metadata.cluster_stack.dot, metadata.cluster_addon.dot, node_image), strict=True))


def _set_version(
    files: dict[str, bytes], directory: str, version: StackVersion, expected: str = "", *, sets_name: bool = False
) -> None:
    """Set the version of a chart, and check or set its name."""
    place = f"{directory}{CHART_FILE}"
    content = _require(files, place, "every chart needs it")
    document = yaml.load(content, name=place)
    name = document.get("name") if isinstance(document, dict) else None
    wanted = expected if sets_name else name
    if not isinstance(wanted, str) or not wanted or (expected and wanted != expected):
        raise SourceBroken(place, f"has the name {name!r}: write name: {expected or '<name of the chart>'}")
    changed = with_values(content, {("version",): version.dot, ("name",): wanted}, name=place)
    if changed is None:
        raise SourceBroken(place, "has no name, or no version on a line of its own: write name: and version: v1")
    files[place] = changed


def _chart(files: Mapping[str, bytes], directory: str) -> bytes:
    """Package one chart as ``helm package`` does, without the files that ``.helmignore`` excludes."""
    place = f"{directory}{CHART_FILE}"
    name = yaml.load(files[place], name=place)["name"]
    return _archive(_under(f"{name}/", _of_chart(files, directory)), directory)


def _addons(files: Mapping[str, bytes]) -> bytes:
    if ADDON_CONFIG not in files:
        return _chart(files, ADDON_DIRECTORY)
    return _archive(files_below(files, ADDON_DIRECTORY), ADDON_DIRECTORY)


def _archive(files: Mapping[str, bytes], directory: str) -> bytes:
    try:
        return write_archive(files)
    except UnsafeArchive as error:
        raise SourceBroken(directory, f"cannot be packed: {error.member!r} {error.cause}: rename the file") from None


def _of_chart(files: Mapping[str, bytes], directory: str) -> dict[str, bytes]:
    try:
        return chart_files(files_below(files, directory), directory)
    except UnsafeArchive as error:
        raise SourceBroken(f"{directory}{error.member}", f"{error.cause}: correct it") from None


def _under(directory: str, files: Mapping[str, bytes]) -> dict[str, bytes]:
    return {f"{directory}{path}": content for path, content in files.items()}


def _require(files: Mapping[str, bytes], path: str, why: str) -> bytes:
    if path not in files:
        raise SourceBroken(path, f"is missing: {why}")
    return files[path]


_FILES: Final = (f"{CLASS_DIRECTORY}values.yaml", f"{CLASS_DIRECTORY}templates/")
"""Files of the class whose text reaches the cluster."""
_COMMENT: Final = re.compile(rb"(^|\s)#.*")


@dataclass(frozen=True, slots=True)
class LeftoverVersion:
    """A Kubernetes version in a file of the class that is not the version of the release."""

    path: str
    line: int
    """From 1."""
    named: KubernetesVersion
    """The version in the file."""
    built: KubernetesVersion
    """The version of the release."""

    @property
    def problem(self) -> str:
        """The problem, without file and line."""
        return f"names Kubernetes {self.named}, which stays in a release for {self.built}"

    @property
    def remedy(self) -> str:
        """The change that solves it."""
        return (
            "use the version of the Cluster (builtin.controlPlane.version in a patch of the class), "
            f"or move {self.built.series} into a separate directory"
        )


def other_versions(releases: Iterable[StackSettings], one: StackSettings) -> tuple[KubernetesVersion, ...]:
    """Return the other Kubernetes versions that the directory of a release names."""
    named = {version for each in releases for version in (each.kubernetes, each.unlisted) if version is not None}
    return tuple(sorted(named - {one.kubernetes}))


def leftover_version(
    tree: Mapping[str, bytes], built: KubernetesVersion, others: Collection[KubernetesVersion]
) -> LeftoverVersion | None:
    """Return the first of other Kubernetes versions in the class; None if there is none.

    A file that also names the version of the release is considered a table of versions.
    """
    for path, content in sorted(released_files(tree).items() if others else ()):
        if not path.startswith(_FILES) or _line_of(built, content):
            continue
        for other in others:
            if line := _line_of(other, content):
                return LeftoverVersion(path, line, other, built)
    return None


def _line_of(version: KubernetesVersion, content: bytes) -> int:
    """Return the first line that names a version outside of comments; 0 if there is none."""
    named = re.compile(rb"(?<![0-9.])" + re.escape(version.text.removeprefix("v")).encode() + rb"(?![0-9]|\.[0-9])")
    for number, line in enumerate(content.splitlines(), start=1):
        if named.search(_COMMENT.sub(b"", line)):
            return number
    return 0
