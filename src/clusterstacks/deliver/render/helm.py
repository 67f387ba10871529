"""Renders charts with the engine of Helm; the only module that uses its C library.

Only for worker processes: the library contains a Go runtime, whose out-of-memory abort, endless loops and 85 MB must
stay out of the operator. helm-python-sdk is pinned, because two calls here use its C interface directly.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, NamedTuple

import orjson
from helm_python import Chart, HelmError, _native

from clusterstacks.deliver.render.errors import RenderFailed, shortened
from clusterstacks.model.semver import Constraint, InvalidConstraint, SemVer
from clusterstacks.model.versions import InvalidVersion

if TYPE_CHECKING:
    from collections.abc import Mapping


class Rendered(NamedTuple):
    """Text by template path, and path and text of the files of ``crds/``."""

    templates: dict[str, str]
    crds: tuple[tuple[str, str], ...]


def render(chart: bytes, values: object, options: dict[str, str]) -> Rendered:
    """Render a packed chart with the content of ``-f`` as JSON.

    A chart handle is loaded for each render, because rendering changes it (a disabled subchart stays disabled). The
    options are those of the C interface: ``name``, ``namespace``, ``kube_version``.
    """
    try:
        with Chart.load_archive(chart) as handle:
            _check_installable(handle.metadata, options.get("kube_version", ""))
            _check_dependencies(handle)
            text = _native.call_string("helm_render", handle._raw(), orjson.dumps(values).decode(), json.dumps(options))  # noqa: SLF001 - Chart.render() leaves out kube_version
            # Read after the render, which removes disabled subcharts and their CRDs.
            crds = tuple((crd["filename"], crd["data"]) for crd in handle.crds)
    except HelmError as error:
        raise RenderFailed(shortened(error.detail)) from None
    return Rendered(orjson.loads(text), crds)


def _check_installable(metadata: Mapping[str, Any], kubernetes: str) -> None:
    """Reject what the command line rejects and the engine renders: library charts, and other Kubernetes versions."""
    name, kind, wanted = metadata.get("name"), metadata.get("type"), metadata.get("kubeVersion")
    if kind not in (None, "", "application"):
        raise RenderFailed(f"chart {name} has the type {kind}: only charts of the type application can be installed")
    if not wanted or not kubernetes:
        return
    try:
        allowed = Constraint.parse(wanted).allows(SemVer.parse(kubernetes))
    except (InvalidConstraint, InvalidVersion):
        allowed = False
    if not allowed:
        raise RenderFailed(
            f"chart {name} requires Kubernetes {wanted} (kubeVersion in its Chart.yaml), not {kubernetes}"
        )


def _check_dependencies(chart: Chart) -> None:
    """Reject a chart without its subcharts, as the command line does; the engine would ignore them."""
    present = {subchart["name"] for subchart in chart.dependencies}
    wanted = [dependency["name"] for dependency in chart.metadata.get("dependencies") or ()]
    if missing := [name for name in wanted if name not in present]:
        raise RenderFailed(
            f"chart {chart.name} lacks its dependencies {', '.join(missing)}: vendor them into its charts/ directory"
        )
