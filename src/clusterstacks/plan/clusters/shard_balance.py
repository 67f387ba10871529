"""Counts the Clusters of each shard, and decides which ones to move so that the shards have about the same load."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from clusterstacks.model.documents import text
from clusterstacks.model.kinds.names import SHARD_LABEL
from clusterstacks.model.kinds.shards import MAIN, MAIN_LEASE

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from clusterstacks.model.objects import Manifest, ObjectKey

TOLERANCE: Final = 0.1
"""Difference of loads, as a part of the mean load, for which no Cluster is moved. Arbitrary."""


@dataclass(frozen=True, slots=True)
class Shard:
    """A shard with its Clusters and their loads."""

    name: str
    holder: str
    """Holder of its Lease; empty if it does not run, or that is not known."""
    clusters: Mapping[ObjectKey, int]

    @property
    def title(self) -> str:
        """Name in tables."""
        return self.name or "main"

    @property
    def load(self) -> int:
        """Load of all its Clusters."""
        return sum(self.clusters.values())

    def document(self) -> Manifest:
        """Return the shard as JSON."""
        return {"shard": self.title, "holder": self.holder, "clusters": len(self.clusters), "load": self.load}


@dataclass(frozen=True, slots=True)
class ShardMove:
    """The move of a Cluster to a shard."""

    cluster: ObjectKey
    shard: str

    @property
    def command(self) -> str:
        """The command that moves it."""
        label = f"{SHARD_LABEL}={self.shard} --overwrite" if self.shard != MAIN else f"{SHARD_LABEL}-"
        return f"kubectl label --namespace {self.cluster.namespace} cluster {self.cluster.name} {label}"


def shards_in_use(placed: Mapping[ObjectKey, tuple[str, int]], leases: Iterable[Manifest]) -> list[Shard]:
    """Return the main instance and the shards that run or that Clusters name.

    ``placed`` has the shard and the load of each Cluster.
    """
    holders = {
        name.removesuffix(MAIN_LEASE).removesuffix("."): text(lease, "spec", "holderIdentity")
        for lease in leases
        if (name := text(lease, "metadata", "name")) == MAIN_LEASE or name.endswith(f".{MAIN_LEASE}")
    }
    return [
        Shard(name, holders.get(name, ""), {key: load for key, (shard, load) in placed.items() if shard == name})
        for name in sorted({MAIN, *holders, *(shard for shard, _ in placed.values())})
    ]


def balancing_moves(shards: Sequence[Shard]) -> list[ShardMove]:
    """Return the moves after which no single further one between two of the shards is worth it, in their order."""
    if not shards:
        return []
    before = {key: shard.name for shard in shards for key in shard.clusters}
    loads = {shard.name: dict(shard.clusters) for shard in shards}
    total = {name: sum(clusters.values()) for name, clusters in loads.items()}
    moved: dict[ObjectKey, str] = {}
    while True:
        heavy, light = max(total, key=lambda name: total[name]), min(total, key=lambda name: total[name])
        gap = total[heavy] - total[light]
        movable = [(abs(gap - 2 * load), key) for key, load in loads[heavy].items() if 0 < load < gap]
        if not movable or gap <= TOLERANCE * sum(total.values()) / len(total):
            return [ShardMove(key, shard) for key, shard in moved.items() if shard != before[key]]
        _, key = min(movable)
        load = loads[light][key] = loads[heavy].pop(key)
        total[heavy] -= load
        total[light] += load
        moved[key] = light
