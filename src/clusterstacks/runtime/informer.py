"""Keeps a store equal to what the server has, and tells subscribers about every change."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from datetime import timedelta
from typing import TYPE_CHECKING, Final, TypeAlias

from clusterstacks.domain.errors import ClusterStacksError
from clusterstacks.domain.objects import Manifest, ObjectKey
from clusterstacks.kube.errors import Expired, KindNotServed, NotFound
from clusterstacks.kube.resources import UnreadableObject
from clusterstacks.runtime.backoff import BackOff
from clusterstacks.runtime.cache import CacheChange, Index, ObjectCache, key_of
from clusterstacks.runtime.clock import SYSTEM_CLOCK
from clusterstacks.runtime.health import Health

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from clusterstacks.kube.client import Client
    from clusterstacks.kube.resources import ObjectList, Resource, WatchEvent
    from clusterstacks.runtime.clock import Clock

__all__ = ["CacheChange", "Handler", "Index", "Informer", "ObjectCache", "Trim", "drop_managed_fields", "key_of"]

Handler: TypeAlias = Callable[[CacheChange], None]
"""Called on the event loop for every change, in order; must return at once."""

Trim: TypeAlias = Callable[[Manifest], Manifest]
"""Returns the part of an object worth keeping; metadata.name, namespace, uid and resourceVersion must stay."""

RETRIES: Final = BackOff(first=timedelta(seconds=1), limit=timedelta(seconds=30))

INSTANT_SECONDS: Final = 1.0
"""A watch that ends sooner is not opened again at once (arbitrary)."""

INSTANT_CLOSES: Final = 3
"""So many instant ends in a row, without an event, mean a resource version that is gone though nobody says 410.

