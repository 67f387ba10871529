"""An in-memory API server behind the public methods of the client, with the faults of real servers."""

from __future__ import annotations

import asyncio
import copy
from collections import defaultdict, deque
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final

from clusterstacks.model.documents import text
from clusterstacks.model.objects import Manifest, ObjectKey
from clusterstacks.net.kube.client import Client
from clusterstacks.net.kube.errors import (
    AlreadyExists,
    Conflict,
    Expired,
    Invalid,
    KindNotServed,
    NotFound,
    TooMany,
    Unreachable,
)
from clusterstacks.net.kube.resources import ObjectList, Resource, UnreadableObject, WatchEvent
from clusterstacks.runtime.cache import key_of

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
    from datetime import timedelta

    from clusterstacks.net.kube.paged_list import ListRequest

SILENCE_SECONDS: Final = 70.0
"""After so long without a line the real client gives a watch up."""


def too_many(wait: timedelta) -> TooMany:
    return TooMany("list: 429 TooManyRequests", status=429, reason="TooManyRequests", retry_after=wait)


def unreachable(text: str = "the connection broke") -> Unreachable:
    return Unreachable(text)


@dataclass(eq=False)
class _Stream:
    """One open watch."""

    resource: Resource
    position: int
    wake: asyncio.Event = field(default_factory=asyncio.Event)
    bookmarks: int = 0
    silent: bool = False
    ended: bool = False
    error: Exception | None = None


