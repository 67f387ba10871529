"""From rendered manifests to what is sent: the kind as the server has it, namespace, labels, digest.

The kinds of CRDs that come with the same delivery are read off the CRDs: they need no discovery, and their scope is
known before the server knows them.
"""

from __future__ import annotations

import asyncio
import hashlib
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import orjson

from clusterstacks.apply.delivery_plan import Mark, WantedObject
from clusterstacks.apply.ownership import OWNED_LABEL, OWNED_VALUE, PART_OF_LABEL
from clusterstacks.apply.record_codec import MAX_OBJECTS
from clusterstacks.apply.waves import CRD_KIND
from clusterstacks.domain.errors import SpecError
from clusterstacks.domain.objects import Manifest, ObjectId, split_api_version
from clusterstacks.kube.errors import KindNotServed
from clusterstacks.kube.resources import Resource

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from clusterstacks.domain.objects import Manifest
    from clusterstacks.kube.client import Client

SLICE = 200
"""Objects that are prepared at a time, which takes some 10 ms."""

_PATH_WORD = re.compile(r"[a-z0-9]([-a-z0-9.]*[a-z0-9])?")


@dataclass(frozen=True, slots=True)
class ApplyTarget:
    """One object as it will be sent.

    Args:
        id: Its identity with the settled namespace.
        version: API version of the manifest.
        manifest: With our labels and namespace.
        digest: Of the manifest.
        resource: Where it is sent; None when it cannot be.
        refusal: Why it cannot be sent.
        new_kind: Its kind comes with the same delivery and may be served a moment later only.
    """

    id: ObjectId
    version: str
    manifest: Manifest
    digest: str
    resource: Resource | None
    refusal: str = ""
    new_kind: bool = False

    @property
    def place(self) -> Resource:
        """Where it is sent; only for objects that are not refused."""
        if self.resource is None:
            raise AssertionError(f"{self.id} was refused: {self.refusal}")
        return self.resource

    @property
    def wanted(self) -> WantedObject:
        """The object as the record knows it."""
        return WantedObject(self.id, self.version, self.digest)


async def resolve(
    client: Client, manifests: Iterable[Manifest], *, default_namespace: str, part_of: str = ""
) -> list[ApplyTarget]:
    """Prepare manifests for a cluster.

    Of two documents for one object the later wins, as it would when they were applied one after the other.

    Args:
        client: The cluster.
        manifests: As rendered; they are not changed.
        default_namespace: For objects of namespaced kinds that name none (D18).
        part_of: Id of the ApplySet they are members of, or empty.

    Raises:
        SpecError: A document that is no object, or too many of them.
        DependencyError: The server cannot be asked for its kinds.
    """
    objects = list(documents(manifests))
    if len(objects) > MAX_OBJECTS:
        raise SpecError("TooManyObjects", f"{len(objects)} objects at once, {MAX_OBJECTS} are allowed: split the chart")
    kinds = _Kinds(client, defined_kinds(objects))
    found: dict[ObjectId, ApplyTarget] = {}
    for number, manifest in enumerate(objects):
        if number % SLICE == 0:
            await asyncio.sleep(0)
        resource, refusal, new_kind = await kinds.place(manifest)
        namespace = ""
        if resource is None or resource.namespaced:
            namespace = manifest["metadata"].get("namespace") or default_namespace
        sent = stamped(manifest, namespace=namespace, part_of=part_of)
        group, version = split_api_version(manifest["apiVersion"])
        identity = ObjectId(group, manifest["kind"], namespace, manifest["metadata"]["name"])
        try:
            digest = digest_of(sent)
        except TypeError as error:
            digest, resource, refusal = "", None, f"{identity} cannot be written as JSON: {error}; correct its template"
        # The later document takes the place of the later one.
        found.pop(identity, None)
        found[identity] = ApplyTarget(identity, version, sent, digest, resource, refusal, new_kind)
    return list(found.values())


