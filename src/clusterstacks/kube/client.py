"""The verbs of the Kubernetes API for one cluster."""

from __future__ import annotations

from contextlib import aclosing
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from clusterstacks.api.bounded_json import Undecodable, decode, estimate_values
from clusterstacks.domain.versions import KubernetesMinor
from clusterstacks.kube.discovery import ACCEPT, Discovery
from clusterstacks.kube.errors import Expired, NotFound, Unreachable, Unreadable
from clusterstacks.kube.limits import Bounds
from clusterstacks.kube.paged_list import ListReader
from clusterstacks.kube.partial_json import read_page
from clusterstacks.kube.requests import Body, RequestTarget, apply_query, query
from clusterstacks.kube.resources import ObjectList, Resource, WatchEvent
from clusterstacks.kube.transport import JSON, MANAGEMENT, Call, Pool, RequestTimeouts, Transport
from clusterstacks.kube.watch import WatchBroken, event, lines, strip_to_metadata

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Mapping, Sequence

    from clusterstacks.domain.objects import Manifest
    from clusterstacks.kube.connection import Connection
    from clusterstacks.kube.limits import BusyTime
    from clusterstacks.kube.write_gate import WriteGate

STREAM_SHARE = 6 / 7
"""How long a watch's stream is asked to last, as a share of the silence that breaks it: 60 of 70 seconds."""

MAX_DISCOVERY_VALUES = 1_000_000
"""Values of a discovery document that are decoded, group by group; a kind has 25, Kubernetes itself 70 kinds, and the
largest clusters some thousand (arbitrary)."""

_APPLY = "application/apply-patch+yaml"  # JSON is YAML
_MERGE = "application/merge-patch+json"
_JSON_PATCH = "application/json-patch+json"
_METADATA = f"{JSON};as=PartialObjectMetadata;g=meta.k8s.io;v=v1,{JSON}"
_METADATA_LIST = f"{JSON};as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,{JSON}"


@dataclass(frozen=True, slots=True)
class ServerVersion:
    """``minor`` is the API the server offers, which ``--emulated-version`` sets apart from its ``git_version``."""

    minor: KubernetesMinor
    git_version: str


