"""Converts the output of Helm's engine into the objects of ``helm template``, in its order.

The engine returns one text per template file without checks. This module adds the steps of the command line: it leaves
out notes and partials, parses the YAML, puts hooks last and sorts by kind. Unlike the command line, it leaves out the
hooks of deletion, rollback and test.
"""

from __future__ import annotations

import re
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Final

from clusterstacks.deliver.render.errors import RenderFailed, kind_of
from clusterstacks.deliver.render.protocol import HelmHook, RenderedDocument, Repetition
from clusterstacks.model import yaml
from clusterstacks.release.charts.helm_hooks import HOOK_ANNOTATION, HookUse, use_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from clusterstacks.model.objects import Manifest

MAX_RENDERED: Final = 32 * 1024 * 1024
"""Maximum output of a chart in characters (arbitrary: Cilium renders to 64 thousand, a CRD bundle to 2 million)."""

MAX_OBJECTS: Final = 5000
"""Maximum number of objects of a chart (arbitrary: 25 times the largest addon measured)."""

INSTALL_ORDER: Final = (
    "PriorityClass",
    "Namespace",
    "NetworkPolicy",
    "ResourceQuota",
    "LimitRange",
    "PodSecurityPolicy",
    "PodDisruptionBudget",
    "ServiceAccount",
    "Secret",
    "SecretList",
    "ConfigMap",
    "StorageClass",
    "PersistentVolume",
    "PersistentVolumeClaim",
    "CustomResourceDefinition",
    "ClusterRole",
    "ClusterRoleList",
    "ClusterRoleBinding",
    "ClusterRoleBindingList",
    "Role",
    "RoleList",
    "RoleBinding",
    "RoleBindingList",
    "Service",
    "DaemonSet",
    "Pod",
    "ReplicationController",
    "ReplicaSet",
    "Deployment",
    "HorizontalPodAutoscaler",
    "StatefulSet",
    "Job",
    "CronJob",
    "IngressClass",
    "Ingress",
    "APIService",
    "MutatingWebhookConfiguration",
    "ValidatingWebhookConfiguration",
)
"""The installation order of Helm 4; other kinds follow by name."""

_SEPARATOR: Final = re.compile(r"(?:\A\s*|^)---\s*|\A\s+", re.MULTILINE)
"""What Helm takes away between two documents, and before the first one. Source: SplitManifests, pkg/release/v1/util."""

_RANK: Final = {kind: rank for rank, kind in enumerate(INSTALL_ORDER)}


def manifests(rendered: Mapping[str, str], crds: Iterable[tuple[str, str]] = ()) -> list[Manifest]:
    """Return the objects of a render in the order of ``helm template``; see :func:`documents`."""
    return [document.manifest for document in documents(rendered, crds)]


def documents(rendered: Mapping[str, str], crds: Iterable[tuple[str, str]] = ()) -> list[RenderedDocument]:
    """Return the objects of a render with their files, in the order of ``helm template``.

    Hooks that a delivery does not apply are left out. The files of ``crds/`` directories, in the order of Helm, come
    first.

    Raises:
        RenderFailed: The output is not valid YAML, not an object, or has no apiVersion, kind or name; names file and
            line.
    """
    if sum(map(len, rendered.values())) > MAX_RENDERED:
        raise RenderFailed(f"renders to more than the limit of {MAX_RENDERED} characters")
    first = [document for path, text in crds for document in _documents(path, path, text)]
    main, applied = [], []
    for path in sorted(filter(_is_output, rendered)):
        for document in _documents(path, f"{path} (rendered)", rendered[path]):
            hook = _hook(document.manifest)
            if hook is None:
                main.append(document)
            elif use_of(hook) is HookUse.APPLIED:
                applied.append(document)
    ordered = [*first, *sorted(main, key=_order), *sorted(applied, key=_order)]
    objects = [single for document in ordered for single in flattened(document)]
    if len(objects) > MAX_OBJECTS:
        raise RenderFailed(f"renders to {len(objects)} objects, more than the limit of {MAX_OBJECTS}")
    return objects


def repetitions(rendered: Mapping[str, str]) -> list[Repetition]:
    """Return the files whose output repeats a key; expects input that :func:`documents` accepted."""
    repeated = []
    for path in sorted(filter(_is_output, rendered)):
        try:
            yaml.load_all(_separated(rendered[path]), name=path)
        except yaml.YamlError as error:
            repeated.append(Repetition(path, error.problem))
    return repeated


