"""Renders the chart of the operator to the objects of an installation."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from clusterstacks.csctl.install.installations import INSTALLATION_LABEL
from clusterstacks.deliver.render.renderer import ChartRequest, Renderer
from clusterstacks.deliver.render.values_document import merge_values
from clusterstacks.model import yaml
from clusterstacks.model.errors import SpecError
from clusterstacks.release.charts.archive import write_archive

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from clusterstacks.model.objects import Manifest

NAME: Final = "cluster-stack-operator"
"""Name of the chart, and of the Helm release that is rendered."""
NAMESPACE: Final = "cluster-stack-system"
"""Default namespace of an installation."""
KUBERNETES: Final = "v1.36.0"
"""Kubernetes version of the render; nothing in the chart depends on it."""
CRD: Final = "CustomResourceDefinition"


def chart_directory() -> Path:
    """Return the directory of the chart: beside this module in a wheel, below ``charts`` in a checkout."""
    here = Path(__file__)
    installed = here.parent / "chart"
    return installed if installed.is_dir() else here.parents[4] / "charts" / NAME


def packed_chart(directory: Path | None = None) -> bytes:
    """Return the chart as an archive that Helm loads."""
    root = directory or chart_directory()
    files = (path for path in sorted(root.rglob("*")) if path.is_file())
    return write_archive({f"{NAME}/{path.relative_to(root).as_posix()}": path.read_bytes() for path in files})


async def rendered(renderer: Renderer, values: Mapping[str, Any], namespace: str = NAMESPACE) -> list[Manifest]:
    """Render the chart with the content of a values file; RenderFailed means that the values are wrong."""
    request = ChartRequest(
        chart=packed_chart(),
        label=f"chart {NAME}",
        release_name=NAME,
        namespace=namespace,
        values=yaml.dump(dict(values)),
        kube_version=KUBERNETES,
    )
    return await renderer.chart(request)


async def installation_objects(values: Mapping[str, Any], namespace: str = NAMESPACE) -> list[Manifest]:
    """Return the Namespace and the rendered chart, in the order of Helm, with the label of the installation."""
    renderer = Renderer(workers=1)
    try:
        objects = await rendered(renderer, values, namespace)
    finally:
        await renderer.close()
    for one in objects:
        if one["kind"] != CRD:
            one["metadata"].setdefault("labels", {})[INSTALLATION_LABEL] = namespace
    return [_namespace(namespace), *objects]


def _namespace(name: str) -> Manifest:
    # The API server refuses pods that do not meet the standard; those of the chart do.
    labels = {"pod-security.kubernetes.io/enforce": "restricted"}
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": labels}}


def read_values(files: Iterable[Path], image: str = "") -> dict[str, Any]:
    """Read values files; later files take precedence, and ``image`` over all of them."""
    values: dict[str, Any] = {}
    for file in files:
        document = yaml.load(file.read_bytes(), name=str(file))
        if not isinstance(document, dict | None):
            raise SpecError("InvalidValues", f"{file} is not a values file: expected a mapping at its top level")
        values = merge_values(values, document or {})
    return merge_values(values, {"image": image_values(image)}) if image else values


def image_values(reference: str) -> dict[str, str]:
    """Split ``REPOSITORY[:TAG][@DIGEST]`` into the values of the chart; the digest must be a SHA-256."""
    name, _, digest = reference.partition("@")
    host, slash, path = name.rpartition("/")
    last, _, tag = path.partition(":")
    if not last or (digest and not digest.startswith("sha256:")):
        raise SpecError(
            "InvalidImage",
            f"{reference!r} is not a valid image (expected for example registry.example.org/kaas/{NAME}:0.1.0)",
        )
    return {"repository": f"{host}{slash}{last}", "tag": tag, "digest": digest}
