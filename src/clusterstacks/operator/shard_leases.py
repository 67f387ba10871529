"""Watches the Leases of the shards, for the main instance: which run, and which Clusters nobody serves."""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from datetime import timedelta
from typing import TYPE_CHECKING, Final

from clusterstacks.model.errors import DependencyError
from clusterstacks.model.kinds.shards import MAIN, lease_name, shard_of
from clusterstacks.runtime.clock import seconds_since_boot
from clusterstacks.runtime.leader_election import LEASES
from clusterstacks.runtime.leases import LeaseRecord, ObservedRecord, has_ended, observe, read_record

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from clusterstacks.model.objects import Manifest, ObjectKey
    from clusterstacks.net.kube.client import Client
    from clusterstacks.runtime.cache import ObjectCache

LOOK_INTERVAL: Final = timedelta(seconds=5)
"""Interval between two looks at the Leases; a holder renews its Lease every 2 s. Arbitrary."""

REPORT_AFTER: Final = timedelta(minutes=1)
"""Time without a holder after which a shard is reported: the restart of its only replica takes less. Arbitrary."""

MOST_SHARDS: Final = 100
"""Leases that are looked at; users may write any label while no webhook answers. Arbitrary."""

log = logging.getLogger(__name__)


class ShardLeases:
    """The Leases of the shards that Clusters name.

    As in leader election, a Lease has ended when its record did not change for its duration, by the clock of this
    process; the clocks of the machines do not matter.
    """

    def __init__(
        self, client: Client, namespace: str, clusters: ObjectCache, report: Callable[[ObjectKey], None]
    ) -> None:
        self._client = client
        self._namespace = namespace
        self._clusters = clusters
        self._report = report
        self._seen: dict[str, ObservedRecord] = {}
        self._ended: dict[str, float] = {}
        """By shard without a holder, when that was noticed."""

    async def run(self) -> None:
        """Look until cancelled; ``report`` is called with each Cluster of a shard that begins to be unserved."""
        while True:
            before = set(self.unserved())
            for shard in sorted(_wanted(self._clusters.all()))[:MOST_SHARDS]:
                try:
                    await self.is_running(shard)
                except DependencyError as error:
                    log.warning("It is not known whether shard %s runs: %s", shard, error)
            for shard in self.unserved().keys() - before:
                log.warning("Shard %s does not run, so nothing is delivered to its Clusters", shard)
                for key in self._clusters:
                    if shard_of(self._clusters.get(key)) == shard:
                        self._report(key)
            await asyncio.sleep(LOOK_INTERVAL.total_seconds())

    async def is_running(self, shard: str) -> bool:
        """Read the Lease of a shard, and return whether one of its instances may hold it."""
        if len(self._seen) > 2 * MOST_SHARDS:
            self._seen.clear()  # the holders are observed anew
        lease = await self._client.find(LEASES, lease_name(shard), self._namespace)
        now = seconds_since_boot()
        record = read_record(lease) if lease is not None else LeaseRecord()
        seen = self._seen[shard] = observe(self._seen.get(shard), record, now)
        if has_ended(seen, now):
            self._ended.setdefault(shard, now)
        else:
            self._ended.pop(shard, None)
        return shard not in self._ended

    def unserved(self) -> dict[str, int]:
        """Return the number of Clusters of each shard that has not run for ``REPORT_AFTER``."""
        limit = seconds_since_boot() - REPORT_AFTER.total_seconds()
        stopped = [shard for shard, since in self._ended.items() if since <= limit]
        wanted = _wanted(self._clusters.all()) if stopped else Counter[str]()
        return {shard: wanted[shard] for shard in stopped if wanted[shard]}


def _wanted(clusters: Iterable[Manifest]) -> Counter[str]:
    """Count the Clusters of each shard but the main instance."""
    return Counter(shard for cluster in clusters if (shard := shard_of(cluster)) != MAIN)
