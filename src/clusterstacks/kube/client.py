"""The verbs of the Kubernetes API for one cluster."""

from __future__ import annotations

from contextlib import aclosing
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import orjson

from clusterstacks.domain.versions import KubernetesMinor
from clusterstacks.kube.calls import Body, Target, apply_query, query
from clusterstacks.kube.discovery import ACCEPT, Discovery
from clusterstacks.kube.errors import Expired, NotFound, Unreachable
from clusterstacks.kube.resources import Listing, Resource, WatchEvent
from clusterstacks.kube.transport import JSON, MAX_ANSWER_BYTES, Call, Patience, Pool, Transport, drop
from clusterstacks.kube.watching import Broken, bare, event, lines

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Mapping, Sequence

    from clusterstacks.domain.objects import Manifest
    from clusterstacks.kube.connection import Connection
    from clusterstacks.kube.gate import WriteGate

PAGE = 500
"""Objects a page of a list; the value of client-go's pager."""

STREAM_SHARE = 6 / 7
"""How long a watch's stream is asked to last, as a share of the silence that breaks it: 60 of 70 seconds."""

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
        gate: What writes must pass at the moment of sending; None lets all pass.
    """

    def __init__(  # noqa: PLR0913  # all but two have defaults
        self,
        connection: Connection,
        pool: Pool,
        *,
        budget: int = 16,
        deadline: timedelta = timedelta(seconds=30),
        user_agent: str = "cluster-stacks",
        patience: Patience = Patience(),  # noqa: B008  # an immutable value
        gate: WriteGate | None = None,
    ) -> None:
        self._transport = Transport(connection, pool, budget, deadline, patience)
        self._transport.gate = gate
        self._transport.user_agent = user_agent
        self._silence = patience.silence
        self._stream_seconds = str(max(1, int(patience.silence.total_seconds() * STREAM_SHARE)))
        self._discovery = Discovery(self._discover)

    async def close(self) -> None:
        """Refuse further calls; the pool keeps no connection of this client longer than it would an idle one."""
        self._transport.close()

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
        return await self._answer(Target(resource, namespace, name).named().call("get"))

    async def find(self, resource: Resource, name: str, namespace: str = "") -> Manifest | None:
        """Read one object; None when there is none."""
        try:
            return await self.get(resource, name, namespace)
        except NotFound:
            return None

    async def list(self, resource: Resource, namespace: str = "", *, labels: str = "", fields: str = "") -> Listing:
        """Read all objects, page by page; without a namespace those of all namespaces.

        ``labels`` and ``fields`` are selectors as kubectl takes them.
        """
        listing = await self._pages(Target(resource, namespace), JSON, labelSelector=labels, fieldSelector=fields)
        for item in listing.items:
            item["apiVersion"], item["kind"] = resource.api_version, resource.kind
        return listing

    async def list_metadata(self, resource: Resource, namespace: str = "", *, labels: str = "") -> Listing:
        """Read the metadata of all objects; the items carry the apiVersion and kind of ``resource``."""
        listing = await self._pages(Target(resource, namespace), _METADATA_LIST, labelSelector=labels)
        return Listing([bare(item, resource) for item in listing.items], listing.resource_version)

    async def create(self, resource: Resource, manifest: Manifest, namespace: str = "") -> Manifest:
        """Create an object, in the manifest's own namespace unless another is given.

        Raises:
            AlreadyExists: There is one of that name.
        """
        namespace = namespace or (manifest.get("metadata") or {}).get("namespace") or ""
        call = Target(resource, namespace).call("create", body=Body(manifest), repeatable=False)
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
        target = Target.of(resource, manifest, namespace, subresource)
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
        target = Target(resource, namespace, name, subresource).named()
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
    ) -> Manifest:
        """Change an object by JSON patch operations; sent once, as adding to a list twice would add twice.

        Raises:
            Invalid: A ``test`` operation does not hold, or a path does not exist.
        """
        target = Target(resource, namespace, name).named()
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
            Target(resource, namespace, name).named().call("delete", body=Body(options), repeatable=bool(preconditions))
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
        call = Target(resource, namespace).call("watch", parameters, accept=_METADATA if metadata_only else JSON)
        response = await self._transport.open(call)
        try:
            async with aclosing(lines(response.content, self._silence)) as stream:
                async for line in stream:
                    yield event(line, resource, call.about, metadata_only=metadata_only)
        except Broken as error:
            raise self._transport.broken(call, error) from None
        finally:
            drop(response)

    async def _pages(self, target: Target, accept: str, **selectors: str) -> Listing:
        try:
            return await self._read_pages(target, accept, selectors)
        except Expired:
            # The list's snapshot was compacted away between two pages: once more from the beginning.
            return await self._read_pages(target, accept, selectors)

    async def _read_pages(self, target: Target, accept: str, selectors: Mapping[str, str]) -> Listing:
        items: list[Manifest] = []
        token = ""
        room = MAX_ANSWER_BYTES
        while True:
            parameters = query(limit=str(PAGE), **{"continue": token}, **selectors)
            call = replace(target.call("list", parameters, accept=accept), max_bytes=room)
            answer = await self._transport.send(call)
            room -= len(answer)
            page = self._decoded(call, answer)
            items += page.get("items") or []
            metadata = page.get("metadata") or {}
            token = metadata.get("continue") or ""
            if not token:
                return Listing(items, metadata.get("resourceVersion") or "")

    async def _discover(self, path: str) -> Manifest:
        return await self._answer(Call(f"get {path}", "GET", path, accept=ACCEPT))

    async def _answer(self, call: Call) -> Manifest:
        return self._decoded(call, await self._transport.send(call))

    def _decoded(self, call: Call, answer: bytes) -> Manifest:
        try:
            document = orjson.loads(answer)
        except orjson.JSONDecodeError:
            document = None
        if not isinstance(document, dict):
            raise Unreachable(f"{call.about}: {self._transport.host} answered with something else than a JSON object")
        return document
