"""Moves the nulls in the values.yaml of a chart and its subcharts to the values of the user, because Helm 4 loses them.

A null in the values.yaml of a chart removes a default of its subcharts, and its key exists for ``hasKey``. Helm 4.2 and
4.3 remove nulls of values.yaml before they read the subcharts; Helm 3 keeps them. Helm 4 keeps nulls of the user, which
may be in values.yaml as well, except for those at its top level. Source: coalesceValues,
pkg/chart/common/util/coalesce.go.
"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Any, Final

from clusterstacks.deliver.render.values_document import merge_values
from clusterstacks.model import yaml
from clusterstacks.release.charts.chart import CHART_FILE, pack_chart, read_chart
from clusterstacks.release.charts.dependencies import CHARTS, OLD_FILE
from clusterstacks.release.charts.errors import UnsafeArchive

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

VALUES: Final = "values.yaml"


def separated_nulls(chart: bytes) -> tuple[bytes, dict[str, Any]]:
    """Return a packed chart, and its nulls as values of the user; unchanged if Helm refuses the chart."""
    try:
        files = read_chart(chart, "chart")
        kept, nulls = _separated(files, {})
    except (UnsafeArchive, yaml.YamlError):
        return chart, {}
    return chart if kept == files else pack_chart("chart", kept), nulls


def _separated(files: Mapping[str, bytes], above: Mapping[str, object]) -> tuple[dict[str, bytes], dict[str, Any]]:
    """Separate the nulls of a chart; ``above`` are values of the charts above, which replace its own."""
    own = _mapping(files, VALUES)
    values: dict[str, Any] = merge_values(own, above)
    nulls, kept = _only_nulls(values), dict(files)
    if None in own.values():
        kept[VALUES] = yaml.dump({key: value for key, value in own.items() if value is not None}).encode()
    for path, subchart in _subcharts(files).items():
        changed = subchart
        for name in _names(files, subchart):
            given = values.get(name, {})
            changed, below = _separated(subchart, given if isinstance(given, dict) else {})
            if below and given is not None:
                nulls[name] = merge_values(nulls.get(name, {}), below)
        if changed != subchart and path.endswith(".tgz"):
            kept[path] = pack_chart("chart", changed)
        elif changed != subchart:
            kept |= {f"{path}/{file}": content for file, content in changed.items()}
    return kept, nulls


def _only_nulls(value: object) -> dict[str, Any]:
    """Return a table without anything but nulls; empty if it has none."""
    if not isinstance(value, dict):
        return {}
    return {key: below for key, item in value.items() if (below := _only_nulls(item) or None) or item is None}


def _subcharts(files: Mapping[str, bytes]) -> dict[str, dict[str, bytes]]:
    """Return the files of each subchart by its directory or archive."""
    subcharts: dict[str, dict[str, bytes]] = defaultdict(dict)
    for path, content in files.items():
        directory, _, rest = path.removeprefix(CHARTS).partition("/")
        if path.startswith(CHARTS) and rest:
            subcharts[f"{CHARTS}{directory}"][rest] = content
        elif path.startswith(CHARTS) and path.endswith(".tgz"):
            subcharts[path] = read_chart(content, path)
    return subcharts


def _names(files: Mapping[str, bytes], subchart: Mapping[str, bytes]) -> set[str]:
    """Return the keys under which a chart has the values of a subchart: its aliases, or its name."""
    name = _mapping(subchart, CHART_FILE).get("name")
    declared = [*_dependencies(files, OLD_FILE)] or [*_dependencies(files, CHART_FILE)]
    return {str(one.get("alias") or name) for one in declared if one.get("name") == name} or {str(name)}


def _dependencies(files: Mapping[str, bytes], file: str) -> Iterator[dict[str, Any]]:
    listed = _mapping(files, file).get("dependencies")
    yield from (one for one in (listed if isinstance(listed, list) else ()) if isinstance(one, dict))


def _mapping(files: Mapping[str, bytes], file: str) -> dict[str, Any]:
    document = yaml.load(files.get(file, b""), name=file)
    return document if isinstance(document, dict) else {}
