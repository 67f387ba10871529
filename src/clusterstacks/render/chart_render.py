"""One chart with its values, rendered to objects. Runs in worker processes only."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from clusterstacks.api import yaml
from clusterstacks.render import helm
from clusterstacks.render.errors import RenderFailed, kind_of
from clusterstacks.render.helm_output import documents, hooks, manifests, repetitions

if TYPE_CHECKING:
    from clusterstacks.domain.objects import Manifest


def render(chart: bytes, request: dict[str, Any]) -> list[Manifest]:
    """Render as ``helm template`` does. Raises RenderFailed."""
    rendered = _rendered(chart, request)
    return manifests(rendered.templates, rendered.crds if request["include_crds"] else ())


def examine(chart: bytes, request: dict[str, Any]) -> dict[str, Any]:
    """Render; also return the file of each object, repeated keys and all hooks. Raises RenderFailed."""
    rendered = _rendered(chart, request)
    found = documents(rendered.templates, rendered.crds if request["include_crds"] else ())
    return {
        "documents": [list(one) for one in found],
        "repetitions": [list(one) for one in repetitions(rendered.templates)],
        "hooks": [list(one) for one in hooks(rendered.templates)],
    }


def _rendered(chart: bytes, request: dict[str, Any]) -> helm.Rendered:
    options = {
        "name": request["release_name"],
        "namespace": request["namespace"],
        "kube_version": request["kube_version"],
    }
    return helm.render(chart, _values(request["values"]), options)


def _values(text: str) -> dict[str, Any]:
    try:
        values = yaml.load(text, name="values")
    except yaml.YamlError as error:
        raise RenderFailed(error.message) from None
    if values is None:
        return {}
    if not isinstance(values, dict):
        raise RenderFailed(f"values must be a mapping, not {kind_of(values)}")
    return values
