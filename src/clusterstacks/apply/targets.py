"""From rendered manifests to what is sent: the kind as the server has it, namespace, labels, digest.

The kinds of CRDs that come with the same delivery are read off the CRDs: they need no discovery, and their scope is
known before the server knows them.
"""

from __future__ import annotations

import asyncio
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from clusterstacks.apply.delivery_plan import WantedObject
from clusterstacks.apply.object_digest import digest_of
from clusterstacks.apply.record_codec import MAX_OBJECTS
from clusterstacks.apply.stamp import documents, stamped
from clusterstacks.apply.waves import CRD_KIND
from clusterstacks.domain.errors import SpecError
from clusterstacks.domain.objects import Manifest, ObjectId, split_api_version
from clusterstacks.kube.errors import KindNotServed
from clusterstacks.kube.resources import Resource

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

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
        young: Its kind comes with the same delivery and may be served a moment later only.
    """

    id: ObjectId
    version: str
    manifest: Manifest
    digest: str
    resource: Resource | None
    refusal: str = ""
    young: bool = False

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
        resource, refusal, young = await kinds.place(manifest)
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
        found[identity] = ApplyTarget(identity, version, sent, digest, resource, refusal, young)
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