def hooks(rendered: Mapping[str, str]) -> list[HelmHook]:
    """Return the objects that are Helm hooks, also those left out; expects input that :func:`documents` accepted."""
    helm_hooks = []
    for path in sorted(filter(_is_output, rendered)):
        for document in _documents(path, path, rendered[path]):
            hook = _hook(document.manifest)
            if hook is not None:
                kind, name = (_shown(value) for value in (document.manifest.get("kind"), _name(document.manifest)))
                helm_hooks.append(HelmHook(path, kind, name, str(hook), use_of(hook).value))
    return helm_hooks


def _is_output(path: str) -> bool:
    name = PurePosixPath(path).name
    return not name.startswith("_") and not name.endswith("NOTES.txt")


def _documents(path: str, label: str, text: str) -> Iterator[RenderedDocument]:
    try:
        loaded = yaml.load_all(_separated(text), name=label, unique_keys=False)
    except yaml.YamlError as error:
        raise RenderFailed(yaml.YamlError(label, error.problem, _rendered_line(text, error.line)).message) from None
    for number, document in enumerate(loaded, start=1):
        if document is None:
            continue
        source = f"{label}, document {number}"
        if not isinstance(document, dict):
            raise RenderFailed(f"{source}: is {kind_of(document)} instead of an object")
        yield RenderedDocument(document, path, source)


def _separated(text: str) -> str:
    """Return a rendered text in which every separator of Helm has a line of its own, as YAML demands.

    For Helm, each ``---`` at the beginning of a line ends a document, and what follows on the line belongs to the next
    one: ``---`` before ``{{- if .Values.x -}}`` renders to ``---apiVersion: v1``. The first word of a document may be
    indented. Helm ends the last line with a line break, which belongs to a block scalar.
    """
    return _SEPARATOR.sub(_own_line, text if text.endswith("\n") else f"{text}\n")


def _own_line(separator: re.Match[str]) -> str:
    lines = "\n" * separator[0].count("\n")
    return "---" + (lines or "\n") if "---" in separator[0] else lines


def _rendered_line(text: str, line: int) -> int:
    """Return the line of a rendered text that is a line of its separated form: some separators got one more."""
    added, current, position = 0, 1, 0
    for separator in _SEPARATOR.finditer(text):
        current += text.count("\n", position, separator.start())
        position = separator.start()
        if current + added >= line:
            break
        added += "\n" not in separator[0] and "---" in separator[0]
    return line - added


def _hook(manifest: Manifest) -> object:
    """Return the value of the hook annotation; None for an object that is not a hook."""
    metadata = manifest.get("metadata")
    annotations = metadata.get("annotations") if isinstance(metadata, dict) else None
    return annotations.get(HOOK_ANNOTATION) if isinstance(annotations, dict) else None


def _name(manifest: Manifest) -> object:
    metadata = manifest.get("metadata")
    return metadata.get("name") if isinstance(metadata, dict) else None


def _shown(value: object) -> str:
    return value if isinstance(value, str) else "?"


def _order(document: RenderedDocument) -> tuple[int, str]:
    kind = document.manifest.get("kind")
    rank = _RANK.get(kind) if isinstance(kind, str) else None
    return (len(_RANK), str(kind)) if rank is None else (rank, "")


def flattened(document: RenderedDocument) -> Iterator[RenderedDocument]:
    """Replace a list by its items, as ``kubectl apply`` does; items of a typed list may omit their kind."""
    manifest, path, source = document
    kind, items = manifest.get("kind"), manifest.get("items")
    if not (isinstance(kind, str) and kind.endswith("List") and isinstance(items, list)):
        _check(manifest, source)
        yield document
        return
    implied = {} if kind == "List" else {"apiVersion": manifest.get("apiVersion"), "kind": kind.removesuffix("List")}
    for number, item in enumerate(items, start=1):
        place = f"{source}, item {number}"
        if not isinstance(item, dict):
            raise RenderFailed(f"{place}: is {kind_of(item)} instead of an object")
        yield from flattened(RenderedDocument({**implied, **item}, path, place))


def _check(manifest: Manifest, source: str) -> None:
    metadata = manifest.get("metadata")
    name = metadata.get("name") if isinstance(metadata, dict) else None
    if not name and isinstance(metadata, dict) and metadata.get("generateName"):
        raise RenderFailed(
            f"{source}: metadata.generateName is not supported, because each delivery would create a new object: "
            "write metadata.name"
        )
    for field, value in (
        ("apiVersion", manifest.get("apiVersion")),
        ("kind", manifest.get("kind")),
        ("metadata.name", _name(manifest)),
    ):
        if not isinstance(value, str) or not value:
            raise RenderFailed(f"{source}: has no {field}, which every Kubernetes object needs as a string")
