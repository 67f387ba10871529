"""From the files of a stack directory to what lint looks at; what cannot be read is left to the rules."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from clusterstacks.api import yaml
from clusterstacks.authoring.stack import TAGS, VERSION, LintedStack
from clusterstacks.authoring.stack_chart import Chart
from clusterstacks.building.leftover_versions import other_versions
from clusterstacks.building.packaging import CLASS_DIRECTORY, below, chart_directories
from clusterstacks.building.pinning import with_addon_versions
from clusterstacks.building.settings import open_minor, read_settings
from clusterstacks.building.source_tree import fill_tags
from clusterstacks.building.yaml_edit import with_values
from clusterstacks.charts.chart import CHART_FILE, OVERWRITE
from clusterstacks.domain.errors import SpecError
from clusterstacks.domain.versions import KubernetesVersion
from clusterstacks.releases.errors import SourceBroken
from clusterstacks.releases.release import ADDON_CONFIG, ADDON_VALUES, SINGLE_ADDON

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from clusterstacks.building.settings import StackSettings
    from clusterstacks.domain.versions import KubernetesMinor


def load(tree: Mapping[str, bytes], directory: str, *, listed: bool = False) -> tuple[LintedStack, ...]:
    """Take a tree for a stack, once for each release that is built from it; what cannot be read is left to the rules.

    Args:
        tree: The files.
        directory: As the author named it.
        listed: Take the releases of stack.yaml and versions.yaml instead of that of csctl.yaml.
    """
    filled = {path: _filled(path, content) for path, content in tree.items()}
    try:
        releases = read_settings(tree, _first_patch(tree, listed=listed), listed=listed)
    except SpecError as error:
        return (LintedStack(directory, tree, None, error.message, charts=tuple(_charts(filled, None))),)
    return tuple(
        replace(_for(settings, directory, tree, filled), others=other_versions(releases, settings))
        for settings in releases
    )


def _first_patch(tree: Mapping[str, bytes], *, listed: bool) -> dict[KubernetesMinor, KubernetesVersion]:
    """Take the first patch where a stack leaves it to the day of the build: nothing here depends on it.

    Raises:
        SpecError: stack.yaml is wrong.
    """
    minor = open_minor(tree, listed=listed)
    return {minor: KubernetesVersion(minor.major, minor.minor, 0)} if minor else {}


def _for(
    settings: StackSettings, directory: str, tree: Mapping[str, bytes], filled: Mapping[str, bytes]
) -> LintedStack:
    problem = ""
    try:
        filled = with_addon_versions(filled, settings)
    except SpecError as error:
        problem = error.message
    return LintedStack(
        directory,
        tree,
        settings,
        name=settings.release(VERSION),
        charts=tuple(_charts(filled, settings)),
        pinning_problem=problem,
    )


def _filled(path: str, content: bytes) -> bytes:
    """Replace the tags of a file as a build does; one with an unknown tag stays as it is."""
    try:
        return fill_tags({path: content}, TAGS)[path]
    except SourceBroken:
        return content


def _charts(filled: Mapping[str, bytes], settings: StackSettings | None) -> Iterator[Chart]:
    staged = ADDON_CONFIG in filled
    for directory in chart_directories(filled):
        if f"{directory}{CHART_FILE}" not in filled:
            continue
        path = directory.removesuffix("/")
        if directory == CLASS_DIRECTORY:
            yield _versioned(Chart("", path, below(filled, directory), versioned=True), settings)
        elif staged:
            yield _addon(filled, path.rpartition("/")[2], path, f"{directory}{OVERWRITE}")
        else:
            chart = _addon(filled, SINGLE_ADDON, path, ADDON_VALUES)
            yield _versioned(replace(chart, versioned=True), None)


def _addon(filled: Mapping[str, bytes], addon: str, directory: str, values: str) -> Chart:
    files = below(filled, f"{directory}/")
    return (
        Chart(addon, directory, files, values, filled[values]) if values in filled else Chart(addon, directory, files)
    )


def _versioned(chart: Chart, settings: StackSettings | None) -> Chart:
    """Set the version, and the name where the tool gives it, as a build does for charts that it packages whole."""
    values: dict[tuple[str | int, ...], str] = {("version",): VERSION.dot}
    if settings is not None and settings.sets_names:
        values["name",] = f"{settings.series}-cluster-class"
    try:
        forced = with_values(chart.content, values, name=chart.chart_file)
    except yaml.YamlError:
        return chart  # it does not render either, which says so better
    return chart if forced is None else replace(chart, files={**chart.files, CHART_FILE: forced})
