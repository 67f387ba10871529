"""The ClusterClass and its templates, as Cluster API and the operator want them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from clusterstacks.api.names import CLUSTER_API_GROUP, CLUSTER_CLASS_KIND
from clusterstacks.api.untyped import at, mapping, mappings, text
from clusterstacks.apply.class_object_rules import GroupKind, check_class_objects
from clusterstacks.authoring.example_objects import NAMESPACE
from clusterstacks.authoring.findings import Fault, LintRule, LintSeverity
from clusterstacks.authoring.positions import line_of_text
from clusterstacks.authoring.read_compat import stated_in
from clusterstacks.domain.documents import shown
from clusterstacks.domain.errors import SpecError
from clusterstacks.domain.objects import object_id, split_api_version

if TYPE_CHECKING:
    from collections.abc import Iterator

    from clusterstacks.authoring.stack import LintedStack
    from clusterstacks.domain.objects import Manifest
    from clusterstacks.render.examination import RenderedDocument

LOCAL_GROUP = "local.clusterstack.x-k8s.io"
"""Kinds of the local environment, whose operator is started with them as ``--class-kinds``."""

BUILTIN = "builtin"
"""Variables that Cluster API itself defines."""


def kinds(stack: LintedStack) -> Iterator[Fault]:
    """The class chart holds nothing but what an operator takes without being told to."""
    for document in _documents(stack):
        identity = object_id(document.manifest)
        template = identity.kind.endswith("Template") and bool(identity.group)
        extra = [GroupKind(identity.group, identity.kind)] if template else []
        try:
            check_class_objects([document.manifest], namespace=NAMESPACE, extra_kinds=extra)
        except SpecError as error:
            problem, _, way_out = error.message.partition(": ")
            yield _fault(stack, document, problem, way_out)


def extra_kinds(stack: LintedStack) -> Iterator[Fault]:
    """Templates of other groups need a word to the operator."""
    for document in _documents(stack):
        identity = object_id(document.manifest)
        if not identity.group or identity.group == LOCAL_GROUP or not identity.kind.endswith("Template"):
            continue
        try:
            check_class_objects([document.manifest], namespace=NAMESPACE)
        except SpecError:
            kind = f"{identity.kind}.{identity.group}"
            problem = f"{identity} is of a kind that operators do not take without being told"
            yield _fault(stack, document, problem, f"tell providers to start theirs with --class-kinds {kind}")


def class_name(stack: LintedStack) -> Iterator[Fault]:
    """The chart brings the ClusterClass that is called like the release."""
    chart = stack.class_chart
    if chart is None or stack.name is None or not chart.rendered:
        return
    classes = _classes(stack)
    names = [one.manifest["metadata"]["name"] for one in classes]
    if stack.name.class_name in names:
        return
    way_out = "write name: {{ .Release.Name }}-{{ .Chart.Version }}"
    if not classes:
        yield Fault(
            chart.chart_file, 1, "the chart renders no ClusterClass", f"add one, with {way_out.removeprefix('write ')}"
        )
        return
    problem = f"the ClusterClass of version {stack.version} is called {names[0]}, not {stack.name.class_name}"
    yield _fault(stack, classes[0], problem, way_out)


def references(stack: LintedStack) -> Iterator[Fault]:
    """Every template a ClusterClass names is in the chart."""
    there = {(_group(one.manifest), *_kind_and_name(one.manifest)) for one in _documents(stack)}
    for document in _classes(stack):
        for role, reference in _references(document.manifest):
            wanted = (_group(reference), *_kind_and_name(reference))
            if wanted not in there:
                group, kind, name = wanted
                problem = f"{role} names {kind} {name} of group {group!r}, which the chart does not render"
                yield _fault(stack, document, problem, "correct kind, group and name, or add the template", name)


def patch_targets(stack: LintedStack) -> Iterator[Fault]:
    """Every patch selects a template the class names; Cluster API refuses a class with others."""
    for document in _classes(stack):
        named = {(_group(one), text(one, "kind")) for _, one in _references(document.manifest)}
        for patch in mappings(document.manifest, "spec", "patches"):
            for definition in mappings(patch, "definitions"):
                selector = mapping(definition, "selector")
                target = (_group(selector), text(selector, "kind"))
                if target not in named:
                    name = text(patch, "name")
                    problem = f"patch {name} selects {target[1]} of group {target[0]!r}, which the class does not name"
                    way_out = "correct the selector's apiVersion and kind"
                    yield _fault(stack, document, problem, way_out, f"kind: {target[1]}")


def patch_variables(stack: LintedStack) -> Iterator[Fault]:
    """Every variable that a patch reads is defined."""
    for document in _classes(stack):
        known = {text(one, "name") for one in mappings(document.manifest, "spec", "variables")} | {BUILTIN}
        for patch in mappings(document.manifest, "spec", "patches"):
            for variable in _read_variables(patch):
                if variable.replace("[", ".").partition(".")[0] not in known:
                    name = text(patch, "name")
                    problem = f"patch {name} reads variable {variable}, which the class does not define"
                    yield _fault(
                        stack, document, problem, "define it under spec.variables, or correct its name", variable
                    )


def _read_variables(patch: Manifest) -> Iterator[str]:
    for definition in mappings(patch, "definitions"):
        for change in mappings(definition, "jsonPatches"):
            if variable := text(change, "valueFrom", "variable"):
                yield variable


def _references(cluster_class: Manifest) -> Iterator[tuple[str, Manifest]]:
    spec = mapping(cluster_class, "spec")
    control_plane = mapping(spec, "controlPlane")
    yield from _reference("spec.infrastructure", mapping(spec, "infrastructure"))
    yield from _reference("spec.controlPlane", control_plane)
    yield from _reference("spec.controlPlane.machineInfrastructure", mapping(control_plane, "machineInfrastructure"))
    for workers in ("machineDeployments", "machinePools"):
        for one in mappings(spec, "workers", workers):
            place = f"worker class {text(one, 'class')}"
            # v1beta1 has both below template, v1beta2 beside class.
            for holder in (one, mapping(one, "template")):
                yield from _reference(f"{place}, bootstrap", mapping(holder, "bootstrap"))
                yield from _reference(f"{place}, infrastructure", mapping(holder, "infrastructure"))


def _reference(place: str, holder: Manifest) -> Iterator[tuple[str, Manifest]]:
    reference = mapping(holder, "templateRef") or mapping(holder, "ref")
    if reference:
        yield place, reference


def fixed_versions(stack: LintedStack) -> Iterator[Fault]:
    """A class for a range of Kubernetes versions chooses what belongs to one, as node images do, by the cluster's."""
    if stack.settings is None or not _is_ranged(stack):
        return
    version = stack.settings.kubernetes.text.removeprefix("v")
    for document in _documents(stack):
        for named in _texts(document.manifest.get("spec")):
            if version in named:
                problem = f"{shown(named)} is fixed to {version}, and clusters of the class may run other versions"
                way_out = "choose it in a patch by builtin.controlPlane.version and builtin.machineDeployment.version"
                yield _fault(stack, document, problem, way_out, version)
                break