class Client:
    """One cluster as one user. All verbs raise the types of ``kube.errors``, and SpecError for an unusable object.

    Args:
        budget: Most requests at a time, watches aside.
        deadline: Of every request with its retries; a watch has it for its beginning.
        bounds: How much of the server's answers is read.
        gate: What writes must pass at the moment of sending; None lets all pass.
        target: Management or workload cluster, for metrics.
    """

    def __init__(  # noqa: PLR0913  # all but two have defaults
        self,
        connection: Connection,
        pool: Pool,
        *,
        budget: int = 16,
        deadline: timedelta = timedelta(seconds=30),
        user_agent: str = "cluster-stacks",
        timeouts: RequestTimeouts = RequestTimeouts(),  # noqa: B008  # an immutable value
        bounds: Bounds = Bounds(),  # noqa: B008  # an immutable value
        gate: WriteGate | None = None,
        target: str = MANAGEMENT,
    ) -> None:
        self._transport = Transport(connection, pool, budget, deadline, timeouts, bounds)
        self._transport.gate = gate
        self._transport.target = target
        self._transport.user_agent = user_agent
        self._bounds = bounds
        self._idle_timeout = timeouts.idle_timeout
        self._stream_seconds = str(max(1, int(timeouts.idle_timeout.total_seconds() * STREAM_SHARE)))
        self._discovery = Discovery(self._discover)

    async def close(self) -> None:
        """Refuse further calls; the pool keeps no connection of this client longer than it would an idle one."""
        self._transport.close()

    @property
    def busy(self) -> BusyTime:
        """For how long requests have been under way; the first that passes the bound of it fails, as do all others."""
        return self._transport.busy

    async def version(self) -> ServerVersion:
        """Ask for the server's version; an emulated one counts."""
        answer = await self._answer(Call("get /version", "GET", "/version"))
        major = answer.get("emulationMajor") or answer["major"]
        minor = answer.get("emulationMinor") or answer["minor"]
        # Some providers write 34+.
        return ServerVersion(KubernetesMinor(int(major), int(minor.rstrip("+"))), answer["gitVersion"])

    async def ready(self) -> None:
        """Return when the server says it is ready.

        Raises:
            Unreachable: It does not.
        """
        await self._transport.send(Call("get /readyz", "GET", "/readyz", accept="text/plain"))

    async def resource(self, group: str, kind: str, version: str = "") -> Resource:
        """Find where a kind is served: in ``version``, else (also when that is gone) in the preferred one.

        Raises:
            KindNotServed: Discovery does not know the kind; it is asked again at most every few seconds.
        """
        return await self._discovery.resource(group, kind, version)

    def forget_discovery(self) -> None:
        """Ask the server again for its kinds at the next ``resource``."""
        self._discovery.forget()

    async def get(self, resource: Resource, name: str, namespace: str = "") -> Manifest:
        """Read one object.

        Raises:
            NotFound: There is none.
        """
        return await self._answer(RequestTarget(resource, namespace, name).named().call("get"))

    async def find(self, resource: Resource, name: str, namespace: str = "") -> Manifest | None:
        """Read one object; None when there is none."""
        try:
            return await self.get(resource, name, namespace)
        except NotFound:
            return None

    async def find_metadata(self, resource: Resource, name: str, namespace: str = "") -> Manifest | None:
        """Read the metadata of one object; None when there is none."""
        try:
            found = await self._answer(RequestTarget(resource, namespace, name).named().call("get", accept=_METADATA))
        except NotFound:
            return None
        return strip_to_metadata(found, resource)

    async def list(self, resource: Resource, namespace: str = "", *, labels: str = "", fields: str = "") -> ObjectList:
        """Read all objects, page by page; without a namespace those of all namespaces.

        ``labels`` and ``fields`` are selectors as kubectl takes them.

        Raises:
            Unreadable: One of them cannot be read.
        """
        listing = await self._pages(
            RequestTarget(resource, namespace), JSON, labelSelector=labels, fieldSelector=fields
        )
        for remnant in listing.unreadable:
            raise _unreadable(f"list {resource.describe(namespace, str(remnant.key))}", remnant.why)
        return listing

    async def list_readable(
        self, resource: Resource, namespace: str = "", *, labels: str = "", metadata_only: bool = False
    ) -> ObjectList:
        """Read all objects that can be read, and name the others: for those who must not be stopped by one object."""
        if metadata_only:
            return await self.list_metadata(resource, namespace, labels=labels)
        return await self._pages(RequestTarget(resource, namespace), JSON, labelSelector=labels)

    async def list_metadata(self, resource: Resource, namespace: str = "", *, labels: str = "") -> ObjectList:
        """Read the metadata of all objects; the items carry the apiVersion and kind of ``resource``.

        Managed fields may be missing: they are what makes metadata unreadable.
        """
        listing = await self._pages(RequestTarget(resource, namespace), _METADATA_LIST, labelSelector=labels)
        items = [*listing.items, *(remnant.object for remnant in listing.unreadable if remnant.key.name)]
        return ObjectList([strip_to_metadata(item, resource) for item in items], listing.resource_version)

    async def create(self, resource: Resource, manifest: Manifest, namespace: str = "") -> Manifest:
        """Create an object, in the manifest's own namespace unless another is given.

        Raises:
            AlreadyExists: There is one of that name.
        """
        namespace = namespace or (manifest.get("metadata") or {}).get("namespace") or ""
        call = RequestTarget(resource, namespace).call("create", body=Body(manifest), repeatable=False)
        return await self._answer(call)

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

        Raises:
            Conflict: Names the fields that another manager owns; never with ``force``.
            Invalid: Names the fields that break a rule.
        """
        target = RequestTarget.of(resource, manifest, namespace, subresource)
        parameters = apply_query(manager, force=force, dry_run=dry_run)
        return await self._answer(target.call("apply", parameters, body=Body(manifest, _APPLY)))

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
        """Set and remove fields by a JSON merge patch.

        Raises:
            Conflict: The patch holds a resource version and the object has another.
        """
        target = RequestTarget(resource, namespace, name, subresource).named()
        parameters = query(fieldManager=manager, dryRun="All" if dry_run else "")
        # Repeating a patch that was done and holds a resource version would report a conflict with itself.
        repeatable = "resourceVersion" not in (patch.get("metadata") or {})
        return await self._answer(target.call("patch", parameters, body=Body(patch, _MERGE), repeatable=repeatable))

    async def json_patch(
        self,
        resource: Resource,
        name: str,
        operations: Sequence[Mapping[str, Any]],
        namespace: str = "",
        *,
        subresource: str = "",
    ) -> Manifest:
        """Change an object by JSON patch operations; sent once, as adding to a list twice would add twice.

        The server repeats them itself on the newest object where another one wrote meanwhile.

        Raises:
            Invalid: A ``test`` operation does not hold, or a path does not exist.
        """
        target = RequestTarget(resource, namespace, name, subresource).named()
        return await self._answer(target.call("patch", body=Body(operations, _JSON_PATCH), repeatable=False))

    async def delete(
        self,
        resource: Resource,
        name: str,
        namespace: str = "",
        *,
        uid: str = "",
        resource_version: str = "",
    ) -> None:
        """Ask for the deletion of one object; it may stay for as long as it has finalizers.

        With ``uid`` or ``resource_version`` only that very object or state of it is deleted. What it owns
        follows in the background.

        Raises:
            NotFound: There is none.
            Conflict: There is one with another uid or resource version.
        """
        conditions = {"uid": uid, "resourceVersion": resource_version}
        preconditions = {field: value for field, value in conditions.items() if value}
        options = {
            "apiVersion": "v1",
            "kind": "DeleteOptions",
            "propagationPolicy": "Background",
            "preconditions": preconditions,
        }
        # Without a precondition, a repetition could delete a successor of the object.
        call = (
            RequestTarget(resource, namespace, name)
            .named()
            .call("delete", body=Body(options), repeatable=bool(preconditions))
        )
        await self._transport.send(call)

    async def watch(
        self,
        resource: Resource,
        namespace: str = "",
        *,
        resource_version: str,
        labels: str = "",
        fields: str = "",
        metadata_only: bool = False,
    ) -> AsyncGenerator[WatchEvent, None]:
        """Yield changes since ``resource_version`` until the server ends the stream; wrap it in ``aclosing``.

        The server is asked to end it after a minute. A server says nothing while nothing changes, not even by a
        bookmark: so a stream that is silent for longer is dead. With ``metadata_only`` objects have metadata only.

        Raises:
            Expired: The resource version is too old: list again.
            Unreachable: The stream broke or fell silent.
        """
        parameters = query(
            watch="1",
            allowWatchBookmarks="true",
            timeoutSeconds=self._stream_seconds,
            resourceVersion=resource_version,
            labelSelector=labels,
            fieldSelector=fields,
        )
        call = RequestTarget(resource, namespace).call("watch", parameters, accept=_METADATA if metadata_only else JSON)
        response = await self._transport.open(call)
        try:
            async with aclosing(lines(response.content, self._idle_timeout, self._bounds.answer_bytes)) as stream:
                async for line in stream:
                    if line is None:
                        yield WatchEvent("", {}, f"is larger than {self._bounds.answer_bytes} bytes")
                    else:
                        yield await event(line, resource, call.about, metadata_only=metadata_only)
        except WatchBroken as error:
            raise self._transport.broken(call, error) from None
        finally:
            response.close()

    async def _pages(self, target: RequestTarget, accept: str, **selectors: str) -> ObjectList:
        try:
            listing = await self._list_reader(target, accept, selectors).read()
        except Expired:
            # The list's snapshot was compacted away between two pages: once more from the beginning.
            listing = await self._list_reader(target, accept, selectors).read()
        for item in (*listing.items, *(remnant.object for remnant in listing.unreadable)):
            item["apiVersion"], item["kind"] = target.resource.api_version, target.resource.kind
        return listing

    def _list_reader(self, target: RequestTarget, accept: str, selectors: Mapping[str, str]) -> ListReader:
        return ListReader(
            transport=self._transport, bounds=self._bounds, target=target, accept=accept, selectors=selectors
        )

    async def _discover(self, path: str) -> Manifest:
        """Read a discovery document; one of a server with thousands of kinds is decoded group by group."""
        call = Call(f"get {path}", "GET", path, accept=ACCEPT)
        answer = await self._transport.send(call)
        try:
            document = decode(answer)
        except Undecodable:
            document = await self._discovered(call, answer)
        return self._mapping(call, document)

    async def _discovered(self, call: Call, answer: bytes) -> Any:  # noqa: ANN401  # checked by the caller
        if estimate_values(answer) > MAX_DISCOVERY_VALUES:
            raise Unreachable(f"{call.about}: {self._transport.host} lists more kinds than are read")
        try:
            page = await read_page(answer)
            return {**page.envelope, "items": [decode(item) for item in page.items]}
        except Undecodable:
            return None

    async def _answer(self, call: Call) -> Manifest:
        return self._decoded(call, await self._transport.send(call))

    def _decoded(self, call: Call, answer: bytes) -> Manifest:
        try:
            return self._mapping(call, decode(answer))
        except Undecodable as error:
            if error.excess:
                raise _unreadable(call.about, str(error)) from None
            return self._mapping(call, None)

    def _mapping(self, call: Call, document: Any) -> Manifest:  # noqa: ANN401  # whatever was sent
        if not isinstance(document, dict):
            raise Unreachable(f"{call.about}: {self._transport.host} answered with something else than a JSON object")
        return document


def _unreadable(about: str, why: str) -> Unreadable:
    return Unreadable(f"{about}: the object {why}, so it cannot be read: simplify or delete it")
