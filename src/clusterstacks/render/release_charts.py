"""How the charts of a release are rendered (FORMATS 14 and 15): the operator and its authors' tools ask alike."""

from __future__ import annotations

from typing import TYPE_CHECKING

from clusterstacks.render.renderer import ChartRequest

if TYPE_CHECKING:
    from collections.abc import Mapping

    from clusterstacks.domain.names import ReleaseName
    from clusterstacks.domain.objects import Manifest
    from clusterstacks.domain.versions import KubernetesVersion
    from clusterstacks.render.renderer import Renderer

ADDON_RELEASE = "cluster-addon"
"""Helm's release name of every addon; it stands in object names, so it never changes."""

ADDON_NAMESPACE = "kube-system"


def class_request(chart: bytes, name: ReleaseName, kubernetes: KubernetesVersion, *, namespace: str) -> ChartRequest:
    """Ask for the objects of a class chart; ``namespace`` is the ClusterStackRelease's."""
    return ChartRequest(
        chart=chart,
        label=f"cluster class of {name}",
        release_name=name.series,
        namespace=namespace,
        kube_version=kubernetes.text,
    )


def addon_request(chart: bytes, *, label: str, values: str, kubernetes: KubernetesVersion) -> ChartRequest:
    """Ask for the objects of an addon chart; ``values`` are those of ``addon_values``."""
    return ChartRequest(
        chart=chart,
        label=label,
        release_name=ADDON_RELEASE,
        namespace=ADDON_NAMESPACE,
        values=values,
        kube_version=kubernetes.text,
        include_crds=True,
    )


async def addon_values(
    renderer: Renderer, template: str | None, data: Mapping[str, Manifest], *, label: str, file: str
) -> str:
    """Make an addon's values of its template; empty where it has none.

    Args:
        renderer: Renders.
        template: The text of overwrite.yaml or cluster-addon-values.yaml.
        data: The roots of the template: Cluster, ControlPlane, InfraCluster.
        label: How messages call the addon.
        file: How messages call the template.

    Raises:
        RenderFailed: The template is wrong, or what it renders is no mapping.
        RenderTimeout, WorkerDied: It hangs or eats memory.
    """
    if template is None:
        return ""
    text = await renderer.template(template, dict(data), label=label, file=file)
    return await renderer.values(text, label=f"{label}: {file}")
