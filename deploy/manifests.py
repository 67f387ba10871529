"""Writes the generated files of the chart, and ``install.yaml``: ``make manifests``.

A test checks that they are current. CustomResourceDefinitions and rights come from the code. ``install.yaml`` is the
chart as Helm renders it, after a Namespace.
"""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING, Any

from clusterstacks.api.crd_manifests import all_crds
from clusterstacks.api.yaml import dump
from clusterstacks.charts.archive import write_archive
from clusterstacks.operator.rbac import RIGHTS, RightScope
from clusterstacks.render.renderer import ChartRequest, Renderer

if TYPE_CHECKING:
    from clusterstacks.domain.objects import Manifest

ROOT = Path(__file__).parents[1]
NAME = "cluster-stack-operator"
CHART = ROOT / "charts" / NAME
INSTALL = ROOT / "deploy" / "install.yaml"

NAMESPACE = "cluster-stack-system"
KUBERNETES = "v1.36.0"
"""Kubernetes version of the render; nothing in the chart depends on it."""

INSTALL_VALUES = {"image": {"repository": NAME}, "source": {"existingSecret": f"{NAME}-source"}}
"""Values of ``install.yaml``; users set the image with kustomize, and the source with a Secret."""

NOTE = "# Written by `make manifests`; do not edit.\n"

SCOPES = {
    RightScope.CLUSTER: "cluster",
    RightScope.CLUSTERS: "secrets",
    RightScope.STACKS: "secrets",
    RightScope.OWN: "own",
}
"""Names of the chart's roles."""


def chart_files() -> dict[Path, str]:
    """Return the generated files of the chart."""
    crds = {CHART / "files/crds" / f"{crd['metadata']['name']}.yaml": NOTE + dump(crd) for crd in all_crds()}
    return {**crds, CHART / "files/rights.yaml": NOTE + dump({"rights": _rights()})}


def _rights() -> list[dict[str, Any]]:
    """Describe the rights; equal rights of two scopes of one role become one rule."""
    entries: dict[str, dict[str, Any]] = {}
    for right in RIGHTS:
        feature = {"feature": right.only_with.value} if right.only_with else {}
        entry = {"scope": SCOPES[right.scope], **feature, "why": right.why, "rule": right.rule()}
        first = entries.setdefault(str({**entry, "why": ""}), entry)
        if first is not entry:
            first["why"] += f"; {right.why}"
    return [*entries.values()]


def packed_chart() -> bytes:
    """Return the chart as an archive that Helm loads."""
    files = (path for path in sorted(CHART.rglob("*")) if path.is_file())
    return write_archive({f"{NAME}/{path.relative_to(CHART).as_posix()}": path.read_bytes() for path in files})


async def rendered(renderer: Renderer, values: Manifest, namespace: str = NAMESPACE) -> list[Manifest]:
    """Render the chart.

    Args:
        renderer: The renderer of Helm charts.
        values: The content of a values file.
        namespace: Namespace of the Helm release.

    Raises:
        RenderFailed: The values are wrong.
    """
    request = ChartRequest(
        chart=packed_chart(),
        label=f"chart {NAME}",
        release_name=NAME,
        namespace=namespace,
        values=dump(values),
        kube_version=KUBERNETES,
    )
    return await renderer.chart(request)


async def install_yaml() -> str:
    """Return the text of ``install.yaml``."""
    renderer = Renderer(workers=1)
    try:
        objects = await rendered(renderer, INSTALL_VALUES)
    finally:
        await renderer.close()
    # The API server refuses pods that do not meet the standard; those of the chart do.
    labels = {"pod-security.kubernetes.io/enforce": "restricted"}
    namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE, "labels": labels}}
    return NOTE + "---\n".join(dump(one) for one in (namespace, *objects))


def main() -> None:
    """Write all files."""
    for path, text in chart_files().items():
        path.write_text(text)
    INSTALL.write_text(asyncio.run(install_yaml()))


if __name__ == "__main__":
    main()
