"""Prepares rendered manifests for a cluster: the resource of their kind, namespace, labels and digest.

Kinds that are defined by CRDs of the same delivery are read from these CRDs: they need no discovery, and their scope is
known before the server serves them.
"""

from __future__ import annotations

import asyncio
import hashlib
import re
from base64 import b64encode
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

import orjson

from clusterstacks.deliver.apply.delivery_plan import Mark, WantedObject
from clusterstacks.deliver.apply.foreign_fields import without_aggregated_rules
from clusterstacks.deliver.apply.ownership import OWNED_LABEL, OWNED_VALUE, PART_OF_LABEL
from clusterstacks.deliver.apply.policy import reason_to_keep
from clusterstacks.deliver.apply.record_codec import MAX_OBJECTS, identity_fault
from clusterstacks.deliver.apply.record_store import RECORD_LABEL, is_record
from clusterstacks.deliver.apply.waves import CRD_KIND
from clusterstacks.model.errors import SpecError
from clusterstacks.model.objects import Manifest, ObjectId, object_id, split_api_version
from clusterstacks.net.kube.errors import KindNotServed
from clusterstacks.net.kube.resources import Resource

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from clusterstacks.model.objects import Manifest
    from clusterstacks.net.kube.client import Client

SLICE = 200
"""Objects that are prepared before other tasks run, which takes some 10 ms."""

_PATH_WORD = re.compile(r"[a-z0-9]([-a-z0-9.]*[a-z0-9])?")


@dataclass(frozen=True, slots=True)
class ApplyTarget:
    """One object as it will be sent.

    Args:
        id: Its identity, with the final namespace.
        version: API version of the manifest.
        manifest: The manifest with our labels and namespace.
        digest: Digest of the manifest.
        resource: The resource of its kind; None when it cannot be sent.
        refusal: Why it cannot be sent.
        new_kind: A CRD of the same delivery defines its kind, which may be served a moment later.
        source: Position of its source among those of a sync.
    """

    id: ObjectId
    version: str
    manifest: Manifest
    digest: str
    resource: Resource | None
    refusal: str = ""
    new_kind: bool = False
    source: int = 0

    @property
    def place(self) -> Resource:
        """The resource of its kind; only for objects that can be sent."""
        if self.resource is None:
            raise AssertionError(f"{self.id} cannot be sent: {self.refusal}")
        return self.resource

    @property
    def wanted(self) -> WantedObject:
        """The object as the delivery plan needs it."""
        return WantedObject(self.id, self.version, self.digest, protected=bool(reason_to_keep(self.manifest)))


async def resolve(
    client: Client,
    manifests: Iterable[Manifest],
    *,
    default_namespace: str,
    part_of: str = "",
    sources: Mapping[ObjectId, int] = MappingProxyType({}),
) -> list[ApplyTarget]:
    """Prepare manifests for a cluster.

    Of two documents for one object the later one wins, as if they were applied one after the other.

    Args:
        client: The cluster.
        manifests: The rendered manifests, which are not changed.
        default_namespace: Namespace of namespaced objects that do not name one.
        part_of: Id of their ApplySet, or empty.
        sources: Positions of the sources of manifests, as ``ApplyTarget`` has them.

    Raises:
        SpecError: A document is not an object, or there are too many objects.
        DependencyError: Discovery failed.
    """
    objects = list(documents(manifests))
    if len(objects) > MAX_OBJECTS:
        raise SpecError(
            "TooManyObjects",
            f"{len(objects)} objects are defined, at most {MAX_OBJECTS} are allowed: split the chart or source",
        )
    kinds = _Kinds(client, defined_kinds(objects))
    found: dict[ObjectId, ApplyTarget] = {}
    for number, manifest in enumerate(objects):
        if number % SLICE == 0:
            await asyncio.sleep(0)
        resource, refusal, new_kind = await kinds.resource_of(manifest)
        namespace = ""
        if resource is None or resource.namespaced:
            namespace = manifest["metadata"].get("namespace") or default_namespace
        sent = stamped(without_aggregated_rules(with_data(manifest)), namespace=namespace, part_of=part_of)
        group, version = split_api_version(manifest["apiVersion"])
        identity = ObjectId(group, manifest["kind"], namespace, manifest["metadata"]["name"])
        try:
            digest = digest_of(sent)
        except TypeError as error:
            digest, resource = "", None
            refusal = f"{identity} cannot be written as JSON: {error}; correct its definition"
        # The object moves to the position of its later document.
        found.pop(identity, None)
        source = sources.get(object_id(manifest), 0)
        found[identity] = ApplyTarget(identity, version, sent, digest, resource, refusal, new_kind, source)
    return list(found.values())


