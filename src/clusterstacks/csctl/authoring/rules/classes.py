"""Rules for the ClusterClass and its templates."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from clusterstacks.csctl.authoring.example_objects import NAMESPACE
from clusterstacks.csctl.authoring.findings import LintProblem, LintRule, LintSeverity, line_of_text
from clusterstacks.csctl.authoring.read_compat import stack_compatibility
from clusterstacks.csctl.authoring.template_syntax import escaped, foreign_values
from clusterstacks.deliver.apply.class_object_rules import GroupKind, check_class_objects
from clusterstacks.deliver.apply.orc_images import DOWNLOAD, image_name, is_image
from clusterstacks.model.documents import at, mapping, mappings, shown, text
from clusterstacks.model.errors import SpecError
from clusterstacks.model.kinds.clusterapi import class_versions
from clusterstacks.model.kinds.names import CLUSTER_API_GROUP, CLUSTER_CLASS_KIND
from clusterstacks.model.objects import object_id, split_api_version

if TYPE_CHECKING:
    from collections.abc import Iterator

    from clusterstacks.csctl.authoring.stack import LintedStack
    from clusterstacks.deliver.render.protocol import RenderedDocument
    from clusterstacks.model.objects import Manifest

LOCAL_GROUP = "local.clusterstack.x-k8s.io"
"""API group of the local environment's kinds; ``csctl dev`` starts the operator with them in ``--class-kinds``."""

LISTED = "kubernetesVersions"
"""Field of a ClusterClass with the versions that Cluster API walks in one upgrade."""

BUILTIN = "builtin"
"""Prefix of the variables that Cluster API defines itself."""


def kinds(stack: LintedStack) -> Iterator[LintProblem]:
    """Report objects of the class chart that are neither templates nor of a kind that the operator accepts."""
    for document in _documents(stack):
        identity = object_id(document.manifest)
        template = identity.kind.endswith("Template") and bool(identity.group)
        extra = [GroupKind(identity.group, identity.kind)] if template else []
        try:
            check_class_objects([document.manifest], namespace=NAMESPACE, extra_kinds=extra)
        except SpecError as error:
            problem, _, remedy = error.message.partition(": ")
            yield _problem(stack, document, problem, remedy)


def extra_kinds(stack: LintedStack) -> Iterator[LintProblem]:
    """Report templates of an API group that the operator accepts only with ``--class-kinds``."""
    for document in _documents(stack):
        identity = object_id(document.manifest)
        if not identity.group or identity.group == LOCAL_GROUP or not identity.kind.endswith("Template"):
            continue
        try:
            check_class_objects([document.manifest], namespace=NAMESPACE)
        except SpecError:
            kind = f"{identity.kind}.{identity.group}"
            problem = f"{identity} is of a kind that the operator accepts only with --class-kinds"
            yield _problem(stack, document, problem, f"document that the operator needs --class-kinds {kind}")


def class_name(stack: LintedStack) -> Iterator[LintProblem]:
    """Report a class chart that renders no ClusterClass with the name of the release."""
    chart = stack.class_chart
    if chart is None or stack.name is None or not chart.rendered:
        return
    classes = _classes(stack)
    names = [document.manifest["metadata"]["name"] for document in classes]
    if stack.name.class_name in names:
        return
    remedy = "write name: {{ .Release.Name }}-{{ .Chart.Version }}"
    if not classes:
        yield LintProblem(
            chart.chart_file, 1, "the chart renders no ClusterClass", f"add one with {remedy.removeprefix('write ')}"
        )
        return
    problem = f"the ClusterClass of version {stack.version} has the name {names[0]}, not {stack.name.class_name}"
    yield _problem(stack, classes[0], problem, remedy)


def references(stack: LintedStack) -> Iterator[LintProblem]:
    """Report templates that the ClusterClass references, but that the chart does not render."""
    rendered = {(_group(document.manifest), *_kind_and_name(document.manifest)) for document in _documents(stack)}
    for document in _classes(stack):
        for role, reference in _references(document.manifest):
            wanted = (_group(reference), *_kind_and_name(reference))
            if wanted not in rendered:
                group, kind, name = wanted
                problem = f"{role} references {kind} {name} of group {group!r}, which the chart does not render"
                yield _problem(stack, document, problem, "correct kind, group and name, or add the template", name)


def patch_targets(stack: LintedStack) -> Iterator[LintProblem]:
    """Report patches of templates that the class does not reference; Cluster API rejects such a class."""
    for document in _classes(stack):
        named = {(_group(reference), text(reference, "kind")) for _, reference in _references(document.manifest)}
        for patch in mappings(document.manifest, "spec", "patches"):
            for definition in mappings(patch, "definitions"):
                selector = mapping(definition, "selector")
                target = (_group(selector), text(selector, "kind"))
                if target not in named:
                    name = text(patch, "name")
                    problem = (
                        f"patch {name} selects {target[1]} of group {target[0]!r}, which the class does not reference"
                    )
                    remedy = "correct apiVersion and kind of the selector"
                    yield _problem(stack, document, problem, remedy, f"kind: {target[1]}")


