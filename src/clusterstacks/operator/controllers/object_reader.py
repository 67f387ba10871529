"""Reads objects from the caches of informers, so that a reconcile that finds nothing to do sends no request."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING, Protocol

from clusterstacks.model.errors import DependencyError
from clusterstacks.model.objects import Manifest, ObjectKey
from clusterstacks.runtime.informer import is_older

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from clusterstacks.net.kube.client import Client
    from clusterstacks.net.kube.resources import Resource
    from clusterstacks.runtime.cache import CacheChange
    from clusterstacks.runtime.informer import Informer

MAX_KINDS = 32
"""Further kinds that are watched. Arbitrary: a provider has two for each kind of cluster, and a class about five.
Objects of more kinds are read from the API server."""

SYNC_WAIT = timedelta(seconds=2)
"""Time limit for the first list of a kind, which takes some milliseconds; afterwards the object is read from the API
server. Arbitrary."""


class Reader(Protocol):
    """Finds objects: live, or in the caches of informers."""

    async def resource(self, group: str, kind: str, version: str = "") -> Resource:
        """Return the served resource of a kind; see ``Client.resource``."""

    async def find(self, resource: Resource, name: str, namespace: str = "") -> Manifest | None:
        """Read one object; None if it does not exist."""


@dataclass(frozen=True, slots=True)
class LiveReader:
    """Reads from the API server, and refuses versions that are older than the cache was before the request.

    An object that we wrote a moment ago is not read again: the response of the write had it.

    A proxy or a replica may answer with an old version. A reconcile that believes it misses the change that caused it,
    and no other change follows.
    """

    client: Client
    informers: Mapping[tuple[str, str], Informer]

    async def resource(self, group: str, kind: str, version: str = "") -> Resource:
        """Return the served resource of a kind; see ``Client.resource``."""
        return await self.client.resource(group, kind, version)

    async def find(self, resource: Resource, name: str, namespace: str = "") -> Manifest | None:
        """Read one object; None if it does not exist. An answer older than the cache raises DependencyError."""
        key = ObjectKey(namespace, name)
        informer = self.informers.get((resource.group, resource.kind))
        if informer is not None and (written := informer.just_written(key)) is not None:
            return written
        known = informer.cache.get(key) if informer is not None else None
        manifest = await self.client.find(resource, name, namespace)
        if manifest is not None and known is not None and is_older(manifest, known):
            raise DependencyError(
                "StaleAnswer",
                f"get {resource} {key}: the API server returned an earlier version than before; it is read again",
            )
        return manifest


@dataclass(slots=True, kw_only=True)
class CachedReader:
    """Reads from informers, and from the API server what they do not have.

    The caches may lag behind the server. So a decision from them must be harmless when it is outdated: to do nothing,
    because the change enqueues the object again, or to write a status with a test that it is still the one that was
    read. The API server is read where an informer cannot follow it, and for objects that cannot be read completely.
    """

    client: Client
    informers: Mapping[tuple[str, str], Informer]
    watch_kind: Callable[[str, str], Informer] | None = None
    """Builds and starts the informer of a further kind; None reads further kinds from the API server."""
    changed: Callable[[CacheChange], None] = lambda _: None
    """Called for each change of an object of a further kind."""
    _further: dict[tuple[str, str], Informer] = field(default_factory=dict)

    async def resource(self, group: str, kind: str, version: str = "") -> Resource:
        """Return the served resource of a kind; see ``Client.resource``."""
        return await self.client.resource(group, kind, version)

    async def find(self, resource: Resource, name: str, namespace: str = "") -> Manifest | None:
        """Read one object; None if it does not exist."""
        key = ObjectKey(namespace, name)
        informer = await self.informer(resource.group, resource.kind)
        if informer is None or not informer.follows(key) or informer.resource.version != resource.version:
            return await self.client.find(resource, name, namespace)
        return informer.cache.get(key)

    def written(self, manifest: Manifest, group: str) -> None:
        """Put the response of our own write into the cache of its informer, if its kind has one."""
        informer = self.informers.get((group, manifest["kind"]))
        if informer is not None:
            informer.written(manifest)

    async def informer(self, group: str, kind: str) -> Informer | None:
        """Return the informer of a kind, which the first call starts; None while its first list is not complete."""
        place = (group, kind)
        informer = self.informers.get(place) or self._further.get(place)
        if informer is None:
            if self.watch_kind is None or len(self._further) >= MAX_KINDS:
                return None
            informer = self._further[place] = self.watch_kind(group, kind)
            informer.subscribe(partial(self._changed, informer))
        if not informer.is_synced and not informer.health.is_failing:
            with suppress(TimeoutError):
                await asyncio.wait_for(informer.synced(), SYNC_WAIT.total_seconds())
        return informer if informer.is_synced else None

    def _changed(self, informer: Informer, change: CacheChange) -> None:
        if informer.is_synced:  # readers wait for the first list
            self.changed(change)
