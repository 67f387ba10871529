"""Informer: keeps a cache equal to the server by list and watch, and notifies subscribers of every change."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from datetime import timedelta
from typing import TYPE_CHECKING, Final, TypeAlias

from clusterstacks.model.errors import ClusterStacksError
from clusterstacks.model.objects import Manifest, ObjectKey, drop_managed_fields
from clusterstacks.net.kube.errors import Expired, KindNotServed, NotFound
from clusterstacks.net.kube.resources import UnreadableObject
from clusterstacks.runtime.backoff import BackOff
from clusterstacks.runtime.cache import CacheChange, Index, ObjectCache, key_of
from clusterstacks.runtime.clock import SYSTEM_CLOCK
from clusterstacks.runtime.component_health import ComponentHealth

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from clusterstacks.net.kube.client import Client
    from clusterstacks.net.kube.resources import ObjectList, Resource, WatchEvent
    from clusterstacks.runtime.clock import Clock

__all__ = ["CacheChange", "Handler", "Index", "Informer", "ObjectCache", "Trim", "key_of"]

Handler: TypeAlias = Callable[[CacheChange], None]
"""Called on the event loop for every change, in order; must not block."""

Trim: TypeAlias = Callable[[Manifest], Manifest]
"""Returns the part of an object to cache; must keep metadata.name, namespace, uid and resourceVersion."""

RETRIES: Final = BackOff(first=timedelta(seconds=1), limit=timedelta(seconds=30))

INSTANT_SECONDS: Final = 1.0
"""A watch that ends earlier is not reopened immediately (arbitrary)."""

INSTANT_CLOSES: Final = 3
"""Number of consecutive watches that end immediately without an event, after which the objects are listed again: the
resource version may have expired although the server does not return 410 (kubernetes/kubernetes#137089). The number is
arbitrary."""

OWN_WRITE_SECONDS: Final = 2.0
"""Age up to which the response of an own write is as good as a read: an action takes longer than that (arbitrary)."""

log = logging.getLogger(__name__)


class Informer:
    """Lists, then watches, forever; after a gap, the list is compared with the cache, so deletions are found as well.

    Subscribers see an object added before it is changed or deleted. If another object with the same name replaced it,
    they see the deletion before the addition. Only cancellation ends ``run``: while the kind is not served or the
    server not reachable, the cache keeps its content and the informer retries after up to 30 s.

    An object that cannot be read is in ``unreadable`` and does not affect other objects. The cache keeps its last
    readable version. With ``keep_unreadable`` the cache has its readable part instead, so readers that need only
    metadata and the upper levels of spec and status see the current values, even if the object never was readable.

    An empty ``group`` is the core group, an empty ``namespace`` all namespaces, and ``labels`` a label selector.
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
        self.health = ComponentHealth(clock=clock)
        self.unreadable: dict[ObjectKey, UnreadableObject] = {}
        """By key; the key is empty if the name cannot be read."""
        self.on_unreadable: Callable[[], None] = lambda: None
        """Called when an object is added to ``unreadable``."""
        self._client = client
        self._group = group
        self._kind = kind
        self._namespace = namespace
        self._labels = labels
        self._trim = trim
        self._metadata_only = metadata_only
        self._keep_unreadable = keep_unreadable
        self._handlers: list[Handler] = []
        self._clock = clock
        self._own_writes: dict[ObjectKey, tuple[Manifest, float]] = {}
        """The responses of own writes with their times, the oldest first."""
        self._resource: Resource | None = None
        self._resource_version = ""  # empty: list before the next watch
        self._synced = asyncio.Event()
        self._instant_closes = 0
        self._failures = 0
        self._open_timer: asyncio.TimerHandle | None = None

    def __str__(self) -> str:
        return f"{self._kind}.{self._group}" if self._group else self._kind

    @property
    def resource(self) -> Resource:
        """The resource as served by the server; LookupError before discovery has found it."""
        if self._resource is None:
            raise LookupError(f"{self}: discovery has not found the resource yet; wait for synced()")
        return self._resource

    @property
    def is_synced(self) -> bool:
        """True if the first list is complete."""
        return self._synced.is_set()

    def follows(self, key: ObjectKey) -> bool:
        """Return whether the cache agrees with the server about the object, except for the delay of the watch."""
        watched = not self._namespace or key.namespace == self._namespace
        return watched and self.is_synced and not self.health.is_failing and key not in self.unreadable

    async def synced(self) -> None:
        """Wait until the first list is complete, which never ends if the kind is not served."""
        await self._synced.wait()

    def subscribe(self, handler: Handler) -> Callable[[], None]:
        """Call the handler for every cached object now, and for every further change.

        Exceptions of a handler are logged and do not end its subscription. The returned function ends it.
        """
        self._handlers.append(handler)
        for key in self.cache:
            self._call(handler, CacheChange(key, None, self.cache.get(key)))
        return lambda: self._handlers.remove(handler)

    def written(self, manifest: Manifest) -> None:
        """Put the response of our own write into the cache, so that a later reader does not see an older state.

        Ignored if the watch has passed this version: the object may have been deleted since.
        """
        key, now = key_of(manifest), self._clock.monotonic()
        if self._resource_version and _version(manifest) > _number(self._resource_version):
            self._put(key, manifest)
        while self._own_writes and now - next(iter(self._own_writes.values()))[1] > OWN_WRITE_SECONDS:
            del self._own_writes[next(iter(self._own_writes))]
        self._own_writes.pop(key, None)
        self._own_writes[key] = (manifest, now)

    def just_written(self, key: ObjectKey) -> Manifest | None:
        """Return an object as our own write left it a moment ago; None if there was none, or it has changed since."""
        manifest, written_at = self._own_writes.get(key, (None, 0.0))
        if manifest is None or self._clock.monotonic() - written_at > OWN_WRITE_SECONDS or not self.follows(key):
            return None
        known = self.cache.get(key)
        return manifest if known is not None and _version(known) == _version(manifest) else None

    async def run(self) -> None:
        """List and watch until cancelled; failures are logged and retried."""
        while True:
            try:
                await self._list_and_watch()
            except Exception as error:  # noqa: BLE001 - controllers depend on a running informer
                self._note_failure(error)
            if self._failures:
                await asyncio.sleep(RETRIES.delay(self._failures).total_seconds())

    async def _list_and_watch(self) -> None:
        """List if there is no resource version to watch from, then watch until the stream ends."""
        if self._resource is None:
            self._resource = await self._client.resource(self._group, self._kind)
        if not self._resource_version:
            self._replace(await self._list(self._resource))
        loop = asyncio.get_running_loop()
        started, received = loop.time(), False
        try:
            async for event in self._watch(self._resource):
                self._note_success()
                self._handle_event(event)
                received = True
        finally:
            if self._open_timer is not None:
                self._open_timer.cancel()
        self._note_end(received=received, instant=loop.time() - started < INSTANT_SECONDS)

    def _note_open(self) -> None:
        """Count a watch that stays open as a success: without changes it has no event until the server ends it."""
        self._open_timer = asyncio.get_running_loop().call_later(INSTANT_SECONDS, self._note_success)

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
            on_open=self._note_open,
        )

    def _replace(self, listing: ObjectList) -> None:
        """Make the cache equal to the list; objects that are not in the list were deleted during the gap."""
        listed = {key_of(item): item for item in listing.items}
        self.unreadable.clear()
        for key in self.cache:
            if key not in listed and not any(key == unreadable.key for unreadable in listing.unreadable):
                self._remove(key)
        for key, item in listed.items():
            self._put(key, item)
        for unreadable in listing.unreadable:
            self._note_unreadable(unreadable)
        self._resource_version = listing.resource_version
        self._synced.set()

    def _handle_event(self, event: WatchEvent) -> None:
        if event.unreadable:
            self._handle_unreadable(event.type, UnreadableObject(event.object, event.unreadable))
            return
        known = self.cache.get(key_of(event.object)) if event.type != "BOOKMARK" else None
        if known is not None and 0 < _version(event.object) < _version(known):
            pass  # our own write, which is in the cache already, came after it
        elif event.type == "DELETED":
            self._remove(key_of(event.object))
        elif event.type != "BOOKMARK":
            self._put(key_of(event.object), event.object)
        self._resource_version = event.object["metadata"]["resourceVersion"]

    def _handle_unreadable(self, type_: str, unreadable: UnreadableObject) -> None:
        if type_ == "DELETED":
            self._remove(unreadable.key)
        else:
            self._note_unreadable(unreadable)
        # If it is missing, the next bookmark or event has a newer one.
        metadata = unreadable.object.get("metadata") or {}
        self._resource_version = metadata.get("resourceVersion") or self._resource_version

    def _note_unreadable(self, unreadable: UnreadableObject) -> None:
        """Record an unreadable object; the cache must not keep an object that it replaced."""
        key = unreadable.key
        old = self.cache.get(key)
        if self._keep_unreadable and key.name and isinstance(unreadable.object.get("spec"), dict):
            self._put(key, unreadable.object)
        elif old is not None and old["metadata"].get("uid") != unreadable.object["metadata"].get("uid"):
            self._remove(key)
        self.unreadable[key] = unreadable
        self.on_unreadable()

    def _put(self, key: ObjectKey, manifest: Manifest) -> None:
        self.unreadable.pop(key, None)
        old = self.cache.get(key)
        if old is not None:
            before, after = old["metadata"], manifest["metadata"]
            if before.get("uid") != after.get("uid"):
                self._remove(key)
            elif before.get("resourceVersion") == after.get("resourceVersion"):
                return
        trimmed = self._trimmed(key, manifest)
        self._notify(CacheChange(key, self.cache.put(key, trimmed), trimmed))

    def _remove(self, key: ObjectKey) -> None:
        self.unreadable.pop(key, None)
        old = self.cache.remove(key)
        if old is not None:
            self._notify(CacheChange(key, old, None))

    def _trimmed(self, key: ObjectKey, manifest: Manifest) -> Manifest:
        try:
            return self._trim(manifest)
        except Exception:
            log.exception("%s %s cannot be trimmed and is cached completely", self, key)
            return manifest

    def _notify(self, change: CacheChange) -> None:
        for handler in tuple(self._handlers):
            self._call(handler, change)

    def _call(self, handler: Handler, change: CacheChange) -> None:
        try:
            handler(change)
        except Exception:
            log.exception("A subscriber of %s failed on %s", self, change.key)

    def _note_end(self, *, received: bool, instant: bool) -> None:
        """Handle a stream that the server ended without an error, as it does every few minutes."""
        if not instant:
            self._note_success()
            return
        self._failures += 1
        self._instant_closes = 0 if received else self._instant_closes + 1
        if self._instant_closes >= INSTANT_CLOSES:
            log.info("%s: the server ends every watch immediately; listing again", self)
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
            # The CRD was deleted or changed its versions. The cache keeps the objects until the kind is served again,
            # because an API server does not serve custom resources immediately after its start.
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


def is_older(manifest: Manifest, known: Manifest) -> bool:
    """Return whether a manifest is an earlier version of the same object than a known one."""
    same = manifest["metadata"].get("uid") == known["metadata"].get("uid")
    return same and 0 < _version(manifest) < _version(known)


def _version(manifest: Manifest) -> int:
    return _number(manifest["metadata"].get("resourceVersion", ""))


# Source: https://kubernetes.io/docs/reference/using-api/api-concepts/#resource-versions
def _number(resource_version: str) -> int:
    """Return 0 for a text that is not a number, which no Kubernetes API server returns."""
    return int(resource_version) if resource_version.isdecimal() else 0
