"""Sets the addon versions that stack.yaml or versions.yaml lists in the copy that is built."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from clusterstacks.csctl.building.settings import VERSIONS
from clusterstacks.csctl.building.yaml_edit import with_values
from clusterstacks.model import yaml
from clusterstacks.model.documents import Node
from clusterstacks.model.semver import Constraint, InvalidConstraint, SemVer
from clusterstacks.model.versions import InvalidVersion
from clusterstacks.release.charts.chart import CHART_FILE
from clusterstacks.release.errors import SourceBroken

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from clusterstacks.csctl.building.settings import StackSettings

ADDON_DIRECTORY: Final = "cluster-addon/"

SHORT_NAMES: Final = {"occm": "openstack-cloud-controller-manager", "cinder_csi": "openstack-cinder-csi"}
"""Chart names that hack/generate_version.py of SovereignCloudStack/cluster-stacks shortens in versions.yaml."""

_LOCK = "Chart.lock"


@dataclass(frozen=True, slots=True)
class _Dependency:
    """One dependency of an addon chart."""

    chart: str
    """The chart directory with a slash at its end."""
    position: int
    """Its index in the list of dependencies."""
    name: str
    alias: str
    version: str


def with_addon_versions(tree: Mapping[str, bytes], settings: StackSettings) -> dict[str, bytes]:
    """Set the version of every dependency that the settings list, in files whose tags are filled.

    An exact version is written into Chart.yaml. If that changes Chart.yaml, the lock file and the vendored archive of
    the other version are left out. A range (``2.35.x``) sets nothing: it must contain the version of Chart.yaml, so
    that the build does not depend on its date. Raises SourceBroken if a name in stack.yaml is not a dependency, or a
    version is outside of its range.
    """
    result = dict(tree)
    known = list(_dependencies(tree)) if settings.addons else []
    ignored = without_dependency(tree, settings)
    for key, wanted in settings.addons.items():
        if key in ignored:
            continue
        dependency = _chosen(key, known, settings.addons_file)
        if _is_exact(wanted):
            _set(result, dependency, wanted)
        else:
            _check(dependency, wanted, f"{settings.addons_file} ({key})")
    return result


def without_dependency(tree: Mapping[str, bytes], settings: StackSettings) -> tuple[str, ...]:
    """Return the names in versions.yaml that are not dependencies: stacks also keep image versions there.

    stack.yaml has a separate field for addons, so a name there that is not a dependency is an error.
    """
    if settings.addons_file != VERSIONS:
        return ()
    known = list(_dependencies(tree))
    return tuple(key for key in settings.addons if not _named(key, known))


def exact_versions(settings: StackSettings) -> dict[str, str]:
    """Return the listed versions that the build sets."""
    return {name: version for name, version in settings.addons.items() if _is_exact(version)}


def _dependencies(tree: Mapping[str, bytes]) -> Iterator[_Dependency]:
    for path in sorted(tree):
        if not path.startswith(ADDON_DIRECTORY) or not path.endswith(f"/{CHART_FILE}") or "/charts/" in path:
            continue
        chart = path.removesuffix(CHART_FILE)
        for position, node in enumerate(Node(yaml.load(tree[path], name=path), path).child("dependencies").items()):
            name, alias = node.child("name").text(), node.child("alias").optional_text()
            yield _Dependency(chart, position, name, alias, node.child("version").text("write a version in quotes"))


def _chosen(key: str, known: list[_Dependency], file: str) -> _Dependency:
    found = _named(key, known)
    if len(found) != 1:
        what = "the name of several dependencies" if found else "not a dependency of an addon"
        choice = ", ".join(sorted({one.name for one in known})) or "none"
        raise SourceBroken(file, f"lists {key}, which is {what}: use the name of a dependency ({choice})")
    return found[0]


def _named(key: str, known: list[_Dependency]) -> list[_Dependency]:
    names = {key, key.replace("_", "-"), SHORT_NAMES.get(key, key)}
    found = [one for one in known if one.name in names or one.alias in names]
    return found or [one for one in known if one.chart.removeprefix(ADDON_DIRECTORY) == f"{key}/"]


def _is_exact(wanted: str) -> bool:
    try:
        SemVer.parse(wanted)
    except InvalidVersion:
        return False
    return wanted.count(".") >= 2  # Helm reads 2.35 as a range


def _set(tree: dict[str, bytes], dependency: _Dependency, wanted: str) -> None:
    if dependency.version == wanted:
        return
    path = f"{dependency.chart}{CHART_FILE}"
    changed = with_values(tree[path], {("dependencies", dependency.position, "version"): wanted}, name=path)
    if changed is None:
        raise SourceBroken(path, f"has no plain version of {dependency.name}: write version: {wanted}")
    tree[path] = changed
    vendored = f"{dependency.chart}charts/{dependency.name}"
    for stale in [one for one in tree if one.startswith((f"{vendored}-", f"{vendored}/"))]:
        del tree[stale]
    tree.pop(f"{dependency.chart}{_LOCK}", None)


def _check(dependency: _Dependency, wanted: str, place: str) -> None:
    try:
        allowed = Constraint.parse(wanted)
    except InvalidConstraint as error:
        raise SourceBroken(place, f"is not valid: {error.message}") from None
    try:
        inside = allowed.allows(SemVer.parse(dependency.version))
    except InvalidVersion:
        inside = False
    if not inside:
        remedy = f"write a version in {wanted} there, or change {place}"
        raise SourceBroken(
            f"{dependency.chart}{CHART_FILE}", f"requires {dependency.name} {dependency.version}: {remedy}"
        )
