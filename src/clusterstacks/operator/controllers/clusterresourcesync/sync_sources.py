"""Reads the sources of syncs, once for all clusters of a sync."""

from __future__ import annotations

import asyncio
from collections import OrderedDict, defaultdict
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final, TypeAlias

from clusterstacks.deliver.apply.source_objects import SourceObjects, read_source
from clusterstacks.deliver.apply.targets import digest_of
from clusterstacks.model.documents import text
from clusterstacks.model.kinds.clusterresourcesync import SyncSourceKind
from clusterstacks.model.objects import ObjectKey
from clusterstacks.operator.controllers.clusterresourcesync.source_templates import render_source
from clusterstacks.runtime.cache import key_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from clusterstacks.deliver.render.renderer import Renderer
    from clusterstacks.model.kinds.clusterresourcesync import SyncSource
    from clusterstacks.model.objects import Manifest
    from clusterstacks.net.kube.client import Client
    from clusterstacks.runtime.clock import Clock
    from clusterstacks.runtime.informer import Informer

_Place: TypeAlias = tuple[str, ObjectKey, bool]
"""Kind and name of a source, and whether its values are templates."""

FRESH_SECONDS: Final = 2.0
"""Age up to which a source that is not watched is not read again: the clusters of a sync are reconciled together.
Arbitrary."""

KEPT_BYTES: Final = 64 * 1024 * 1024
"""Memory of all parsed sources together; the least recently used are dropped above it. A source of 1 MiB takes up to
30 MB. Arbitrary."""

ENTRY_BYTES: Final = 2000
"""Memory of a source without its objects (measured)."""


@dataclass(frozen=True, slots=True)
class ReadSource:
    """A source, and its objects with their digest.

    Args:
        source: The ConfigMap or Secret, if its values are templates; it has no objects before they are rendered.
        weight: The memory that it takes, in bytes.
    """

    objects: SourceObjects
    digest: str
    revision: str
    read_at: float
    source: Manifest | None = None
    weight: int = 0


@dataclass(slots=True)
class SyncSources:
    """The sources that syncs name. A source with an unchanged resourceVersion is not parsed again while it is kept.

    A ConfigMap is read when the watch of their metadata, which begins with the first one, has another version of it.
    Secrets are read each time, because a watch would need the right to read all of them.
    """

    client: Client
    clock: Clock
    renderer: Renderer
    watch_config_maps: Callable[[], Informer]
    """Starts the watch of the metadata of all ConfigMaps."""
    _config_maps: Informer | None = field(default=None, init=False)
    _known: OrderedDict[_Place, ReadSource] = field(default_factory=OrderedDict, init=False)
    """The least recently used first."""
    _parsing: asyncio.Lock = field(default_factory=asyncio.Lock, init=False)
    _locks: dict[_Place, asyncio.Lock] = field(default_factory=lambda: defaultdict(asyncio.Lock), init=False)

    async def read(self, source: SyncSource, cluster: Manifest) -> tuple[SourceObjects, str]:
        """Return the objects of a source for a Cluster, and their digest.

        Raises:
            DependencyError: The API server does not answer, or refuses the read; no render worker is free.
        """
        key = ObjectKey(text(cluster, "metadata", "namespace"), source.name)
        found = await self._read(source.kind, key, is_template=source.template)
        if not source.template:
            return found.objects, found.digest
        renderer = self.renderer.for_object(key_of(cluster))
        objects = await render_source(renderer, source.kind, key, found.source, cluster)
        return objects, _digest(objects)

    async def _read(self, kind: str, key: ObjectKey, *, is_template: bool) -> ReadSource:
        place = (kind, key, is_template)
        if kind == SyncSourceKind.CONFIG_MAP and self._config_maps is None:
            # Before the first read, which may be the only one for a long time.
            self._config_maps = self.watch_config_maps()
        async with self._locks[place]:
            known = self._known.get(place)
            if known is None or not self._is_fresh(kind, key, known):
                known = self._known[place] = await self._read_again(kind, key, known, is_template=is_template)
            self._known.move_to_end(place)
        self._drop_least_used()
        return known

    async def _read_again(
        self, kind: str, key: ObjectKey, known: ReadSource | None, *, is_template: bool
    ) -> ReadSource:
        now = self.clock.monotonic()
        source = await self.client.find(await self.client.resource("", kind), key.name, key.namespace)
        revision = _revision(source)
        if known is not None and known.revision == revision:
            return replace(known, read_at=now)
        if is_template:
            return ReadSource(SourceObjects(""), "", revision, now, source, ENTRY_BYTES + len(str(source)))
        # Parsing a megabyte in this thread would delay all other requests, and several at once much memory.
        async with self._parsing:
            objects, digest = await asyncio.to_thread(_parsed, kind, key, source)
        return ReadSource(objects, digest, revision, now, weight=ENTRY_BYTES + objects.memory)

    def _is_fresh(self, kind: str, key: ObjectKey, known: ReadSource) -> bool:
        if kind == SyncSourceKind.CONFIG_MAP and self._config_maps is not None and self._config_maps.follows(key):
            return known.revision == _revision(self._config_maps.cache.get(key))
        return self.clock.monotonic() - known.read_at < FRESH_SECONDS

    def _drop_least_used(self) -> None:
        weight = sum(one.weight for one in self._known.values())
        while weight > KEPT_BYTES:
            place, dropped = self._known.popitem(last=False)
            self._locks.pop(place, None)
            weight -= dropped.weight


def _revision(source: Manifest | None) -> str:
    return f"{text(source or {}, 'metadata', 'uid')}/{text(source or {}, 'metadata', 'resourceVersion')}"


def _parsed(kind: str, key: ObjectKey, source: dict[str, object] | None) -> tuple[SourceObjects, str]:
    objects = read_source(kind, key, source)
    return objects, _digest(objects)


def _digest(objects: SourceObjects) -> str:
    return digest_of([list(objects.manifests), list(objects.faults)])
