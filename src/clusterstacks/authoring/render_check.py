"""Renders a stack's charts and compiles its conditions, as the operator will; what fails becomes part of the stack."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING

from clusterstacks.api.untyped import at, mapping, mappings, text
from clusterstacks.authoring.example_objects import NAMESPACE, sample_roots
from clusterstacks.authoring.stack import BrokenCondition
from clusterstacks.authoring.stack_chart import oversized
from clusterstacks.charts.chart import pack_chart
from clusterstacks.charts.helmignore import chart_files
from clusterstacks.charts.requirements import lacking
from clusterstacks.domain.errors import ClusterStacksError, DependencyError, SpecError
from clusterstacks.releases.release import ADDON_CONFIG
from clusterstacks.render.errors import CelUndecided
from clusterstacks.render.release_charts import addon_request, addon_values, class_request

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterator, Mapping

    from clusterstacks.authoring.example_objects import Roots
    from clusterstacks.authoring.stack import LintedStack
    from clusterstacks.authoring.stack_chart import Chart
    from clusterstacks.charts.vendor import ChartDependencies
    from clusterstacks.domain.objects import Manifest
    from clusterstacks.domain.versions import KubernetesVersion
    from clusterstacks.render.renderer import ChartRequest, Renderer


@dataclass(frozen=True, slots=True)
class Means:
    """What looking at a stack takes.

    Args:
        renderer: Renders charts and compiles conditions.
        roots: What values templates see; None for a sample made for the class.
        dependencies: Adds what charts depend on; None leaves charts that lack something out.
    """

    renderer: Renderer
    roots: Roots | None = None
    dependencies: ChartDependencies | None = None


async def examine(stack: LintedStack, means: Means) -> LintedStack:
    """Return the stack with what rendering it told."""
    renderer = means.renderer
    stack = replace(stack, conditions=tuple([broken async for broken in _conditions(stack, renderer)]))
    if stack.settings is None or stack.name is None:
        return stack  # csctl.yaml must be mended first: it says what to render for
    kubernetes = stack.settings.kubernetes
    charts = await asyncio.gather(*(_completed(chart, stack, means.dependencies) for chart in stack.charts))
    request = partial(class_request, name=stack.name, kubernetes=kubernetes, namespace=NAMESPACE)
    classes = [await _rendered(chart, renderer, request) for chart in charts if not chart.addon]
    objects = [document.manifest for chart in classes for document in chart.documents]
    data = (means.roots or sample_roots(stack.name, kubernetes, objects)).data
    addons = await asyncio.gather(*(_addon(chart, renderer, data, kubernetes) for chart in charts if chart.addon))
    return replace(stack, charts=(*classes, *addons))


async def _completed(chart: Chart, stack: LintedStack, dependencies: ChartDependencies | None) -> Chart:
    """Add what the chart depends on; without that it is not rendered."""
    if oversized(chart.files):
        return chart  # a rule names the files
    try:
        absent = lacking(chart.files, chart.directory)
    except SpecError:
        absent = ()  # a rule says why; what Helm says to the chart as it is may tell more
    if not absent:
        return replace(chart, complete=chart.files)
    if dependencies is None:
        return chart
    try:
        vendored = await dependencies.vendor(chart.files, chart.directory, tree=stack.files())
    except ClusterStacksError as error:
        return replace(chart, missing=error.message, unreachable=isinstance(error, DependencyError))
    return replace(chart, complete=vendored.files)


async def _addon(
    chart: Chart, renderer: Renderer, data: Mapping[str, Manifest], kubernetes: KubernetesVersion
) -> Chart:
    try:
        values = await _values(chart, renderer, data)
    except UnicodeDecodeError:
        return replace(chart, values_failure="is no UTF-8 text")
    except ClusterStacksError as error:
        return replace(chart, values_failure=error.message)
    request = partial(addon_request, label=chart.title, values=values, kubernetes=kubernetes)
    return await _rendered(chart, renderer, request)


async def _values(chart: Chart, renderer: Renderer, data: Mapping[str, Manifest]) -> str:
    template = chart.values_template.decode() if chart.values_path else None
    return await addon_values(renderer, template, data, label=chart.title, file=chart.values_path)


async def _rendered(chart: Chart, renderer: Renderer, request: Callable[[bytes], ChartRequest]) -> Chart:
    if chart.complete is None:
        return chart
    try:
        # Helm finds the chart by its one top directory, whatever that is called.
        packed = pack_chart("chart", chart_files(chart.complete, chart.directory))
        examined = await renderer.examine(replace(request(packed), label=chart.title))
    except ClusterStacksError as error:
        return replace(chart, failure=error.message)
    return replace(
        chart,
        rendered=True,
        documents=examined.documents,
        repetitions=examined.repetitions,
        hooks=examined.hooks,
    )


async def _conditions(stack: LintedStack, renderer: Renderer) -> AsyncIterator[BrokenCondition]:
    for path, check in _checks(stack.document(ADDON_CONFIG)):
        variables: dict[str, Manifest] = {key: {} for one in mappings(check, "objects") if (key := text(one, "key"))}
        try:
            await renderer.holds(text(check, "conditions"), variables, label=ADDON_CONFIG)
        except CelUndecided:
            continue  # it compiles, and asks for what the objects of a cluster have
        except ClusterStacksError as error:
            yield BrokenCondition((*path, "conditions"), error.message)


def _checks(config: object) -> Iterator[tuple[tuple[str | int, ...], Manifest]]:
    """Find every condition of clusteraddon.yaml, also those of hooks that never run."""
    stages = at(config, "addonStages")
    for hook in stages if isinstance(stages, dict) else ():
        listed = stages[hook] if isinstance(stages[hook], list) else []
        for index, stage in enumerate(listed):
            for name in ("waitForPreCondition", "waitForPostCondition"):
                check = mapping(stage, name)
                if text(check, "conditions").strip():
                    yield ("addonStages", hook, index, name), check
