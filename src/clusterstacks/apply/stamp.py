"""What we change in a rendered manifest before it is sent: our labels, its namespace, nothing else."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from clusterstacks.apply.ownership import OWNED_LABEL, OWNED_VALUE, PART_OF_LABEL
from clusterstacks.domain.errors import SpecError
from clusterstacks.domain.objects import Manifest, split_api_version

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

_SERVERS_FIELDS: Final = frozenset(
    {"creationTimestamp", "deletionTimestamp", "generation", "managedFields", "resourceVersion", "selfLink", "uid"}
)
"""Metadata that only the server sets; some turn a server-side apply into an error or a precondition."""

_POD_TEMPLATES: Final[dict[tuple[str, str], tuple[str, ...]]] = {
    ("apps", "DaemonSet"): ("spec", "template"),
    ("apps", "Deployment"): ("spec", "template"),
    ("apps", "ReplicaSet"): ("spec", "template"),
    ("apps", "StatefulSet"): ("spec", "template"),
    ("batch", "Job"): ("spec", "template"),
    ("batch", "CronJob"): ("spec", "jobTemplate", "spec", "template"),
}


def documents(manifests: Iterable[Manifest]) -> Iterator[Manifest]:
    """Give the objects one by one; a ``List`` stands for its items, as kubectl reads it.

    Raises:
        SpecError: One of them cannot be told from others: no apiVersion, kind or metadata.name.
    """
    for number, manifest in enumerate(manifests, start=1):
        if fault := _fault(manifest):
            raise SpecError("InvalidManifest", f"object {number} of the rendered chart {fault}; correct its template")
        if _is_list(manifest):
            yield from documents(manifest["items"])
        else:
            yield manifest


def stamped(manifest: Manifest, *, namespace: str, part_of: str = "") -> Manifest:
    """Return the manifest as we send it; the original stays as it is.

    Args:
        manifest: As ``documents`` gives it.
        namespace: The object's namespace; empty for cluster-wide kinds, where a written one is dropped (D18).
        part_of: Id of the ApplySet the object is a member of, or empty. It stands in the object's own metadata only:
            in a pod template its change would roll the workload.
    """
    metadata = {key: value for key, value in manifest["metadata"].items() if key not in _SERVERS_FIELDS}
    metadata.pop("namespace", None)
    if namespace:
        metadata["namespace"] = namespace
    labels = {**(metadata.get("labels") or {}), OWNED_LABEL: OWNED_VALUE}
    labels.pop(PART_OF_LABEL, None)
    if part_of:
        labels[PART_OF_LABEL] = part_of
    result = {**manifest, "metadata": {**metadata, "labels": labels}}
    group, _ = split_api_version(manifest["apiVersion"])
    if path := _POD_TEMPLATES.get((group, manifest["kind"])):
        return _with_pod_label(result, path)
    return result


def sent_texts(manifest: Manifest) -> tuple[Mapping[str, Any], Mapping[str, Any]]:
    """Return labels and annotations of a manifest as sent."""
    metadata = manifest["metadata"]
    return metadata.get("labels") or {}, metadata.get("annotations") or {}


def _with_pod_label(node: Manifest, path: tuple[str, ...]) -> Manifest:
    """Label the pod template below ``path``; a workload without one is left for the server to refuse."""
    if path:
        below = node.get(path[0])
        return {**node, path[0]: _with_pod_label(below, path[1:])} if isinstance(below, dict) else node
    metadata = node.get("metadata") or {}
    labels = {**(metadata.get("labels") or {}), OWNED_LABEL: OWNED_VALUE}
    return {**node, "metadata": {**metadata, "labels": labels}}


def _is_list(manifest: Mapping[str, Any]) -> bool:
    return manifest.get("kind") == "List" and isinstance(manifest.get("items"), list)


def _fault(manifest: Any) -> str:  # noqa: ANN401  # whatever the chart wrote
    if not isinstance(manifest, dict):
        return "is no mapping"
    for field in ("apiVersion", "kind"):
        if not isinstance(manifest.get(field), str) or not manifest[field]:
            return f"has no {field}"
    if _is_list(manifest):
        return ""
    fault = _metadata_fault(manifest.get("metadata"))
    return f"({manifest['kind']}) {fault}" if fault else ""


def _metadata_fault(metadata: Any) -> str:  # noqa: ANN401  # whatever the chart wrote
    if not isinstance(metadata, dict) or not isinstance(metadata.get("name"), str) or not metadata["name"]:
        return "has no metadata.name (generateName gives an object nobody can update)"
    if not isinstance(metadata.get("namespace") or "", str):
        return f"named {metadata['name']} has a metadata.namespace that is no text"
    for field in ("labels", "annotations"):
        if not isinstance(metadata.get(field) or {}, dict):
            return f"named {metadata['name']} has metadata.{field} that are no mapping"
    return ""
