"""What the operator would make of a release: its class, and the addons of a cluster."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from clusterstacks.authoring.example_objects import NAMESPACE, sample_roots
from clusterstacks.authoring.images import images_of
from clusterstacks.domain.errors import SpecError
from clusterstacks.render.release_charts import addon_request, addon_values, class_request

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from clusterstacks.authoring.example_objects import Roots
    from clusterstacks.domain.objects import Manifest
    from clusterstacks.releases.release import Release
    from clusterstacks.render.renderer import Renderer


@dataclass(frozen=True, slots=True)
class RenderedAddon:
    """One addon.

    Args:
        values: The YAML text its chart gets.
        objects: In the order Helm installs them.
    """

    values: str = field(repr=False)
    objects: tuple[Manifest, ...] = field(repr=False)


@dataclass(frozen=True, slots=True)
class RenderedRelease:
    """A release, rendered for one cluster.

    Args:
        class_objects: Of the class; empty where only addons were asked for.
        addons: By name.
    """

    class_objects: tuple[Manifest, ...] = field(repr=False)
    addons: Mapping[str, RenderedAddon]

    def objects(self) -> tuple[Manifest, ...]:
        """Every object, the class's first."""
        return (*self.class_objects, *(one for addon in self.addons.values() for one in addon.objects))

    @property
    def images(self) -> tuple[str, ...]:
        """The container images its objects name, sorted, each once."""
        return images_of(self.objects())


async def render_class(release: Release, renderer: Renderer) -> tuple[Manifest, ...]:
    """Render the class chart.

    Raises:
        RenderFailed: The chart is wrong.
        DependencyError: A render worker failed, or the release changed on disk.
    """
    kubernetes = release.metadata.kubernetes
    request = class_request(release.class_chart(), release.name, kubernetes, namespace=NAMESPACE)
    return tuple(await renderer.chart(request))


async def render_release(
    release: Release,
    renderer: Renderer,
    *,
    roots: Roots | None = None,
    only: Collection[str] = (),
    without: Collection[str] = (),
) -> RenderedRelease:
    """Render the class and addons of a release.

    Args:
        release: What to render.
        renderer: Renders.
        roots: What values templates see; None for a sample made for the class.
        only: Names of the addons to render; none for all.
        without: Names of addons not to render.

    Raises:
        SpecError: A chart or values template is wrong, or there is no addon of that name.
        DependencyError: A render worker failed, or the release changed on disk.
    """
    if unknown := sorted(set(only) - set(release.addons())):
        there = ", ".join(release.addons()) or "none"
        raise SpecError("AddonUnknown", f"{release.name} has no addon {unknown[0]}: name one of {there}")
    class_objects = await render_class(release, renderer)
    roots = roots or sample_roots(release.name, release.metadata.kubernetes, class_objects)
    names = [name for name in release.addons() if (name in only or not only) and name not in without]
    rendered = await asyncio.gather(*(_addon(release, name, renderer, roots) for name in names))
    return RenderedRelease(class_objects, dict(zip(names, rendered, strict=True)))


async def _addon(release: Release, name: str, renderer: Renderer, roots: Roots) -> RenderedAddon:
    chart = release.addon(name)
    label = f"addon {name} of {release.name}"
    values = await addon_values(renderer, chart.values_template, roots.data, label=label, file=chart.values_name)
    request = addon_request(chart.chart, label=label, values=values, kubernetes=release.metadata.kubernetes)
    return RenderedAddon(values, tuple(await renderer.chart(request)))