class _Kinds:
    """Resources of kinds; discovery is used once for each."""

    def __init__(self, client: Client, defined: Mapping[tuple[str, str], Mapping[str, Resource]]) -> None:
        self._client = client
        self._defined = defined
        self._asked: dict[tuple[str, str, str], tuple[Resource | None, str]] = {}

    async def resource_of(self, manifest: Manifest) -> tuple[Resource | None, str, bool]:
        """Return the resource, or None and the reason, and whether a CRD of the same delivery defines the kind."""
        group, version = split_api_version(manifest["apiVersion"])
        kind = manifest["kind"]
        if versions := self._defined.get((group, kind)):
            resource = versions.get(version)
            refusal = "" if resource else _wrong_version(manifest, ", ".join(versions))
            return resource, refusal, True
        key = (group, kind, version)
        if key not in self._asked:
            self._asked[key] = await self._discover(manifest, *key)
        return (*self._asked[key], False)

    async def _discover(self, manifest: Manifest, group: str, kind: str, version: str) -> tuple[Resource | None, str]:
        try:
            resource = await self._client.resource(group, kind, version)
        except KindNotServed as error:
            return None, error.message
        if resource.version != version:
            return None, _wrong_version(manifest, resource.version)
        return resource, ""


def defined_kinds(manifests: Iterable[Manifest]) -> dict[tuple[str, str], dict[str, Resource]]:
    """Return the kinds that CRDs among the manifests define, by group and kind, then by version."""
    found: dict[tuple[str, str], dict[str, Resource]] = {}
    for manifest in manifests:
        group, _ = split_api_version(manifest["apiVersion"])
        if (group, manifest["kind"]) == CRD_KIND:
            for resource in _resources_of(manifest.get("spec")):
                found.setdefault((resource.group, resource.kind), {})[resource.version] = resource
    return found


def _resources_of(spec: Any) -> list[Resource]:  # noqa: ANN401  # as the chart wrote it
    """Return the resources of a CRD; none of an invalid one, which the server will reject with the reason."""
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
        f"{manifest['kind']} {manifest['metadata']['name']}: the server does not serve {manifest['apiVersion']} "
        f"(served: {served}): update its definition"
    )


_SERVERS_FIELDS: Final = frozenset(
    {"creationTimestamp", "deletionTimestamp", "generation", "managedFields", "resourceVersion", "selfLink", "uid"}
)
"""Metadata that only the server sets; some of it makes a server-side apply fail."""

_POD_TEMPLATES: Final[dict[tuple[str, str], tuple[str, ...]]] = {
    ("apps", "DaemonSet"): ("spec", "template"),
    ("apps", "Deployment"): ("spec", "template"),
    ("apps", "ReplicaSet"): ("spec", "template"),
    ("apps", "StatefulSet"): ("spec", "template"),
    ("batch", "Job"): ("spec", "template"),
    ("batch", "CronJob"): ("spec", "jobTemplate", "spec", "template"),
}


def documents(manifests: Iterable[Manifest]) -> Iterator[Manifest]:
    """Yield the objects; a ``List`` is replaced by its items, as in kubectl.

    Raises:
        SpecError: An object has no apiVersion, kind or metadata.name.
    """
    for number, manifest in enumerate(manifests, start=1):
        if fault := fault_of(manifest):
            raise SpecError("InvalidManifest", f"object {number} {fault}; correct its definition")
        if _is_list(manifest):
            yield from documents(manifest["items"])
        else:
            yield manifest


def with_data(manifest: Manifest) -> Manifest:
    """Return a Secret with the values of ``stringData`` in ``data``, where the API server stores them.

    The server records ``stringData`` as the field of a manager, so it would not remove a key from ``data`` that the
    next manifest lacks. A value that is not a string stays where it is: the server rejects it and names the field.
    """
    if "stringData" not in manifest or (manifest["apiVersion"], manifest["kind"]) != ("v1", "Secret"):
        return manifest
    texts, data = manifest["stringData"], manifest.get("data")
    if not isinstance(texts or {}, dict) or not isinstance(data or {}, dict):
        return manifest
    if not all(isinstance(text or "", str) for text in (texts or {}).values()):
        return manifest
    encoded = {key: b64encode((text or "").encode()).decode() for key, text in (texts or {}).items()}
    stored = {key: value for key, value in manifest.items() if key != "stringData"}
    return {**stored, "data": {**(data or {}), **encoded}} if data or encoded else stored