class FakeApi(Client):
    """Serves the given resources; ``fail``, ``silence``, ``end_watches``, ``compact`` and ``unserve`` cause faults.

    It returns copies. An informer cannot read an object that has ``spec.unreadable``, which is the error message.
    """

    def __init__(self, *resources: Resource) -> None:  # it has no connection, so the client's own is not called
        self.calls: deque[tuple[str, dict[str, Any]]] = deque(maxlen=1000)
        self.instant_ends = 0
        self._served = {(resource.group, resource.kind): resource for resource in resources}
        self._objects: defaultdict[Resource, dict[ObjectKey, Manifest]] = defaultdict(dict)
        self._events: defaultdict[Resource, deque[tuple[int, WatchEvent]]] = defaultdict(deque)
        self._version = 0
        self._compacted = 0
        self._streams: set[_Stream] = set()
        self._faults: defaultdict[str, deque[Exception]] = defaultdict(deque)

    def objects(self, resource: Resource) -> dict[ObjectKey, Manifest]:
        """Return all objects of a resource."""
        return copy.deepcopy(self._objects[resource])

    def count(self, verb: str) -> int:
        """Count the calls of a verb so far."""
        return sum(called == verb for called, _ in self.calls)

    # Faults

    def fail(self, verb: str, *errors: Exception) -> None:
        """Make the next calls of the verb raise these errors."""
        self._faults[verb].extend(errors)

    def heal(self) -> None:
        """Remove all faults that have not occurred yet."""
        self._faults.clear()
        self.instant_ends = 0

    def compact(self) -> None:
        """Forget all events: watches from an older version get 410."""
        self._compacted = self._version
        self._events.clear()

    def end_watches(self, error: Exception | None = None) -> None:
        """End every open watch, as a restarting server (no error) or a broken network does."""
        for stream in self._streams:
            stream.ended, stream.error = True, error
            stream.wake.set()

    def silence(self) -> None:
        """Send nothing more on the open watches, without closing them."""
        for stream in self._streams:
            stream.silent = True
            stream.wake.set()

    def bookmark(self) -> None:
        """Send a bookmark on every open watch."""
        for stream in self._streams:
            stream.bookmarks += 1
            stream.wake.set()

    def serve(self, resource: Resource) -> None:
        self._served[resource.group, resource.kind] = resource

    def unserve(self, resource: Resource) -> None:
        """Remove the kind's definition and end its watches; the objects are kept."""
        self._served.pop((resource.group, resource.kind), None)
        self.end_watches()

    # The client's methods

    async def close(self) -> None:
        self.end_watches()

    async def resource(self, group: str, kind: str, version: str = "") -> Resource:
        await self._meet("resource", group=group, kind=kind, version=version)
        if (group, kind) not in self._served:
            raise KindNotServed(f"{kind}.{group} is not served")
        return self._served[group, kind]

    def forget_discovery(self) -> None:
        self.calls.append(("forget_discovery", {}))

    async def get(self, resource: Resource, name: str, namespace: str = "") -> Manifest:
        await self._meet("get", resource=resource, name=name, namespace=namespace)
        return copy.deepcopy(self._stored(resource, ObjectKey(namespace, name)))

    async def find_metadata(self, resource: Resource, name: str, namespace: str = "") -> Manifest | None:
        await self._meet("find_metadata", resource=resource, name=name, namespace=namespace)
        try:
            return _bare(copy.deepcopy(self._stored(resource, ObjectKey(namespace, name))))
        except NotFound:
            return None

    async def list(
        self,
        resource: Resource,
        namespace: str = "",
        *,
        labels: str = "",
        fields: str = "",
        pages: int = 0,  # noqa: ARG002 - one page has all objects
    ) -> ObjectList:
        await self._meet("list", resource=resource, namespace=namespace, labels=labels, fields=fields)
        listing = self._listing(resource, namespace)
        return replace(listing, items=[one for one in listing.items if _has_fields(one, fields)])

    async def list_metadata(self, resource: Resource, namespace: str = "", *, labels: str = "") -> ObjectList:
        await self._meet("list_metadata", resource=resource, namespace=namespace, labels=labels)
        listing = self._listing(resource, namespace)
        return ObjectList([_bare(item) for item in listing.items], listing.resource_version)

    async def read_list(
        self, request: ListRequest, *, first_page: bytes | None = None, known: bytes | None = None
    ) -> ObjectList:
        assert request.metadata_only
        assert first_page is known is None
        return await self.list_metadata(request.resource, request.namespace, labels=request.labels)

    async def list_keys(self, resource: Resource, namespace: str = "", *, limit: int) -> Sequence[ObjectKey]:
        await self._meet("list_keys", resource=resource, namespace=namespace, limit=limit)
        return [key_of(item) for item in self._listing(resource, namespace).items]

    async def list_readable(
        self, resource: Resource, namespace: str = "", *, labels: str = "", metadata_only: bool = False
    ) -> ObjectList:
        if metadata_only:
            return await self.list_metadata(resource, namespace, labels=labels)
        listing = await self.list(resource, namespace, labels=labels)
        lost = {key_of(item): why for item in listing.items if (why := _unreadable(item))}
        items = [item for item in listing.items if key_of(item) not in lost]
        unreadable = tuple(
            UnreadableObject(_remnant(item), lost[key_of(item)]) for item in listing.items if key_of(item) in lost
        )
        return ObjectList(items, listing.resource_version, unreadable)

    async def create(
        self, resource: Resource, manifest: Manifest, namespace: str = "", *, dry_run: bool = False
    ) -> Manifest:
        assert not dry_run
        await self._meet("create", resource=resource, manifest=manifest, namespace=namespace)
        key = ObjectKey(namespace or manifest["metadata"].get("namespace", ""), manifest["metadata"]["name"])
        if key in self._objects[resource]:
            raise AlreadyExists(f"create {key}: exists", status=409, reason="AlreadyExists")
        created = copy.deepcopy(manifest)
        created["metadata"] |= {"uid": f"uid-{self._version + 1}"} | (
            {"namespace": key.namespace} if key.namespace else {}
        )
        return self._store(resource, key, "ADDED", created)

    async def merge_patch(
        self,
        resource: Resource,
        name: str,
        patch: Mapping[str, Any],
        namespace: str = "",
        *,
        subresource: str = "",
        dry_run: bool = False,
        manager: str = "",
    ) -> Manifest:
        await self._meet("merge_patch", name=name, patch=patch, subresource=subresource, manager=manager)
        key = ObjectKey(namespace, name)
        current = self._stored(resource, key)
        wanted = patch.get("metadata", {}).get("resourceVersion")
        if wanted not in {None, current["metadata"]["resourceVersion"]}:
            raise Conflict(f"patch {key}: it was changed", status=409, reason="Conflict")
        patched: Manifest = _merged(copy.deepcopy(current), patch)
        if dry_run or patched == current:
            return copy.deepcopy(patched)
        return self._store(resource, key, "MODIFIED", patched)

    async def json_patch(
        self,
        resource: Resource,
        name: str,
        operations: Sequence[Mapping[str, Any]],
        namespace: str = "",
        *,
        subresource: str = "",
    ) -> Manifest:
        await self._meet("json_patch", name=name, operations=operations, subresource=subresource)
        key = ObjectKey(namespace, name)
        current = self._stored(resource, key)
        try:
            patched = _operated(copy.deepcopy(current), operations)
        except LookupError as error:
            raise Invalid(f"patch {key}: {error}", status=422, reason="Invalid") from None
        return copy.deepcopy(current) if patched == current else self._store(resource, key, "MODIFIED", patched)

    async def delete(
        self,
        resource: Resource,
        name: str,
        namespace: str = "",
        *,
        uid: str = "",
        resource_version: str = "",
        propagation: str = "Background",
    ) -> bool:
        await self._meet("delete", name=name, uid=uid, resource_version=resource_version, propagation=propagation)
        key = ObjectKey(namespace, name)
        gone = self._stored(resource, key)
        if uid not in {"", gone["metadata"]["uid"]}:
            raise Conflict(f"delete {key}: another uid", status=409, reason="Conflict")
        self._store(resource, key, "DELETED", copy.deepcopy(gone))
        del self._objects[resource][key]
        return True

    async def watch(
        self,
        resource: Resource,
        namespace: str = "",
        *,
        resource_version: str,
        labels: str = "",
        fields: str = "",
        metadata_only: bool = False,
        on_open: Callable[[], None] | None = None,
    ) -> AsyncGenerator[WatchEvent, None]:
        await self._meet(
            "watch",
            resource=resource,
            namespace=namespace,
            resource_version=resource_version,
            labels=labels,
            fields=fields,
        )
        if (resource.group, resource.kind) not in self._served:
            raise NotFound(f"watch {resource}: the server could not find it", status=404, reason="NotFound")
        if on_open is not None:
            on_open()
        if self.instant_ends:
            self.instant_ends -= 1
            return
        stream = _Stream(resource, int(resource_version or 0))
        self._streams.add(stream)
        try:
            async for event in self._stream(stream):
                metadata = event.object["metadata"]
                if _has_fields(event.object, fields) and (
                    not namespace or metadata.get("namespace", namespace) == namespace
                ):
                    if metadata_only:
                        yield WatchEvent(event.type, _bare(event.object))
                    elif why := _unreadable(event.object):
                        yield WatchEvent(event.type, _remnant(event.object), why)
                    else:
                        yield event
        finally:
            self._streams.discard(stream)

    async def _stream(self, stream: _Stream) -> AsyncGenerator[WatchEvent, None]:
        while True:
            if stream.silent:
                await asyncio.sleep(SILENCE_SECONDS)
                raise unreachable(f"no data for {SILENCE_SECONDS:g} s")
            if stream.position < self._compacted:
                raise Expired("too old resource version", status=410, reason="Expired")
            pending = [
                (version, event) for version, event in self._events[stream.resource] if version > stream.position
            ]
            for version, event in pending:
                stream.position = version
                yield copy.deepcopy(event)
            if stream.bookmarks:
                stream.bookmarks -= 1
                stream.position = self._version
                yield WatchEvent("BOOKMARK", {"metadata": {"resourceVersion": str(self._version)}})
            elif stream.ended:
                if stream.error is not None:
                    raise stream.error
                return
            elif not pending:
                stream.wake.clear()
                await stream.wake.wait()

    async def _meet(self, verb: str, **arguments: Any) -> None:
        self.calls.append((verb, arguments))
        await asyncio.sleep(0)
        if self._faults[verb]:
            raise self._faults[verb].popleft()

    def _stored(self, resource: Resource, key: ObjectKey) -> Manifest:
        try:
            return self._objects[resource][key]
        except KeyError:
            raise NotFound(f"{resource} {key} not found", status=404, reason="NotFound") from None

    def _store(self, resource: Resource, key: ObjectKey, event: str, manifest: Manifest) -> Manifest:
        self._version += 1
        manifest["metadata"]["resourceVersion"] = str(self._version)
        self._objects[resource][key] = manifest
        self._events[resource].append((self._version, WatchEvent(event, manifest)))
        for stream in self._streams:
            stream.wake.set()
        return copy.deepcopy(manifest)

    def _listing(self, resource: Resource, namespace: str) -> ObjectList:
        if (resource.group, resource.kind) not in self._served:
            raise NotFound(f"list {resource}: the server could not find it", status=404, reason="NotFound")
        items = [item for key, item in self._objects[resource].items() if namespace in {"", key.namespace}]
        return ObjectList(copy.deepcopy(items), str(self._version))


