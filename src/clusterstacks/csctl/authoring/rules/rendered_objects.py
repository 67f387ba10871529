"""Rules for rendered objects: duplicates, namespaces, API versions and images."""

from __future__ import annotations

from collections import Counter
from itertools import groupby
from typing import TYPE_CHECKING, Final

from clusterstacks.csctl.authoring.findings import LintProblem, LintRule, LintSeverity, line_of_text
from clusterstacks.csctl.authoring.render_release import images_in, pod_spec
from clusterstacks.deliver.apply.policy import ineffective_annotation
from clusterstacks.deliver.render.renderer import ADDON_NAMESPACE
from clusterstacks.model.documents import mapping, mappings, text
from clusterstacks.model.objects import ObjectId, object_id
from clusterstacks.model.versions import KubernetesMinor
from clusterstacks.plan.compat.kubernetes import removed_apis

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from clusterstacks.csctl.authoring.stack import LintedChart, LintedStack
    from clusterstacks.deliver.render.protocol import RenderedDocument
    from clusterstacks.model.objects import Manifest
    from clusterstacks.plan.compat.kubernetes import RemovedApi

BUILTIN_NAMESPACES = frozenset({"default", "kube-node-lease", "kube-public", "kube-system"})
"""Namespaces of every new cluster."""


def repeated(stack: LintedStack) -> Iterator[LintProblem]:
    """Report objects that are rendered twice, by one chart or by two charts."""
    everything = sorted(_identified(stack.addons), key=_by_identity)
    if stack.class_chart is not None:
        everything += sorted(_identified([stack.class_chart]), key=_by_identity)
    for identity, group in groupby(everything, key=_by_identity):
        (_, first, _), *others = group
        for _, chart, document in others:
            same = chart.addon == first.addon
            remedy = "rename or remove one" if same else f"remove it here or in {first.title}: both would write to it"
            problem = f"{identity} is also rendered by {'another template' if same else first.title}"
            yield LintProblem(*_place(stack, chart, document), problem, remedy)


def namespaces(stack: LintedStack) -> Iterator[LintProblem]:
    """Report namespaces of addon objects that neither exist in a new cluster nor are rendered by an addon."""
    documents = [(chart, document) for chart in stack.addons for document in chart.documents]
    rendered = {identity.name for identity, _, _ in _identified(stack.addons) if identity.kind == "Namespace"}
    for chart, document in documents:
        identity = object_id(document.manifest)
        if identity.namespace and identity.namespace not in BUILTIN_NAMESPACES | rendered:
            problem = f"{identity} is in namespace {identity.namespace}, which no addon renders"
            yield LintProblem(*_place(stack, chart, document), problem, "add the Namespace to the chart")


def random(stack: LintedStack) -> Iterator[LintProblem]:
    """Report objects that a chart renders with random values: each upgrade would change them."""
    for chart in stack.charts:
        for document in chart.random:
            problem = (
                f"{object_id(document.manifest)} differs in each rendering (passwords, certificates or times made by "
                "the template), so each upgrade changes it; lookup finds nothing, because charts are rendered offline"
            )
            remedy = (
                "turn it off by a value, or let a Job, a controller such as cert-manager, or a Secret that the chart "
                "only refers to provide it"
            )
            yield LintProblem(*_place(stack, chart, document), problem, remedy)


def repeated_items(stack: LintedStack) -> Iterator[LintProblem]:
    """Report lists with two items of one key, which server-side apply refuses."""
    for chart in stack.addons:
        for document in chart.documents:
            for path, item in _repeated_items(document.manifest):
                problem = f"{object_id(document.manifest)}: {path} has two items with {item}: it can never be applied"
                yield LintProblem(*_place(stack, chart, document), problem, "remove one of them")


_POD_LISTS: Final = (("volumes", ("name",)), ("imagePullSecrets", ("name",)), ("hostAliases", ("ip",)))
_CONTAINER_LISTS: Final = (
    ("env", ("name",)),
    ("ports", ("containerPort", "protocol")),
    ("volumeMounts", ("mountPath",)),
    ("volumeDevices", ("devicePath",)),
)
"""Lists of the pod and of its containers, and the fields that identify an item. Source: listMapKeys of the API."""


def _repeated_items(manifest: Manifest) -> Iterator[tuple[str, str]]:
    """Yield the path of each list with two items of one key, and the key."""
    spec = pod_spec(manifest)
    lists: list[tuple[Manifest, str, str, tuple[str, ...]]] = [(spec, "", field, keys) for field, keys in _POD_LISTS]
    for kind in ("initContainers", "containers", "ephemeralContainers"):
        lists.append((spec, "", kind, ("name",)))
        for container in mappings(spec, kind):
            where = f"container {text(container, 'name')}, "
            lists += [(container, where, field, keys) for field, keys in _CONTAINER_LISTS]
    if (manifest["apiVersion"], manifest["kind"]) == ("v1", "Service"):
        lists.append((mapping(manifest, "spec"), "", "ports", ("port", "protocol")))
    for holder, where, field, keys in lists:
        items = Counter(tuple(item.get(key, _DEFAULTS.get(key)) for key in keys) for item in mappings(holder, field))
        for values, count in items.items():
            if count > 1:
                item = ", ".join(f"{key} {value}" for key, value in zip(keys, values, strict=True))
                yield f"{where}{field}", item