def stamped(manifest: Manifest, *, namespace: str, part_of: str = "") -> Manifest:
    """Return a copy of the manifest with our labels and its namespace.

    Args:
        manifest: The manifest, as ``documents`` yields it.
        namespace: The namespace; empty for cluster-scoped kinds, where a namespace in the manifest is dropped.
        part_of: Id of the object's ApplySet, or empty. It is set in the object's own metadata only: a change in a pod
            template would restart the workload.
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
    """Return the labels and annotations of a manifest."""
    metadata = manifest["metadata"]
    return metadata.get("labels") or {}, metadata.get("annotations") or {}


def _with_pod_label(node: Manifest, path: tuple[str, ...]) -> Manifest:
    """Add our label to the pod template at ``path``; the server rejects a workload without one."""
    if path:
        below = node.get(path[0])
        return {**node, path[0]: _with_pod_label(below, path[1:])} if isinstance(below, dict) else node
    metadata = node.get("metadata") or {}
    labels = {**(metadata.get("labels") or {}), OWNED_LABEL: OWNED_VALUE}
    return {**node, "metadata": {**metadata, "labels": labels}}


def _is_list(manifest: Mapping[str, Any]) -> bool:
    return manifest.get("kind") == "List" and isinstance(manifest.get("items"), list)


def fault_of(manifest: Any) -> str:  # noqa: ANN401  # whatever the chart wrote
    """Return why a document is not an object that can be sent; empty if it is one."""
    if not isinstance(manifest, dict):
        return "is not a mapping"
    for field in ("apiVersion", "kind"):
        if not isinstance(manifest.get(field), str) or not manifest[field]:
            return f"has no {field}"
    if _is_list(manifest):
        return ""
    if fault := _metadata_fault(manifest.get("metadata")):
        return f"({manifest['kind']}) {fault}"
    # The record is written before the API server refuses the object, and would not be readable.
    if fault := identity_fault(object_id(manifest), split_api_version(manifest["apiVersion"])[1]):
        return fault
    return _record_fault(manifest)


def _record_fault(manifest: Manifest) -> str:
    """Refuse a delivery record: what it lists is deleted, and who writes it could be a user with few rights."""
    name, labels = manifest["metadata"]["name"], manifest["metadata"].get("labels") or {}
    is_secret = (manifest["apiVersion"], manifest["kind"]) == ("v1", "Secret")
    if is_secret and (RECORD_LABEL in labels or is_record(name)):
        return f"(Secret) named {name} has the name or the label of the operator's delivery records"
    return ""


def _metadata_fault(metadata: Any) -> str:  # noqa: ANN401  # whatever the chart wrote
    if not isinstance(metadata, dict) or not isinstance(metadata.get("name"), str) or not metadata["name"]:
        return "has no metadata.name (an object with generateName cannot be updated)"
    if not isinstance(metadata.get("namespace") or "", str):
        return f"named {metadata['name']} has a metadata.namespace that is not a string"
    for field in ("labels", "annotations"):
        if not isinstance(metadata.get(field) or {}, dict):
            return f"named {metadata['name']} has metadata.{field} that is not a mapping"
    return ""


DIGEST_BYTES = 16
"""128 bits keep records small; only the cluster's own administrator could profit from a collision."""


def digest_of(document: Any) -> str:  # noqa: ANN401  # any JSON value
    """Return the digest of a JSON value; the order of keys does not matter.

    Raises:
        TypeError: The value cannot be encoded as JSON.
    """
    text = orjson.dumps(document, option=orjson.OPT_SORT_KEYS)
    return hashlib.blake2b(text, digest_size=DIGEST_BYTES).hexdigest()


def mark_of(live: Manifest, sent: Manifest) -> Mark:
    """Return the mark of a live object, with the labels and annotations that ``sent`` contains."""
    metadata = live["metadata"]
    labels, annotations = sent_texts(sent)
    texts = [_chosen(metadata.get("labels"), labels), _chosen(metadata.get("annotations"), annotations)]
    generation = metadata.get("generation") or 0
    version = "" if generation else metadata["resourceVersion"]
    return Mark(generation, version, digest_of(texts))


def _chosen(texts: Mapping[str, Any] | None, keys: Mapping[str, Any]) -> dict[str, Any]:
    return {key: texts.get(key) for key in keys} if texts else {}
