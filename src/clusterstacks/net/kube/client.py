"""Kubernetes API client for one cluster."""

from __future__ import annotations

from contextlib import aclosing
from dataclasses import dataclass, replace
from datetime import timedelta
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING, Any

from clusterstacks.model.bounded_json import Undecodable, decode, estimate_values
from clusterstacks.model.documents import mappings, text
from clusterstacks.model.errors import SpecError
from clusterstacks.model.objects import ObjectKey
from clusterstacks.model.versions import KubernetesMinor
from clusterstacks.net.kube.discovery import ACCEPT, Discovery
from clusterstacks.net.kube.errors import Expired, NotFound, Unreachable
from clusterstacks.net.kube.limits import Bounds
from clusterstacks.net.kube.paged_list import ListReader, ListRequest
from clusterstacks.net.kube.partial_json import read_page
from clusterstacks.net.kube.requests import Body, RequestTarget, apply_query, query
from clusterstacks.net.kube.resources import ObjectList, Resource, WatchEvent
from clusterstacks.net.kube.transport import JSON, Call, Transport
from clusterstacks.net.kube.watch import event, lines, strip_to_metadata
from clusterstacks.net.retry import RequestBroken, RetryPolicy

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
    from datetime import datetime

    from clusterstacks.model.objects import Manifest
    from clusterstacks.net.kube.connection import Connection
    from clusterstacks.net.kube.limits import BusyTime
    from clusterstacks.net.kube.write_gate import WriteGate
    from clusterstacks.net.pool import Pool

IDLE_TIMEOUT = timedelta(seconds=70)
"""Time after which a watch without data is broken."""

STREAM_SHARE = 6 / 7
"""Requested duration of a watch as a fraction of the idle timeout: 60 of 70 seconds."""

MAX_DISCOVERY_VALUES = 1_000_000
"""Maximum number of values in a discovery document that is decoded group by group (arbitrary). A kind has 25 values,
Kubernetes has 70 kinds, and the largest clusters have some thousand kinds."""

_APPLY = "application/apply-patch+yaml"  # JSON is YAML
_MERGE = "application/merge-patch+json"
_JSON_PATCH = "application/json-patch+json"
_METADATA = f"{JSON};as=PartialObjectMetadata;g=meta.k8s.io;v=v1,{JSON}"


@dataclass(frozen=True, slots=True)
class ServerVersion:
    """Version of a server; with ``--emulated-version``, ``minor`` differs from ``git_version``."""

    minor: KubernetesMinor
    git_version: str