_DEFAULTS: Final = {"protocol": "TCP"}


def removed(stack: LintedStack) -> Iterator[LintProblem]:
    """Report objects whose API version Kubernetes does not serve."""
    for chart, document, fact in _ending(stack):
        if stack.settings is not None and fact.removed_in <= stack.settings.kubernetes.series:
            yield _ended(stack, chart, document, fact)


def leaving(stack: LintedStack) -> Iterator[LintProblem]:
    """Report objects whose API version the next Kubernetes minor does not serve."""
    if stack.settings is None:
        return
    series = stack.settings.kubernetes.series
    following = KubernetesMinor(series.major, series.minor + 1)
    for chart, document, fact in _ending(stack):
        if fact.removed_in == following:
            yield _ended(stack, chart, document, fact)


def mutable_images(stack: LintedStack) -> Iterator[LintProblem]:
    """Report images without a digest: their content may change, and mirrors may serve other content."""
    for chart in stack.charts:
        for document in chart.documents:
            for image in images_in(document.manifest):
                if "@sha256:" not in image:
                    path = chart.place(document.path)
                    line = line_of_text(stack.content(path), image, "image:")
                    yield LintProblem(path, line, f"image {image} has no digest", f"write {image}@sha256:<digest>")


def object_policies(stack: LintedStack) -> Iterator[LintProblem]:
    """Report annotations of objects for the operator that have no effect."""
    for chart in stack.addons:
        for document in chart.documents:
            annotation, why = ineffective_annotation(document.manifest)
            if annotation:
                path = chart.place(document.path)
                line = line_of_text(stack.content(path), annotation, f"kind: {document.manifest['kind']}")
                problem = f"{object_id(document.manifest)}: the annotation {annotation} has no effect: {why}"
                yield LintProblem(path, line, problem, "correct the annotation, or remove it")


def _ending(stack: LintedStack) -> Iterator[tuple[LintedChart, RenderedDocument, RemovedApi]]:
    facts = removed_apis()
    for chart in stack.charts:
        for document in chart.documents:
            fact = facts.get((document.manifest["apiVersion"], document.manifest["kind"]))
            if fact is not None:
                yield chart, document, fact


def _ended(stack: LintedStack, chart: LintedChart, document: RenderedDocument, fact: RemovedApi) -> LintProblem:
    manifest = document.manifest
    what = f"{manifest['kind']} {manifest['metadata']['name']} of {manifest['apiVersion']}"
    remedy = f"change it to {fact.replacement}" if fact.replacement else "remove it: there is no replacement"
    return LintProblem(
        *_place(stack, chart, document),
        f"{what}: Kubernetes {fact.removed_in} no longer serves it ({fact.source})",
        remedy,
    )


def _identified(charts: Iterable[LintedChart]) -> list[tuple[ObjectId, LintedChart, RenderedDocument]]:
    return [(_identity(chart, document), chart, document) for chart in charts for document in chart.documents]


def _identity(chart: LintedChart, document: RenderedDocument) -> ObjectId:
    """Return the identity of an object; the default namespace of addons counts as no namespace."""
    identity = object_id(document.manifest)
    if chart.addon and identity.namespace == ADDON_NAMESPACE:
        return ObjectId(identity.group, identity.kind, "", identity.name)
    return identity


def _by_identity(identified: tuple[ObjectId, LintedChart, RenderedDocument]) -> ObjectId:
    return identified[0]


def _place(stack: LintedStack, chart: LintedChart, document: RenderedDocument) -> tuple[str, int]:
    path = chart.place(document.path)
    name, kind = document.manifest["metadata"]["name"], document.manifest["kind"]
    return path, line_of_text(stack.content(path), f"name: {name}", f"kind: {kind}")


RULES = (
    LintRule(
        "repeated-object", LintSeverity.ERROR, "No object is rendered twice, by one chart or by two charts.", repeated
    ),
    LintRule(
        "repeated-item",
        LintSeverity.ERROR,
        "No list has two items with one key, such as the name of an environment variable or a port.",
        repeated_items,
    ),
    LintRule(
        "random-value",
        LintSeverity.ERROR,
        "No object has random values, such as passwords and certificates, which each upgrade would change.",
        random,
    ),
    LintRule(
        "namespace",
        LintSeverity.WARNING,
        "Every namespace of addon objects is rendered by an addon or exists in a new cluster.",
        namespaces,
    ),
    LintRule(
        "removed-api",
        LintSeverity.ERROR,
        "The Kubernetes version of the stack serves every API version in use.",
        removed,
    ),
    LintRule(
        "leaving-api", LintSeverity.WARNING, "The next Kubernetes minor still serves every API version in use.", leaving
    ),
    LintRule(
        "object-policy",
        LintSeverity.WARNING,
        "Every annotation of an object for the operator (`prune`, `recreate`, `health`) has an effect.",
        object_policies,
    ),
    LintRule("image-digest", LintSeverity.WARNING, "Every container image has a digest.", mutable_images),
)
