"""Renders the charts and compiles the conditions of a loaded stack, and dry-runs its class on a management cluster.

The results, and the failures, are stored in the stack for the lint rules.
"""

from __future__ import annotations

import asyncio
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from clusterstacks.csctl.authoring.example_objects import NAMESPACE, make_example_objects
from clusterstacks.csctl.authoring.missing_values import check_missing_values
from clusterstacks.csctl.authoring.stack import BrokenAnnotation, BrokenCondition, ServerRefusal, oversized
from clusterstacks.deliver.apply.health_expressions import VARIABLE
from clusterstacks.deliver.apply.policy import HEALTH_ANNOTATION, HEALTH_FAILED_ANNOTATION
from clusterstacks.deliver.render.errors import CelUndecided
from clusterstacks.deliver.render.renderer import addon_request, class_request
from clusterstacks.model.documents import at, mapping, mappings, text
from clusterstacks.model.errors import ClusterStacksError, DependencyError, SpecError
from clusterstacks.model.objects import split_api_version
from clusterstacks.net.kube.errors import ApiError, Forbidden, KindNotServed, TooMany, Unauthorized
from clusterstacks.release.charts.chart import pack_chart
from clusterstacks.release.charts.dependencies import lacking
from clusterstacks.release.charts.helmignore import chart_files
from clusterstacks.release.release import ADDON_CONFIG

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterator, Mapping

    from clusterstacks.csctl.authoring.example_objects import ExampleObjects
    from clusterstacks.csctl.authoring.stack import LintedChart, LintedStack
    from clusterstacks.deliver.render.protocol import RenderedDocument
    from clusterstacks.deliver.render.renderer import ChartRequest, Renderer
    from clusterstacks.model.objects import Manifest
    from clusterstacks.model.versions import KubernetesVersion
    from clusterstacks.net.kube.client import Client
    from clusterstacks.release.charts.vendor import ChartDependencies


async def render_stack(
    stack: LintedStack,
    renderer: Renderer,
    examples: ExampleObjects | None = None,
    dependencies: ChartDependencies | None = None,
) -> LintedStack:
    """Return the stack with the results of rendering it.

    Values templates see the examples; None for objects made for the class. Without ``dependencies``, charts that lack
    one are skipped.
    """
    stack = await compile_conditions(stack, renderer)
    if stack.settings is None or stack.name is None:
        return stack  # without the Kubernetes version of csctl.yaml nothing can be rendered
    kubernetes = stack.settings.kubernetes
    charts = await asyncio.gather(*(_completed(chart, stack, dependencies) for chart in stack.charts))
    request = partial(class_request, name=stack.name, kubernetes=kubernetes, namespace=NAMESPACE)
    classes = [await _rendered(chart, renderer, request) for chart in charts if not chart.addon]
    objects = [document.manifest for chart in classes for document in chart.documents]
    data = (examples or make_example_objects(stack.name, kubernetes, objects)).data
    addons = await asyncio.gather(*(_addon(chart, renderer, data, kubernetes) for chart in charts if chart.addon))
    return replace(stack, charts=(*classes, *addons))


async def compile_conditions(stack: LintedStack, renderer: Renderer) -> LintedStack:
    """Return the stack with the expressions of clusteraddon.yaml that do not compile."""
    return replace(stack, conditions=tuple([broken async for broken in _conditions(stack, renderer)]))


async def _completed(chart: LintedChart, stack: LintedStack, dependencies: ChartDependencies | None) -> LintedChart:
    """Add the dependencies of a chart; a chart that lacks one is not rendered."""
    if oversized(chart.files):
        return chart  # ``file-size`` reports it
    try:
        absent = lacking(chart.files, chart.directory)
    except SpecError:
        absent = ()  # ``dependencies`` reports it; Helm's message may say more
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
    chart: LintedChart, renderer: Renderer, data: Mapping[str, Manifest], kubernetes: KubernetesVersion
) -> LintedChart:
    try:
        values = await _values(chart, renderer, data)
    except UnicodeDecodeError:
        return replace(chart, values_failure="is not UTF-8 text")
    except ClusterStacksError as error:
        return replace(chart, values_failure=error.message)
    request = partial(addon_request, label=chart.title, values=values, kubernetes=kubernetes)
    rendered = await _rendered(chart, renderer, request)
    return replace(rendered, annotations=tuple([broken async for broken in _annotations(rendered, renderer)]))


async def _values(chart: LintedChart, renderer: Renderer, data: Mapping[str, Manifest]) -> str:
    """Render values as ``addon_values`` does; a missing value is reported before the YAML error that it may cause."""
    if not chart.values_path:
        return ""
    template, label, file = chart.values_template.decode(), chart.title, chart.values_path
    text = await renderer.template(template, dict(data), label=label, file=file)
    await check_missing_values(renderer, template, data, label=label, file=file)
    return await renderer.values(text, label=f"{label}: {file}")


