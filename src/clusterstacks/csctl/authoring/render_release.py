"""Renders a release as the operator does: its class, and the addons of a cluster; finds the images of objects."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from clusterstacks.csctl.authoring.example_objects import NAMESPACE, make_example_objects
from clusterstacks.deliver.apply.orc_images import orc_images
from clusterstacks.deliver.apply.policy import with_health_rules
from clusterstacks.deliver.render.renderer import addon_request, addon_values, class_request
from clusterstacks.model.documents import mapping, mappings, text
from clusterstacks.model.errors import SpecError
from clusterstacks.model.objects import split_api_version
from clusterstacks.release.sources.download_release import pull
from clusterstacks.release.sources.oci_repository import OCISource

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping

    from clusterstacks.csctl.authoring.example_objects import ExampleObjects
    from clusterstacks.deliver.render.renderer import Renderer
    from clusterstacks.model.names import ReleaseName
    from clusterstacks.model.objects import Manifest
    from clusterstacks.net.oci.registry import Registry
    from clusterstacks.release.release import Release


@dataclass(frozen=True, slots=True)
class RenderedAddon:
    """One addon: the values of its chart as YAML, and its objects in Helm's installation order."""

    values: str = field(repr=False)
    objects: tuple[Manifest, ...] = field(repr=False)


@dataclass(frozen=True, slots=True)
class RenderedRelease:
    """A release, rendered for one cluster; the addons by name."""

    release: Release = field(repr=False)

    class_objects: tuple[Manifest, ...] = field(repr=False)
    addons: Mapping[str, RenderedAddon]

    def objects(self) -> tuple[Manifest, ...]:
        """Return all objects, those of the class first."""
        return (*self.class_objects, *(manifest for addon in self.addons.values() for manifest in addon.objects))

    @property
    def images(self) -> tuple[str, ...]:
        """The container images of its objects, sorted, without duplicates."""
        return images_of(self.objects())


async def render_class(release: Release, renderer: Renderer) -> tuple[Manifest, ...]:
    """Render the class chart with the name and namespace that an example cluster has, and add the node images.

    Raises:
        RenderFailed: The chart is broken.
    """
    kubernetes = release.metadata.kubernetes
    request = class_request(release.class_chart(), release.name, kubernetes, namespace=NAMESPACE)
    rendered = await renderer.chart(request)
    return (*rendered, *orc_images(release.node_images(), rendered))


async def render_release(
    release: Release,
    renderer: Renderer,
    *,
    examples: ExampleObjects | None = None,
    only: Collection[str] = (),
    without: Collection[str] = (),
) -> RenderedRelease:
    """Render the class and the addons of a release: those in ``only`` (empty for all) that are not in ``without``.

    Values templates see the examples; None for objects made for the class.

    Raises:
        SpecError: A chart or values template is broken, or an addon of ``only`` does not exist.
    """
    if unknown := sorted(set(only) - set(release.addons())):
        present = ", ".join(release.addons()) or "none"
        raise SpecError("AddonUnknown", f"{release.name} has no addon {unknown[0]} (its addons: {present})")
    class_objects = await render_class(release, renderer)
    examples = examples or make_example_objects(release.name, release.metadata.kubernetes, class_objects)
    names = [name for name in release.addons() if (name in only or not only) and name not in without]
    rendered = await asyncio.gather(*(_addon(release, name, renderer, examples) for name in names))
    return RenderedRelease(release, class_objects, dict(zip(names, rendered, strict=True)))


async def _addon(release: Release, name: str, renderer: Renderer, examples: ExampleObjects) -> RenderedAddon:
    chart = release.addon(name)
    label = f"addon {name} of {release.name}"
    values = await addon_values(renderer, chart.values_template, examples.data, label=label, file=chart.values_name)
    request = addon_request(chart.chart, label=label, values=values, kubernetes=release.metadata.kubernetes)
    rules = release.config.health if release.config is not None else ()
    return RenderedAddon(values, tuple(with_health_rules(await renderer.chart(request), rules)))


async def published_images(repository: Registry, digest: str, name: ReleaseName, renderer: Renderer) -> tuple[str, ...]:
    """Render a release, named by its manifest, for an example cluster, and return the images of its objects."""
    with TemporaryDirectory(prefix="csctl-") as scratch:
        pulled = await pull(OCISource(repository, digest), name, Path(scratch))
        return (await render_release(pulled.release, renderer)).images


_POD_SPECS: dict[tuple[str, str], tuple[str, ...]] = {
    ("", "Pod"): ("spec",),
    ("", "PodTemplate"): ("template", "spec"),
    ("", "ReplicationController"): ("spec", "template", "spec"),
    ("apps", "DaemonSet"): ("spec", "template", "spec"),
    ("apps", "Deployment"): ("spec", "template", "spec"),
    ("apps", "ReplicaSet"): ("spec", "template", "spec"),
    ("apps", "StatefulSet"): ("spec", "template", "spec"),
    ("batch", "CronJob"): ("spec", "jobTemplate", "spec", "template", "spec"),
    ("batch", "Job"): ("spec", "template", "spec"),
}


def images_of(manifests: Iterable[Manifest]) -> tuple[str, ...]:
    """Return the images of the pod templates in objects, sorted, without duplicates.

    Images that an operator in the cluster takes from a custom resource are not found.
    """
    return tuple(sorted({image for manifest in manifests for image in images_in(manifest)}))


def pod_spec(manifest: Manifest) -> Manifest:
    """Return the spec of the pods of a workload; empty for any other object."""
    group, _ = split_api_version(text(manifest, "apiVersion"))
    path = _POD_SPECS.get((group, text(manifest, "kind")))
    return {} if path is None else mapping(manifest, *path)


def images_in(manifest: Manifest) -> Iterator[str]:
    """Yield the images of one object in their order."""
    spec = pod_spec(manifest)
    for containers in ("initContainers", "containers", "ephemeralContainers"):
        for container in mappings(spec, containers):
            if image := text(container, "image"):
                yield image
    for volume in mappings(spec, "volumes"):
        if reference := text(volume, "image", "reference"):
            yield reference
