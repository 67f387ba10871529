"""Finds the nulls in the values.yaml of a chart and its subcharts, which Helm 4 loses.

A null in the values.yaml of a chart removes a default of its subcharts. Helm 4.2 and 4.3 remove nulls from a table of
values.yaml before they read the subcharts, unless the user's values have the same table; Helm 3 keeps them. So these
nulls are rendered as values of the user, whose nulls Helm 4 keeps. Nulls that remove nothing are still lost if they are
at the top level of a values.yaml or come from ``import-values``: the key is absent instead. Source: coalesceValues,
pkg/chart/common/util/coalesce.go.
"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Any

from clusterstacks.deliver.render.values_document import merge_values
from clusterstacks.model import yaml
from clusterstacks.release.charts.chart import CHART_FILE, read_chart
from clusterstacks.release.charts.errors import UnsafeArchive
from clusterstacks.release.charts.requirements import CHARTS, OLD_FILE

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping


def default_nulls(chart: bytes) -> dict[str, Any]:
    """Return the nulls of a packed chart as values of the user; empty for a chart that Helm refuses."""
    try:
        return _nulls(read_chart(chart, "chart"), {})
    except (UnsafeArchive, yaml.YamlError):
        return {}


def _nulls(files: Mapping[str, bytes], above: Mapping[str, object]) -> dict[str, Any]:
    """Return the nulls of a chart; ``above`` are the values that the charts above set for it, which replace its own."""
    values: dict[str, Any] = merge_values(_mapping(files, "values.yaml"), above)
    nulls = {key: table for key, value in values.items() if (table := _only_nulls(value))}
    for name, subchart in _subcharts(files):
        given = values.get(name)
        if below := _nulls(subchart, given if isinstance(given, dict) else {}):
            nulls[name] = merge_values(nulls.get(name, {}), below)
    return nulls


def _only_nulls(value: object) -> dict[str, Any]:
    """Return a table without anything but nulls; empty if it has none."""
    if not isinstance(value, dict):
        return {}
    return {key: below for key, item in value.items() if (below := _only_nulls(item) or None) or item is None}


def _subcharts(files: Mapping[str, bytes]) -> Iterator[tuple[str, Mapping[str, bytes]]]:
    """Yield the files of each subchart under each key that its values have: its name, or its aliases."""
    subcharts: dict[str, dict[str, bytes]] = defaultdict(dict)
    for path, content in files.items():
        directory, _, rest = path.removeprefix(CHARTS).partition("/")
        if path.startswith(CHARTS) and rest:
            subcharts[directory][rest] = content
        elif path.startswith(CHARTS) and path.endswith(".tgz"):
            subcharts[directory] = read_chart(content, path)
    declared = [*_dependencies(files, OLD_FILE)] or [*_dependencies(files, CHART_FILE)]
    for subchart in subcharts.values():
        name = _mapping(subchart, CHART_FILE).get("name")
        for key in {one.get("alias") or name for one in declared if one.get("name") == name} or {name}:
            yield str(key), subchart


def _dependencies(files: Mapping[str, bytes], file: str) -> Iterator[dict[str, Any]]:
    listed = _mapping(files, file).get("dependencies")
    yield from (one for one in (listed if isinstance(listed, list) else ()) if isinstance(one, dict))


def _mapping(files: Mapping[str, bytes], file: str) -> dict[str, Any]:
    document = yaml.load(files.get(file, b""), name=file)
    return document if isinstance(document, dict) else {}