class Client:
    """Client for one cluster and one user. All verbs raise the types of :mod:`.errors`, and SpecError for bad objects.

    ``budget`` is the maximum number of concurrent requests, not counting watches. ``deadline`` includes retries; for a
    watch, it is that of the first response. ``gate`` is checked when a write is sent; None allows all writes.
    """

    def __init__(  # noqa: PLR0913  # all but two have defaults
        self,
        connection: Connection,
        pool: Pool,
        *,
        budget: int = 16,
        deadline: timedelta = timedelta(seconds=30),
        user_agent: str = "cluster-stacks",
        retries: RetryPolicy = RetryPolicy(),  # noqa: B008  # an immutable value
        bounds: Bounds = Bounds(),  # noqa: B008  # an immutable value
        gate: WriteGate | None = None,
    ) -> None:
        self._transport = Transport(
            connection,
            pool,
            budget=budget,
            deadline=deadline,
            user_agent=user_agent,
            retries=retries,
            bounds=bounds,
            gate=gate,
        )
        self._bounds = bounds
        self._discovery = Discovery(self._discover)

    async def close(self) -> None:
        """Refuse further calls; the pool closes the connections of this client when they have been idle."""
        self._transport.close()

    @property
    def busy(self) -> BusyTime:
        """Time spent in requests; all requests fail once it exceeds its limit."""
        return self._transport.busy

    async def version(self) -> ServerVersion:
        """Return the version of the server; an emulated version has precedence."""
        answer = await self._send(Call("get /version", "GET", "/version"))
        major = answer.get("emulationMajor") or answer["major"]
        minor = answer.get("emulationMinor") or answer["minor"]
        # Some providers report 34+.
        return ServerVersion(KubernetesMinor(int(major), int(minor.rstrip("+"))), answer["gitVersion"])

    async def clock(self) -> datetime:
        """Return the time of the server, in whole seconds."""
        response = await self._transport.open(Call("get /version", "GET", "/version"))
        response.close()
        try:
            return parsedate_to_datetime(response.headers.get("Date", ""))
        except ValueError:
            raise Unreachable(f"{self._transport.host} does not say what time it is") from None

    async def ready(self) -> None:
        """Check that the server is ready; raise Unreachable if it is not."""
        await self._transport.send(Call("get /readyz", "GET", "/readyz", accept="text/plain"))

    async def resource(self, group: str, kind: str, version: str = "") -> Resource:
        """Find the resource of a kind in ``version``, or in the preferred version if that is empty or not served.

        Raises KindNotServed if the server does not serve it; discovery is repeated at most every few seconds.
        """
        return await self._discovery.resource(group, kind, version)

    def forget_discovery(self) -> None:
        """Repeat discovery at the next call of ``resource``."""
        self._discovery.forget()

    async def get(self, resource: Resource, name: str, namespace: str = "") -> Manifest:
        """Read one object; raise NotFound if it does not exist."""
        return await self._send(RequestTarget(resource, namespace, name).named().call("get"))

    async def find(self, resource: Resource, name: str, namespace: str = "") -> Manifest | None:
        """Read one object; return None if it does not exist."""
        try:
            return await self.get(resource, name, namespace)
        except NotFound:
            return None

    async def find_metadata(self, resource: Resource, name: str, namespace: str = "") -> Manifest | None:
        """Read the metadata of one object; return None if it does not exist."""
        try:
            partial = await self._send(RequestTarget(resource, namespace, name).named().call("get", accept=_METADATA))
        except NotFound:
            return None
        return strip_to_metadata(partial, resource)

    async def list(
        self, resource: Resource, namespace: str = "", *, labels: str = "", fields: str = "", pages: int = 0
    ) -> ObjectList:
        """List objects page by page in one namespace, or in all if it is empty.

        ``labels`` and ``fields`` are selectors in the syntax of kubectl. ``pages`` is the maximum number of requests; 0
        means the limit of the client. Raises SpecError if an object cannot be read, and Unreachable if the list exceeds
        a limit.
        """
        listing = await self.read_list(ListRequest(resource, namespace, labels, fields, pages=pages))
        for unreadable in listing.unreadable:
            raise _unreadable(f"list {resource.describe(namespace, str(unreadable.key))}", unreadable.why)
        return listing

    async def list_readable(
        self, resource: Resource, namespace: str = "", *, labels: str = "", metadata_only: bool = False
    ) -> ObjectList:
        """List objects; return those that cannot be read separately, so that one object does not fail the list."""
        return await self.read_list(ListRequest(resource, namespace, labels, metadata_only=metadata_only))

    async def list_metadata(self, resource: Resource, namespace: str = "", *, labels: str = "") -> ObjectList:
        """List the metadata of objects, with the apiVersion and kind of ``resource``.

        Managed fields may be missing, because they can make metadata unreadable.
        """
        return await self.list_readable(resource, namespace, labels=labels, metadata_only=True)

    async def list_keys(self, resource: Resource, namespace: str = "", *, limit: int) -> Sequence[ObjectKey]:
        """Read namespace and name of the first objects, page by page until there are at least ``limit``, or no more."""
        request = ListRequest(resource, namespace, metadata_only=True)
        keys: list[ObjectKey] = []
        token = ""
        for _ in range(self._bounds.list_pages):
            page = await self._send(request.page(token))
            keys += [
                ObjectKey(text(item, "metadata", "namespace"), text(item, "metadata", "name"))
                for item in mappings(page, "items")
            ]
            token = text(page, "metadata", "continue")
            if not token or len(keys) >= limit:
                break
        return keys

    async def first_pages(self, requests: Sequence[ListRequest]) -> Sequence[bytes | None]:
        """Read the first pages of lists over one connection, for ``read_list``; None for those that failed."""
        return await self._transport.send_together([request.page() for request in requests])

    async def read_list(
        self, request: ListRequest, *, first_page: bytes | None = None, known: bytes | None = None
    ) -> ObjectList:
        """List objects as ``list_readable``, without decoding them if they are the same as before.

        ``first_page`` is the response of ``first_pages``. ``known`` is the digest of a list that the caller has, or
        empty to get one; None computes no digest.
        """
        reader = ListReader(
            transport=self._transport, bounds=self._bounds, request=request, first_page=first_page, known=known
        )
        try:
            listing = await reader.read()
        except Expired:
            # The snapshot of the list was compacted between two pages: start again.
            reader = ListReader(transport=self._transport, bounds=self._bounds, request=request, known=known)
            listing = await reader.read()
        resource = request.resource
        if request.metadata_only:
            items = [*listing.items, *(unreadable.object for unreadable in listing.unreadable if unreadable.key.name)]
            return replace(listing, items=[strip_to_metadata(item, resource) for item in items], unreadable=())
        for item in (*listing.items, *(unreadable.object for unreadable in listing.unreadable)):
            item["apiVersion"], item["kind"] = resource.api_version, resource.kind
        return listing

    async def create(
        self, resource: Resource, manifest: Manifest, namespace: str = "", *, dry_run: bool = False
    ) -> Manifest:
        """Create an object, in the manifest's own namespace unless another is given; raise AlreadyExists."""
        namespace = namespace or (manifest.get("metadata") or {}).get("namespace") or ""
        parameters = query(dryRun="All" if dry_run else "")
        call = RequestTarget(resource, namespace).call("create", parameters, body=Body(manifest), repeatable=False)
        return await self._send(call)

    async def apply(  # noqa: PLR0913  # the parameters of the API's own verb
        self,
        resource: Resource,
        manifest: Manifest,
        *,
        manager: str,
        namespace: str = "",
        force: bool = False,
        dry_run: bool = False,
        subresource: str = "",
    ) -> Manifest:
        """Server-side apply: create the object, or set the fields of ``manifest`` as ``manager``.

        Raises Conflict if another manager owns fields (not with ``force``), and Invalid if fields are not valid.
        """
        target = RequestTarget.of(resource, manifest, namespace, subresource)
        parameters = apply_query(manager, force=force, dry_run=dry_run)
        return await self._send(target.call("apply", parameters, body=Body(manifest, _APPLY)))

    async def merge_patch(  # noqa: PLR0913  # the parameters of the API's own verb
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
        """Set and remove fields with a JSON merge patch; raise Conflict if it has an outdated resource version."""
        target = RequestTarget(resource, namespace, name, subresource).named()
        parameters = query(fieldManager=manager, dryRun="All" if dry_run else "")
        # Repeating a successful patch with a resource version would conflict with itself.
        repeatable = "resourceVersion" not in (patch.get("metadata") or {})
        return await self._send(target.call("patch", parameters, body=Body(patch, _MERGE), repeatable=repeatable))

    async def json_patch(
        self,
        resource: Resource,
        name: str,
        operations: Sequence[Mapping[str, Any]],
        namespace: str = "",
        *,
        subresource: str = "",
    ) -> Manifest:
        """Change an object with JSON patch operations; sent only once, because adding to a list is not idempotent.

        The server itself repeats the operations on the newest object after a concurrent write. Raises Invalid if a
        ``test`` operation fails or a path does not exist.
        """
        target = RequestTarget(resource, namespace, name, subresource).named()
        return await self._send(target.call("patch", body=Body(operations, _JSON_PATCH), repeatable=False))

    async def delete(
        self,
        resource: Resource,
        name: str,
        namespace: str = "",
        *,
        uid: str = "",
        resource_version: str = "",
    ) -> bool:
        """Delete one object, and its dependents in the background; return True if it was gone at once.

        Otherwise it may remain: while it has finalizers or content, or until its Pods ended. Raises NotFound, or
        Conflict if its uid or resource version is not the given one.
        """
        conditions = {"uid": uid, "resourceVersion": resource_version}
        preconditions = {field: value for field, value in conditions.items() if value}
        options = {
            "apiVersion": "v1",
            "kind": "DeleteOptions",
            "propagationPolicy": "Background",
            "preconditions": preconditions,
        }
        # Without a precondition, a retry could delete a successor of the object.
        call = (
            RequestTarget(resource, namespace, name)
            .named()
            .call("delete", body=Body(options), repeatable=bool(preconditions))
        )
        # The answer is a Status, or the object.
        return (await self._send(call)).get("kind") == "Status"

    async def watch(  # noqa: PLR0913  # the parameters of the API's own verb
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
        """Yield changes since ``resource_version`` until the server ends the stream; wrap it in ``aclosing``.

        The server is requested to end the stream after a minute. It may send nothing, not even a bookmark, while
        nothing changes, so a stream that is idle for longer is broken. With ``metadata_only`` the objects have only
        metadata. ``on_open`` is called when the server has accepted the watch.

        Raises:
            Expired: The resource version is too old: list again.
            Unreachable: The stream broke or was idle for too long.
        """
        parameters = query(
            watch="1",
            allowWatchBookmarks="true",
            timeoutSeconds=str(max(1, int(IDLE_TIMEOUT.total_seconds() * STREAM_SHARE))),
            resourceVersion=resource_version,
            labelSelector=labels,
            fieldSelector=fields,
        )
        call = RequestTarget(resource, namespace).call("watch", parameters, accept=_METADATA if metadata_only else JSON)
        response = await self._transport.open(call)
        if on_open is not None:
            on_open()
        try:
            async with aclosing(lines(response.content, IDLE_TIMEOUT, self._bounds.response_bytes)) as stream:
                async for line in stream:
                    if line is None:
                        yield WatchEvent("", {}, f"is larger than {self._bounds.response_bytes} bytes")
                    else:
                        yield await event(line, resource, call.about, metadata_only=metadata_only)
        except RequestBroken as error:
            raise self._transport.unreachable(call, error) from None
        finally:
            response.close()

    async def _discover(self, path: str) -> Manifest:
        """Read a discovery document; a document with thousands of kinds is decoded group by group."""
        call = Call(f"get {path}", "GET", path, accept=ACCEPT)
        answer = await self._transport.send(call)
        try:
            document = decode(answer)
        except Undecodable:
            document = await self._decode_groups(call, answer)
        return self._mapping(call, document)

    async def _decode_groups(self, call: Call, answer: bytes) -> Any:  # noqa: ANN401  # checked by the caller
        if estimate_values(answer) > MAX_DISCOVERY_VALUES:
            raise Unreachable(f"{call.about}: {self._transport.host} serves more kinds than the limit")
        try:
            page = await read_page(answer)
            return {**page.envelope, "items": [decode(item) for item in page.items]}
        except Undecodable:
            return None

    async def _send(self, call: Call) -> Manifest:
        return self._decoded(call, await self._transport.send(call))

    def _decoded(self, call: Call, answer: bytes) -> Manifest:
        try:
            return self._mapping(call, decode(answer))
        except Undecodable as error:
            if error.excess:
                raise _unreadable(call.about, str(error)) from None
            return self._mapping(call, None)

    def _mapping(self, call: Call, document: Any) -> Manifest:  # noqa: ANN401  # any JSON value
        if not isinstance(document, dict):
            raise Unreachable(f"{call.about}: the response of {self._transport.host} is not a JSON object")
        return document


def _unreadable(about: str, why: str) -> SpecError:
    return SpecError("ObjectUnreadable", f"{about}: the object {why}, so it cannot be read: simplify or delete it")