class _Kinds:
    """Where kinds are served, each asked for once."""

    def __init__(self, client: Client, defined: Mapping[tuple[str, str], Mapping[str, Resource]]) -> None:
        self._client = client
        self._defined = defined
        self._asked: dict[tuple[str, str, str], tuple[Resource | None, str]] = {}

    async def place(self, manifest: Manifest) -> tuple[Resource | None, str, bool]:
        """Return resource, or None and the reason, and whether the kind comes with the same delivery."""
        group, version = split_api_version(manifest["apiVersion"])
        kind = manifest["kind"]
        if versions := self._defined.get((group, kind)):
            resource = versions.get(version)
            refusal = "" if resource else _wrong_version(manifest, ", ".join(versions))
            return resource, refusal, True
        key = (group, kind, version)
        if key not in self._asked:
            self._asked[key] = await self._ask(manifest, *key)
        return (*self._asked[key], False)

    async def _ask(self, manifest: Manifest, group: str, kind: str, version: str) -> tuple[Resource | None, str]:
        try:
            resource = await self._client.resource(group, kind, version)
        except KindNotServed as error:
            return None, error.message
        if resource.version != version:
            return None, _wrong_version(manifest, resource.version)
        return resource, ""


def defined_kinds(manifests: Iterable[Manifest]) -> dict[tuple[str, str], dict[str, Resource]]:
    """Read the kinds that CRDs among the manifests define, by group and kind, then by version."""
    found: dict[tuple[str, str], dict[str, Resource]] = {}
    for manifest in manifests:
        group, _ = split_api_version(manifest["apiVersion"])
        if (group, manifest["kind"]) == CRD_KIND:
            for resource in _resources_of(manifest.get("spec")):
                found.setdefault((resource.group, resource.kind), {})[resource.version] = resource
    return found


def _resources_of(spec: Any) -> list[Resource]:  # noqa: ANN401  # as the chart wrote it
    """A CRD that is written wrongly defines nothing here; the server says what is wrong with it."""
    try:
        group, kind, plural = spec["group"], spec["names"]["kind"], spec["names"]["plural"]
        namespaced = spec["scope"] == "Namespaced"
        versions = [version["name"] for version in spec["versions"] if version["served"]]
        words = [group, plural, *versions]
        if not isinstance(kind, str) or not all(_PATH_WORD.fullmatch(word) for word in words):
            return []
    except (KeyError, TypeError):
        return []
    return [Resource(group, version, kind, plural, namespaced) for version in versions]


def _wrong_version(manifest: Manifest, served: str) -> str:
    return (
        f"{manifest['kind']} {manifest['metadata']['name']}: the server does not serve {manifest['apiVersion']}, but "
        f"{served}: update the chart"
    )


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


DIGEST_BYTES = 16
"""128 bits: nobody but the cluster's own administrator could profit from a collision, and records stay small."""


def digest_of(document: Any) -> str:  # noqa: ANN401  # any JSON value
    """Digest a JSON value; the order of keys does not count.

    Raises:
        TypeError: The value cannot be written as JSON.
    """
    text = orjson.dumps(document, option=orjson.OPT_SORT_KEYS)
    return hashlib.blake2b(text, digest_size=DIGEST_BYTES).hexdigest()


def mark_of(live: Manifest, sent: Manifest) -> Mark:
    """Mark a live object; of its labels and annotations only those that ``sent`` names count."""
    metadata = live["metadata"]
    labels, annotations = sent_texts(sent)
    texts = [_chosen(metadata.get("labels"), labels), _chosen(metadata.get("annotations"), annotations)]
    generation = metadata.get("generation") or 0
    version = "" if generation else metadata["resourceVersion"]
    return Mark(generation, version, digest_of(texts))


def _chosen(texts: Mapping[str, Any] | None, keys: Mapping[str, Any]) -> dict[str, Any]:
    return {key: texts.get(key) for key in keys} if texts else {}