Source: kubernetes/kubernetes#137089; the number is arbitrary.
"""

log = logging.getLogger(__name__)


def drop_managed_fields(manifest: Manifest) -> Manifest:
    """Leave out the bookkeeping of field owners: no reader of a store needs it, and it is often half of an object."""
    metadata = manifest["metadata"]
    if "managedFields" not in metadata:
        return manifest
    return {**manifest, "metadata": {name: value for name, value in metadata.items() if name != "managedFields"}}


def _nothing() -> None:
    """Do nothing."""


class Informer:
    """List, then watch, for ever; after a gap the list is compared with the store, so deletions in it are seen too.

    Subscribers see an object come before it changes or goes, and one that another of its name took the place of go
    before that one comes. Nothing ends ``run`` but its cancellation: while the kind is not served, or the server not
    reachable, the store keeps what it last knew and the informer tries again after up to 30 s.

    An object that cannot be read is in ``unreadable``, and costs no other object anything. The store keeps its last
    readable version; with ``keep_unreadable`` it gets what is left of the object instead, so that readers who only need
    metadata and the upper levels of spec and status see the present ones, also of an object that never was readable.

    Args:
        client: The server.
        group: Of the kind.
        kind: Its name.
        namespace: The only one to look at; empty means all.
        labels: A selector.
        indexes: By what objects are found.
        trim: What of an object is kept.
        metadata_only: Ask for no more than metadata.
        keep_unreadable: See above.
        clock: Time.
    """

    def __init__(  # noqa: PLR0913 - a query has these parts; all but three have defaults
        self,
        client: Client,
        group: str,
        kind: str,
        *,
        namespace: str = "",
        labels: str = "",
        indexes: Mapping[str, Index] | None = None,
        trim: Trim = drop_managed_fields,
        metadata_only: bool = False,
        keep_unreadable: bool = False,
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        self.cache = ObjectCache(indexes)
        self.health = Health(clock=clock)
        self.unreadable: dict[ObjectKey, UnreadableObject] = {}
        """By key, which is empty for those whose name cannot be read."""
        self.on_unreadable: Callable[[], None] = _nothing
        """Called when there is one more in ``unreadable``."""
        self._client = client
        self._group = group
        self._kind = kind
        self._namespace = namespace
        self._labels = labels
        self._trim = trim
        self._metadata_only = metadata_only
        self._keep_unreadable = keep_unreadable
        self._handlers: list[Handler] = []
        self._resource: Resource | None = None
        self._resource_version = ""  # empty: list before the next watch
        self._synced = asyncio.Event()
        self._instant_closes = 0
        self._failures = 0

    def __str__(self) -> str:
        return f"{self._kind}.{self._group}" if self._group else self._kind

    @property
    def resource(self) -> Resource:
        """The resource as the server serves it.

        Raises:
            LookupError: Not synced yet.
        """
        if self._resource is None:
            raise LookupError(f"{self}: not found at the server yet; wait for synced()")
        return self._resource

    @property
    def is_synced(self) -> bool:
        """Whether the store has held the whole list once."""
        return self._synced.is_set()

    async def synced(self) -> None:
        """Wait until the store has held the whole list once."""
        await self._synced.wait()

    def subscribe(self, handler: Handler) -> Callable[[], None]:
        """Call the handler with every change from now on, and at once with every object already there.

        A handler that fails is logged; it and the others go on. Call what is returned to end the subscription.
        """
        self._handlers.append(handler)
        for key in self.cache:
            self._call(handler, CacheChange(key, None, self.cache.get(key)))
        return lambda: self._handlers.remove(handler)

    async def run(self) -> None:
        """Follow the server until cancelled."""
        while True:
            try:
                await self._follow()
            except Exception as error:  # noqa: BLE001 - an informer that ends would leave its controllers blind
                self._note_failure(error)
            if self._failures:
                await asyncio.sleep(RETRIES.delay(self._failures).total_seconds())

    async def _follow(self) -> None:
        """List where needed, then watch until the stream ends."""
        if self._resource is None:
            self._resource = await self._client.resource(self._group, self._kind)
        if not self._resource_version:
            self._replace(await self._list(self._resource))
        loop = asyncio.get_running_loop()
        began, told = loop.time(), False
        async for event in self._watch(self._resource):
            self._note_success()
            self._take(event)
            told = True
        self._note_end(told=told, instant=loop.time() - began < INSTANT_SECONDS)

    async def _list(self, resource: Resource) -> ObjectList:
        return await self._client.list_readable(
            resource, self._namespace, labels=self._labels, metadata_only=self._metadata_only
        )

    def _watch(self, resource: Resource) -> AsyncIterator[WatchEvent]:
        return self._client.watch(
            resource,
            self._namespace,
            resource_version=self._resource_version,
            labels=self._labels,
            metadata_only=self._metadata_only,
        )

    def _replace(self, listing: ObjectList) -> None:
        """Make the store equal to the list; what it misses was deleted while nobody watched."""
        listed = {key_of(item): item for item in listing.items}
        self.unreadable.clear()
        for key in self.cache:
            if key not in listed and not any(key == remnant.key for remnant in listing.unreadable):
                self._drop(key)
        for key, item in listed.items():
            self._keep(key, item)
        for remnant in listing.unreadable:
            self._lose(remnant)
        self._resource_version = listing.resource_version
        self._synced.set()

    def _take(self, event: WatchEvent) -> None:
        if event.unreadable:
            self._take_unreadable(event.type, UnreadableObject(event.object, event.unreadable))
            return
        if event.type == "DELETED":
            self._drop(key_of(event.object))
        elif event.type != "BOOKMARK":
            self._keep(key_of(event.object), event.object)
        self._resource_version = event.object["metadata"]["resourceVersion"]

    def _take_unreadable(self, type_: str, remnant: UnreadableObject) -> None:
        if type_ == "DELETED":
            self._drop(remnant.key)
        else:
            self._lose(remnant)
        # Without it the next bookmark or event tells how far the stream has come.
        metadata = remnant.object.get("metadata") or {}
        self._resource_version = metadata.get("resourceVersion") or self._resource_version

    def _lose(self, remnant: UnreadableObject) -> None:
        """Note that an object cannot be read."""
        key = remnant.key
        old = self.cache.get(key)
        if self._keep_unreadable and key.name and isinstance(remnant.object.get("spec"), dict):
            self._keep(key, remnant.object)
        elif old is not None and old["metadata"].get("uid") != remnant.object["metadata"].get("uid"):
            self._drop(key)
        self.unreadable[key] = remnant
        self.on_unreadable()

    def _keep(self, key: ObjectKey, manifest: Manifest) -> None:
        self.unreadable.pop(key, None)
        old = self.cache.get(key)
        if old is not None:
            before, after = old["metadata"], manifest["metadata"]
            if before.get("uid") != after.get("uid"):
                self._drop(key)
            elif before.get("resourceVersion") == after.get("resourceVersion"):
                return
        trimmed = self._trimmed(key, manifest)
        self._tell(CacheChange(key, self.cache.put(key, trimmed), trimmed))

    def _drop(self, key: ObjectKey) -> None:
        self.unreadable.pop(key, None)
        old = self.cache.remove(key)
        if old is not None:
            self._tell(CacheChange(key, old, None))

    def _trimmed(self, key: ObjectKey, manifest: Manifest) -> Manifest:
        try:
            return self._trim(manifest)
        except Exception:
            log.exception("%s %s cannot be trimmed and is kept whole", self, key)
            return manifest

    def _tell(self, change: CacheChange) -> None:
        for handler in tuple(self._handlers):
            self._call(handler, change)

    def _call(self, handler: Handler, change: CacheChange) -> None:
        try:
            handler(change)
        except Exception:
            log.exception("A subscriber of %s fails on %s", self, change.key)

    def _note_end(self, *, told: bool, instant: bool) -> None:
        """Judge a stream that the server ended without an error, as it does every few minutes."""
        if not instant:
            self._note_success()
            return
        self._failures += 1
        self._instant_closes = 0 if told else self._instant_closes + 1
        if self._instant_closes >= INSTANT_CLOSES:
            log.info("%s: the server ends every watch at once; listing again", self)
            self._instant_closes = 0
            self._resource_version = ""

    def _note_success(self) -> None:
        self._failures = 0
        self._instant_closes = 0
        if self.health.succeeded():
            log.info("%s: watching again", self)

    def _note_failure(self, error: Exception) -> None:
        self._failures += 1
        if isinstance(error, (NotFound, KindNotServed)) and self._resource is not None:
            # Its definition went or moved to another version. The objects stay in the store until the kind is served
            # again: an API server that just started does not know its custom kinds for a moment.
            self._resource = None
            self._client.forget_discovery()
        if isinstance(error, (Expired, NotFound, KindNotServed)) or not isinstance(error, ClusterStacksError):
            self._resource_version = ""
        text = str(error)
        if not self.health.failed(text):
            return
        if isinstance(error, ClusterStacksError):
            log.warning("%s: %s; trying again", self, text)
        else:
            log.error("%s: unexpected failure, please report it; trying again", self, exc_info=error)