def patch_variables(stack: LintedStack) -> Iterator[LintProblem]:
    """Report variables that a patch reads, but that the class does not define."""
    for document in _classes(stack):
        known = {text(variable, "name") for variable in mappings(document.manifest, "spec", "variables")} | {BUILTIN}
        for patch in mappings(document.manifest, "spec", "patches"):
            for variable in _read_variables(patch):
                if variable.replace("[", ".").partition(".")[0] not in known:
                    name = text(patch, "name")
                    problem = f"patch {name} reads variable {variable}, which the class does not define"
                    yield _problem(
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
        for worker_class in mappings(spec, "workers", workers):
            place = f"worker class {text(worker_class, 'class')}"
            # v1beta1 has both below template, v1beta2 beside class.
            for holder in (worker_class, mapping(worker_class, "template")):
                yield from _reference(f"{place}, bootstrap", mapping(holder, "bootstrap"))
                yield from _reference(f"{place}, infrastructure", mapping(holder, "infrastructure"))


def _reference(place: str, holder: Manifest) -> Iterator[tuple[str, Manifest]]:
    reference = mapping(holder, "templateRef") or mapping(holder, "ref")
    if reference:
        yield place, reference


def fixed_versions(stack: LintedStack) -> Iterator[LintProblem]:
    """Report values, such as node images, that are fixed to one version in a class for several Kubernetes versions."""
    if stack.settings is None or not _is_ranged(stack):
        return
    version = stack.settings.kubernetes.text.removeprefix("v")
    for document in _documents(stack):
        for named in _texts(document.manifest.get("spec")):
            if version in named:
                problem = f"{shown(named)} is fixed to {version}, but clusters of the class may run other versions"
                remedy = (
                    "set it in a patch that uses builtin.controlPlane.version and builtin.machineDeployment.version"
                )
                yield _problem(stack, document, problem, remedy, version)
                break


def passed_versions(stack: LintedStack) -> Iterator[LintProblem]:
    """Report versions that a class lists for upgrades over several minors, and that its own addons do not work with."""
    stated = stack_compatibility(stack) if _is_ranged(stack) else None
    for document in _classes(stack):
        listed = class_versions(document.manifest)
        made_for = stack.settings.kubernetes if stack.settings is not None else None
        if listed and made_for is not None and made_for not in listed:
            problem = f"spec.kubernetesVersions does not have {made_for}, for which the release is made"
            yield _problem(stack, document, problem, "add it: Cluster API accepts the listed versions only", LISTED)
        for component in stated.components if stated is not None else ():
            missing = [one.text for one in listed if component.kubernetes and not component.kubernetes.contains(one)]
            if component.addon and missing:
                problem = (
                    f"spec.kubernetesVersions has {', '.join(missing)}, but cluster addon {component.addon}: "
                    f"{component.name} {component.text} works with Kubernetes {component.kubernetes}"
                )
                remedy = (
                    "remove these versions, or use an addon that works with all: Cluster API walks them in one "
                    "upgrade, and stages run once, before the first and after the last minor"
                )
                yield _problem(stack, document, problem, remedy, LISTED)


def _is_ranged(stack: LintedStack) -> bool:
    try:
        return stack_compatibility(stack) is not None
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
    return [
        document for document in _documents(stack) if (_group(document.manifest), document.manifest["kind"]) == wanted
    ]


def _kind_and_name(manifest: Manifest) -> tuple[str, str]:
    return text(manifest, "kind"), text(manifest, "name") or text(manifest, "metadata", "name")


def _group(manifest: Manifest) -> str:
    return split_api_version(text(manifest, "apiVersion"))[0]


def _problem(stack: LintedStack, document: RenderedDocument, problem: str, remedy: str, *needles: str) -> LintProblem:
    chart = stack.class_chart
    path = chart.place(document.path) if chart else document.path
    kind, name = document.manifest["kind"], at(document.manifest, "metadata", "name")
    return LintProblem(
        path, line_of_text(stack.content(path), *needles, f"name: {name}", f"kind: {kind}"), problem, remedy
    )


def cluster_api_templates(stack: LintedStack) -> Iterator[LintProblem]:
    """Report templates of Cluster API that Helm evaluates, because they are not escaped; they become constants."""
    chart = stack.class_chart
    for path, content in sorted(chart.files.items()) if chart else ():
        if chart and path.startswith("templates/") and path.endswith((".yaml", ".yml")):
            for line, value in foreign_values(content.decode(errors="replace")):
                problem = f"{{{{ {value} }}}} is evaluated by Helm, which has no such value, and not by Cluster API"
                yield LintProblem(f"{chart.directory}/{path}", line, problem, escaped(value))


HASH_DIGITS: Final = {"md5": 32, "sha1": 40, "sha256": 64, "sha512": 128}
"""Hexadecimal digits of each hash. Source: openstack-resource-controller, api/v1alpha1/image_types.go."""


def image_hashes(stack: LintedStack) -> Iterator[LintProblem]:
    """Report node images whose download nothing verifies: ORC uploads even the error page of a server."""
    for document in _images(stack):
        name, download = _kind_and_name(document.manifest)[1], mapping(document.manifest, *DOWNLOAD)
        if not download:
            continue
        url, expected = text(download, "url"), mapping(download, "hash")
        algorithm, value = text(expected, "algorithm"), text(expected, "value")
        if not value:
            problem = f"Image {name} has no hash: nothing verifies what is downloaded from {shown(url)}"
            remedy = (
                "write the checksum that its publisher states, or the sha256sum of a copy that you trust, as "
                f"{'.'.join(DOWNLOAD)}.hash"
            )
            yield _problem(stack, document, problem, remedy, url)
        elif len(value) != HASH_DIGITS.get(algorithm):
            wanted = HASH_DIGITS.get(algorithm)
            right = f"{algorithm} has {wanted} digits" if wanted else f"the algorithms are {', '.join(HASH_DIGITS)}"
            problem = (
                f"Image {name}: {shown(value)} of {len(value)} digits is not a hash of algorithm {shown(algorithm)}"
            )
            yield _problem(stack, document, problem, f"correct it: {right}", value)


def image_names(stack: LintedStack) -> Iterator[LintProblem]:
    """Report node images with one name in the cloud, between which a machine template cannot choose."""
    first: dict[str, str] = {}
    for document in _images(stack):
        name = _kind_and_name(document.manifest)[1]
        shared = image_name(document.manifest)
        other = first.setdefault(shared, name)
        if other != name and mapping(document.manifest, "spec", "resource"):
            problem = f"Image {name} has the name {shared} in the cloud, as Image {other}"
            yield _problem(stack, document, problem, "give one of them another spec.resource.name", shared)


def _images(stack: LintedStack) -> Iterator[RenderedDocument]:
    for document in _documents(stack):
        if is_image(document.manifest):
            yield document


def refused_by_server(stack: LintedStack) -> Iterator[LintProblem]:
    """Report objects of the class that the management cluster rejects."""
    chart = stack.class_chart
    for refusal in stack.refusals if chart else ():
        path = chart.place(refusal.path) if chart else refusal.path
        line = line_of_text(stack.content(path), f"name: {refusal.name}", f"kind: {refusal.kind}")
        problem = f"the management cluster rejects {refusal.kind} {refusal.name}: {refusal.problem}"
        yield LintProblem(path, line, problem, refusal.remedy)


RULES = (
    LintRule(
        "class-kind",
        LintSeverity.ERROR,
        "The class chart renders a ClusterClass, templates and image objects only.",
        kinds,
    ),
    LintRule(
        "class-extra-kind",
        LintSeverity.WARNING,
        "Templates belong to the API groups of Cluster API providers.",
        extra_kinds,
    ),
    LintRule("class-name", LintSeverity.ERROR, "The ClusterClass has the name of the release.", class_name),
    LintRule(
        "class-reference",
        LintSeverity.ERROR,
        "The chart renders every template that the ClusterClass references.",
        references,
    ),
    LintRule(
        "patch-target",
        LintSeverity.ERROR,
        "Every patch selects a template that the ClusterClass references.",
        patch_targets,
    ),
    LintRule("patch-variable", LintSeverity.ERROR, "Every variable that a patch reads is defined.", patch_variables),
    LintRule(
        "class-template",
        LintSeverity.ERROR,
        "Templates of Cluster API in the class chart are escaped for Helm.",
        cluster_api_templates,
    ),
    LintRule("image-hash", LintSeverity.ERROR, "Every Image that is downloaded has a hash.", image_hashes),
    LintRule("image-name", LintSeverity.ERROR, "No two Images have one name in the cloud.", image_names),
    LintRule(
        "fixed-version",
        LintSeverity.WARNING,
        "A class for several Kubernetes versions contains no value, such as a node image, that is fixed to one.",
        fixed_versions,
    ),
    LintRule(
        "passed-version",
        LintSeverity.WARNING,
        "Every addon works with every version in kubernetesVersions of the class.",
        passed_versions,
    ),
)

SERVER_RULE = LintRule(
    "server",
    LintSeverity.ERROR,
    "The management cluster accepts the objects of the class (only with --against).",
    refused_by_server,
)
