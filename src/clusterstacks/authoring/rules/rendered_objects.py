"""The objects charts render to: which they are, of which API versions, with which images."""

from __future__ import annotations

from itertools import groupby
from typing import TYPE_CHECKING

from clusterstacks.authoring.findings import Fault, LintRule, LintSeverity
from clusterstacks.authoring.images import images_in
from clusterstacks.authoring.positions import line_of_text
from clusterstacks.compat.removed_apis import removed_apis
from clusterstacks.domain.objects import ObjectId, object_id
from clusterstacks.domain.versions import KubernetesMinor
from clusterstacks.render.release_charts import ADDON_NAMESPACE

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from clusterstacks.authoring.stack import LintedStack
    from clusterstacks.authoring.stack_chart import Chart
    from clusterstacks.compat.removed_apis import RemovedApi
    from clusterstacks.render.examination import RenderedDocument

BUILTIN_NAMESPACES = frozenset({"default", "kube-node-lease", "kube-public", "kube-system"})
"""What every cluster has from its beginning."""


def repeated(stack: LintedStack) -> Iterator[Fault]:
    """No object is rendered twice, by one chart or by two addons."""
    everything = sorted(_identified(stack.addons), key=_by_identity)
    if stack.class_chart is not None:
        everything += sorted(_identified([stack.class_chart]), key=_by_identity)
    for identity, group in groupby(everything, key=lambda one: one[0]):
        (_, first, _), *others = group
        for _, chart, document in others:
            same = chart.addon == first.addon
            way_out = "rename one, or drop it" if same else f"drop it here or in {first.title}: both would write to it"
            problem = f"{identity} is also rendered by {'another template' if same else first.title}"
            yield Fault(*_place(stack, chart, document), problem, way_out)


def namespaces(stack: LintedStack) -> Iterator[Fault]:
    """Every namespace that addons' objects name is there, or one of them brings it."""
    documents = [(chart, document) for chart in stack.addons for document in chart.documents]
    rendered = {identity.name for identity, _, _ in _identified(stack.addons) if identity.kind == "Namespace"}
    for chart, document in documents:
        identity = object_id(document.manifest)
        if identity.namespace and identity.namespace not in BUILTIN_NAMESPACES | rendered:
            problem = f"{identity} is in namespace {identity.namespace}, which no addon renders"
            yield Fault(*_place(stack, chart, document), problem, "add the Namespace to the chart")


def removed(stack: LintedStack) -> Iterator[Fault]:
    """Kubernetes serves the API version of every object."""
    for chart, document, fact in _ending(stack):
        if stack.settings is not None and fact.removed_in <= stack.settings.kubernetes.series:
            yield _ended(stack, chart, document, fact)


def leaving(stack: LintedStack) -> Iterator[Fault]:
    """The next Kubernetes minor still serves the API version of every object."""
    if stack.settings is None:
        return
    series = stack.settings.kubernetes.series
    following = KubernetesMinor(series.major, series.minor + 1)
    for chart, document, fact in _ending(stack):
        if fact.removed_in == following:
            yield _ended(stack, chart, document, fact)


def mutable_images(stack: LintedStack) -> Iterator[Fault]:
    """Every image is named by its digest, so that it is the same tomorrow and in a mirror."""
    for chart in stack.charts:
        for document in chart.documents:
            for image in images_in(document.manifest):
                if "@sha256:" not in image:
                    path = chart.place(document.path)
                    line = line_of_text(stack.content(path), image, "image:")
                    yield Fault(path, line, f"image {image} has no digest", f"write {image}@sha256:<digest>")


def _ending(stack: LintedStack) -> Iterator[tuple[Chart, RenderedDocument, RemovedApi]]:
    facts = removed_apis()
    for chart in stack.charts:
        for document in chart.documents:
            fact = facts.get((document.manifest["apiVersion"], document.manifest["kind"]))
            if fact is not None:
                yield chart, document, fact


def _ended(stack: LintedStack, chart: Chart, document: RenderedDocument, fact: RemovedApi) -> Fault:
    manifest = document.manifest
    what = f"{manifest['kind']} {manifest['metadata']['name']} of {manifest['apiVersion']}"
    way_out = f"write it as {fact.replacement}" if fact.replacement else "there is no replacement: drop it"
    return Fault(
        *_place(stack, chart, document),
        f"{what}: Kubernetes {fact.removed_in} does not serve it any more ({fact.source})",
        way_out,
    )


def _identified(charts: Iterable[Chart]) -> list[tuple[ObjectId, Chart, RenderedDocument]]:
    return [(_identity(chart, document), chart, document) for chart in charts for document in chart.documents]


def _identity(chart: Chart, document: RenderedDocument) -> ObjectId:
    """Name the object; without a namespace it is the addon's default one or cluster-wide, which is the same here."""
    found = object_id(document.manifest)
    if chart.addon and found.namespace == ADDON_NAMESPACE:
        return ObjectId(found.group, found.kind, "", found.name)
    return found


def _by_identity(one: tuple[ObjectId, Chart, RenderedDocument]) -> ObjectId:
    return one[0]


def _place(stack: LintedStack, chart: Chart, document: RenderedDocument) -> tuple[str, int]:
    path = chart.place(document.path)
    name, kind = document.manifest["metadata"]["name"], document.manifest["kind"]
    return path, line_of_text(stack.content(path), f"name: {name}", f"kind: {kind}")


RULES = (
    LintRule("repeated-object", LintSeverity.ERROR, "No object is rendered twice, by one chart or by two.", repeated),
    LintRule(
        "namespace",
        LintSeverity.WARNING,
        "Every namespace that objects of addons name comes with an addon.",
        namespaces,
    ),
    LintRule(
        "removed-api", LintSeverity.ERROR, "The stack's Kubernetes version serves every API version used.", removed
    ),
    LintRule(
        "leaving-api", LintSeverity.WARNING, "The next Kubernetes minor still serves every API version used.", leaving
    ),
    LintRule("image-digest", LintSeverity.WARNING, "Every container image is named by its digest.", mutable_images),
)
