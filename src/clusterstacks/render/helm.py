"""Helm's engine, through the only outside module that knows its C library.

Runs in worker processes only: the library brings a Go runtime, whose out-of-memory abort, endless loops and 85 MB
must stay out of the operator. helm-python-sdk is pinned, because two calls here go to its C interface directly.
"""

from __future__ import annotations

import json
from typing import NamedTuple

import orjson
from helm_python import Chart, HelmError, _native

from clusterstacks.render.errors import RenderFailed, shortened


class Rendered(NamedTuple):
    """What the engine made of a chart."""

    templates: dict[str, str]
    crds: tuple[tuple[str, str], ...]


def render(chart: bytes, values: object, options: dict[str, str]) -> Rendered:
    """Render a packed chart.

    A chart handle is loaded for each render: rendering changes it (a subchart once disabled stays disabled).

    Args:
        chart: A tgz.
        values: What ``-f`` would hold, as JSON.
        options: Of the C interface: ``name``, ``namespace``, ``kube_version``.

    Raises:
        RenderFailed: with Helm's words.
    """
    try:
        with Chart.load_archive(chart) as handle:
            _check_dependencies(handle)
            text = _native.call_string("helm_render", handle._raw(), orjson.dumps(values).decode(), json.dumps(options))  # noqa: SLF001 - Chart.render() leaves out kube_version
            # Read after the render, which takes disabled subcharts away, and their CRDs with them.
            crds = tuple((crd["filename"], crd["data"]) for crd in handle.crds)
    except HelmError as error:
        raise RenderFailed(shortened(error.detail)) from None
    return Rendered(orjson.loads(text), crds)


def _check_dependencies(chart: Chart) -> None:
    """Refuse a chart without its subcharts, as the command line does; the engine would render the rest of it."""
    there = {subchart["name"] for subchart in chart.dependencies}
    wanted = [dependency["name"] for dependency in chart.metadata.get("dependencies") or ()]
    if missing := [name for name in wanted if name not in there]:
        raise RenderFailed(
            f"chart {chart.name} lacks its dependencies {', '.join(missing)}; vendor them into its charts/ directory"
        )