def _is_ranged(stack: LintedStack) -> bool:
    try:
        return stated_in(stack) is not None
    except SpecError:
        return False


def _texts(value: object) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for inner in value.values():
            yield from _texts(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from _texts(inner)


def _documents(stack: LintedStack) -> tuple[RenderedDocument, ...]:
    chart = stack.class_chart
    return chart.documents if chart else ()


def _classes(stack: LintedStack) -> list[RenderedDocument]:
    wanted = (CLUSTER_API_GROUP, CLUSTER_CLASS_KIND)
    return [one for one in _documents(stack) if (_group(one.manifest), one.manifest["kind"]) == wanted]


def _kind_and_name(manifest: Manifest) -> tuple[str, str]:
    return text(manifest, "kind"), text(manifest, "name") or text(manifest, "metadata", "name")


def _group(manifest: Manifest) -> str:
    return split_api_version(text(manifest, "apiVersion"))[0]


def _fault(stack: LintedStack, document: RenderedDocument, problem: str, way_out: str, *needles: str) -> Fault:
    chart = stack.class_chart
    path = chart.place(document.path) if chart else document.path
    kind, name = document.manifest["kind"], at(document.manifest, "metadata", "name")
    return Fault(path, line_of_text(stack.content(path), *needles, f"name: {name}", f"kind: {kind}"), problem, way_out)


RULES = (
    LintRule(
        "class-kind",
        LintSeverity.ERROR,
        "The class's chart holds a ClusterClass, templates and images, nothing else.",
        kinds,
    ),
    LintRule("class-extra-kind", LintSeverity.WARNING, "Templates are of Cluster API's provider groups.", extra_kinds),
    LintRule("class-name", LintSeverity.ERROR, "The ClusterClass is called like the release.", class_name),
    LintRule("class-reference", LintSeverity.ERROR, "Every template a ClusterClass names is in the chart.", references),
    LintRule(
        "patch-target", LintSeverity.ERROR, "Every patch selects a template the ClusterClass names.", patch_targets
    ),
    LintRule("patch-variable", LintSeverity.ERROR, "Every variable a patch reads is defined.", patch_variables),
    LintRule(
        "fixed-version",
        LintSeverity.WARNING,
        "A class for several Kubernetes versions has nothing, like a node image, that is fixed to one.",
        fixed_versions,
    ),
)
