"""Which files of a stack differ from those an earlier release holds.

A release holds no tags, so the source is filled in with the versions of that release and then compared. Files that are
in no release, like csctl.yaml, cannot be compared; hashes tell that one of them changed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from clusterstacks.api import yaml
from clusterstacks.building.packaging import CLASS_DIRECTORY, prepared, visible
from clusterstacks.building.pinning import ADDON_DIRECTORY
from clusterstacks.charts.archive import read_archive
from clusterstacks.charts.chart import CHART_FILE
from clusterstacks.domain.compatibility import FILE as COMPATIBILITY
from clusterstacks.domain.errors import SpecError
from clusterstacks.releases.release import ADDON_CONFIG, ADDON_VALUES, addon_file, class_chart_file

if TYPE_CHECKING:
    from collections.abc import Mapping

    from clusterstacks.building.settings import StackSettings
    from clusterstacks.domain.metadata import Metadata
    from clusterstacks.releases.contents import Contents


def changed_files(
    tree: Mapping[str, bytes], settings: StackSettings, release: Contents, metadata: Metadata
) -> tuple[str, ...]:
    """Return the paths below the stack directory that were added, removed or changed since a release.

    Dependencies that were added while the release was built are not in the source and do not count. Empty when the
    two cannot be compared: this only explains what hashes have decided.
    """
    try:
        now = visible(prepared(tree, settings, metadata))
        then = _held(release, metadata)
    except SpecError:
        return ()
    if (ADDON_CONFIG in now) != (ADDON_CONFIG in then):
        return ()
    paths = {path for path in {*now, *then} if not _same(path, now.get(path), then.get(path))}
    return tuple(sorted(path for path in paths if not _is_other_form(path, now, then)))


def _held(release: Contents, metadata: Metadata) -> dict[str, bytes]:
    name = release.release
    class_chart = _archive(release, class_chart_file(name))
    files = {f"{CLASS_DIRECTORY}{_inner(path)}": content for path, content in class_chart.items()}
    staged = ADDON_CONFIG in release.files
    for path, content in _archive(release, addon_file(name, metadata)).items():
        files[f"{ADDON_DIRECTORY}{path if staged else _inner(path)}"] = content
    top = (ADDON_CONFIG if staged else ADDON_VALUES, COMPATIBILITY)
    return files | {file: release.read(file) for file in top if file in release.files}


def _archive(release: Contents, file: str) -> dict[str, bytes]:
    return read_archive(release.read(file), f"release {release.release}: {file}") if file in release.files else {}


def _inner(path: str) -> str:
    return path.partition("/")[2]


def _same(path: str, now: bytes | None, then: bytes | None) -> bool:
    if now is None or then is None or now == then:
        return now == then
    return path.endswith(f"/{CHART_FILE}") and chart_facts(path, now) == chart_facts(path, then)


def chart_facts(path: str, content: bytes) -> object:
    """Read a file that csctl or Helm may have written anew: in another order, without comments or line breaks.

    Raises:
        SpecError: It is no YAML.
    """
    document = yaml.load(content, name=path)
    if not isinstance(document, dict) or not isinstance(document.get("description"), str):
        return document
    return document | {"description": " ".join(document["description"].split())}


def _is_other_form(path: str, now: Mapping[str, bytes], then: Mapping[str, bytes]) -> bool:
    """Tell whether a path is there because dependencies were added or, by ``helm package``, unpacked."""
    if path.endswith("/Chart.lock"):
        return path not in now
    chart, directory, dependency = path.partition("/charts/")
    if not directory:
        return False
    if path not in now:
        return True
    name = dependency.rpartition("-")[0]
    return path not in then and any(held.startswith(f"{chart}{directory}{name}/") for held in then)
