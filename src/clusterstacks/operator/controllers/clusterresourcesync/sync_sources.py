"""Reads the sources of syncs, once for all clusters of a sync."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from clusterstacks.deliver.apply.source_objects import SourceObjects, read_source
from clusterstacks.deliver.apply.targets import digest_of

if TYPE_CHECKING:
    from clusterstacks.model.objects import ObjectKey
    from clusterstacks.net.kube.client import Client
    from clusterstacks.runtime.clock import Clock

FRESH_SECONDS: Final = 2.0
"""Age up to which a source is not read again: the clusters of a sync are reconciled together. Arbitrary."""

KEPT_SECONDS: Final = 3600.0
"""Time after which a source that is not read any more is dropped. Arbitrary."""


@dataclass(frozen=True, slots=True)
class ReadSource:
    """The objects of a source with their digest."""

    objects: SourceObjects
    digest: str
    revision: str
    read_at: float


@dataclass(slots=True)
class SyncSources:
    """The sources that syncs name. A source with an unchanged resourceVersion is not parsed again."""

    client: Client
    clock: Clock
    _known: dict[tuple[str, ObjectKey], ReadSource] = field(default_factory=dict, init=False)
    _locks: dict[tuple[str, ObjectKey], asyncio.Lock] = field(
        default_factory=lambda: defaultdict(asyncio.Lock), init=False
    )

    async def read(self, kind: str, key: ObjectKey) -> ReadSource:
        """Read a ConfigMap or Secret.

        Raises:
            DependencyError: The API server does not answer, or refuses the read.
        """
        place = (kind, key)
        async with self._locks[place]:
            known, now = self._known.get(place), self.clock.monotonic()
            if known is not None and now - known.read_at < FRESH_SECONDS:
                return known
            source = await self.client.find(await self.client.resource("", kind), key.name, key.namespace)
            metadata = (source or {}).get("metadata") or {}
            revision = f"{metadata.get('uid', '')}/{metadata.get('resourceVersion', '')}"
            if known is not None and known.revision == revision:
                objects, digest = known.objects, known.digest
            else:
                # Parsing a megabyte in this thread would delay all other requests.
                objects, digest = await asyncio.to_thread(_parsed, kind, key, source)
            read = self._known[place] = ReadSource(objects, digest, revision, now)
        for stale in [one for one, other in self._known.items() if now - other.read_at > KEPT_SECONDS]:
            self._known.pop(stale)
            self._locks.pop(stale, None)
        return read


def _parsed(kind: str, key: ObjectKey, source: dict[str, object] | None) -> tuple[SourceObjects, str]:
    objects = read_source(kind, key, source)
    return objects, digest_of([list(objects.manifests), list(objects.faults)])