async def _rendered(chart: LintedChart, renderer: Renderer, request: Callable[[bytes], ChartRequest]) -> LintedChart:
    if chart.complete is None:
        return chart
    try:
        # Helm accepts any name of the top directory.
        packed = pack_chart("chart", chart_files(chart.complete, chart.directory))
        examined = await renderer.examine(replace(request(packed), label=chart.title))
        again = await renderer.examine(replace(request(packed), label=chart.title))
    except ClusterStacksError as error:
        return replace(chart, failure=error.message)
    return replace(
        chart,
        rendered=True,
        documents=examined.documents,
        random=tuple(one for one, other in zip(examined.documents, again.documents, strict=False) if one != other),
        repetitions=examined.repetitions,
        hooks=examined.hooks,
    )


async def _conditions(stack: LintedStack, renderer: Renderer) -> AsyncIterator[BrokenCondition]:
    for path, check in _checks(stack.document(ADDON_CONFIG)):
        variables: dict[str, Manifest] = {
            key: {} for named in mappings(check, "objects") if (key := text(named, "key"))
        }
        if problem := await _compile(text(check, "conditions"), variables, renderer):
            yield BrokenCondition((*path, "conditions"), problem)
    health = at(stack.document(ADDON_CONFIG), "health")
    for index, rule in enumerate(health if isinstance(health, list) else ()):
        for name in ("current", "failed"):
            expression = text(rule, name)
            if expression.strip() and (problem := await _compile(expression, {VARIABLE: {}}, renderer)):
                yield BrokenCondition(("health", index, name), problem)


async def _annotations(chart: LintedChart, renderer: Renderer) -> AsyncIterator[BrokenAnnotation]:
    for document in chart.documents:
        annotations = mapping(document.manifest, "metadata", "annotations")
        for name in (HEALTH_ANNOTATION, HEALTH_FAILED_ANNOTATION):
            expression = text(annotations, name)
            if expression and (problem := await _compile(expression, {VARIABLE: {}}, renderer)):
                yield BrokenAnnotation(document, name, problem)


async def _compile(expression: str, variables: Mapping[str, Manifest], renderer: Renderer) -> str:
    """Return why a CEL expression does not compile, or is too long; empty if it is valid."""
    try:
        await renderer.holds(expression, variables, label=ADDON_CONFIG)
    except CelUndecided:
        return ""  # it compiles, but needs fields of real objects
    except ClusterStacksError as error:
        return error.message
    return ""


def _checks(config: object) -> Iterator[tuple[tuple[str | int, ...], Manifest]]:
    """Yield every condition of clusteraddon.yaml with its path, also under unknown hooks."""
    stages = at(config, "addonStages")
    for hook in stages if isinstance(stages, dict) else ():
        listed = stages[hook] if isinstance(stages[hook], list) else []
        for index, stage in enumerate(listed):
            for name in ("waitForPreCondition", "waitForPostCondition"):
                check = mapping(stage, name)
                if text(check, "conditions").strip():
                    yield ("addonStages", hook, index, name), check


MANAGER = "csctl-lint"
"""Field manager of the dry run; it is never stored."""


async def dry_run_class(stack: LintedStack, client: Client) -> LintedStack:
    """Return the stack with the objects of the class that the server rejects in a dry run.

    Raises:
        DependencyError: The server does not answer, or denies the dry run.
    """
    documents = stack.class_chart.documents if stack.class_chart else ()
    refusals = [refusal for document in documents if (refusal := await _refusal(document, client))]
    return replace(stack, refusals=tuple(refusals))


async def _refusal(document: RenderedDocument, client: Client) -> ServerRefusal | None:
    manifest = document.manifest
    kind, name = manifest["kind"], manifest["metadata"]["name"]
    group, version = split_api_version(manifest["apiVersion"])
    try:
        resource = await client.resource(group, kind, version)
        if resource.api_version != manifest["apiVersion"]:
            problem = f"it serves {resource.api_version}, not {manifest['apiVersion']}"
            remedy = "use the served version, or install a version of the provider that serves this one"
            return ServerRefusal(document.path, kind, name, problem, remedy)
        await client.apply(resource, manifest, manager=MANAGER, namespace=NAMESPACE, force=True, dry_run=True)
    except KindNotServed as error:
        return ServerRefusal(
            document.path, kind, name, error.message, "install the provider, or correct apiVersion and kind"
        )
    except (Forbidden, TooMany, Unauthorized):
        raise
    except ApiError as error:
        return ServerRefusal(document.path, kind, name, error.message, "correct the template")
    return None