def _operated(manifest: Manifest, operations: Sequence[Mapping[str, Any]]) -> Manifest:
    """Apply the used operations of a JSON patch (RFC 6902); LookupError if a test fails.

    Lists have at most one entry of a type, as the schema of conditions says.
    """
    for operation in operations:
        *path, last = (int(step) if step.isdigit() else step for step in operation["path"].split("/")[1:])
        parent: Any = manifest
        for step in path:
            parent = parent[step]
        if operation["op"] == "replace":
            parent[last] = copy.deepcopy(operation["value"])
        elif operation["op"] == "add" and last == "-":
            if any(one.get("type") == operation["value"]["type"] for one in parent):
                raise LookupError(f"{operation['path']}: duplicate value")
            parent.append(copy.deepcopy(operation["value"]))
        elif parent[last] != operation["value"]:
            raise LookupError(f"test of {operation['path']} failed")
    return manifest


def _bare(manifest: Manifest) -> Manifest:
    return {name: value for name, value in manifest.items() if name in {"apiVersion", "kind", "metadata"}}


def _has_fields(manifest: Manifest, selector: str) -> bool:
    """Return whether an object has the values of a field selector."""
    wanted = (one.partition("=") for one in selector.split(",") if one)
    return all(text(manifest, *path.split(".")) == value for path, _, value in wanted)


def _unreadable(manifest: Manifest) -> str:
    return str((manifest.get("spec") or {}).get("unreadable", ""))


def _remnant(manifest: Manifest) -> Manifest:
    """Return an object, or only its metadata if spec has none of the upper levels."""
    return {**manifest, "spec": manifest["spec"] if len(manifest["spec"]) > 1 else None}


def _merged(target: Any, patch: Any) -> Any:
    """Apply a merge patch by the pseudo code of RFC 7386, section 2."""
    if not isinstance(patch, dict):
        return copy.deepcopy(patch)
    result = dict(target) if isinstance(target, dict) else {}
    for key, value in patch.items():
        if value is None:
            result.pop(key, None)
        else:
            result[key] = _merged(result.get(key), value)
    return result
