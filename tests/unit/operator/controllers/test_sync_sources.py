"""The parsed sources of syncs: how long they are used, and how much memory they take together."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, cast

import pytest

from clusterstacks.model import yaml
from clusterstacks.model.kinds.clusterresourcesync import SyncSourceKind
from clusterstacks.model.objects import ObjectKey
from clusterstacks.operator.controllers.clusterresourcesync import sync_sources
from clusterstacks.operator.controllers.clusterresourcesync.sync_sources import SyncSources
from tests.support.builders.manifests import config_map, named

if TYPE_CHECKING:
    from clusterstacks.model.objects import Manifest

VALUES = 10_000
CLUSTER = named("cluster.x-k8s.io/v1beta2", "Cluster", "one", "team")


@dataclass
class Server:
    """The management cluster, and a clock: every Secret has as many values as ``values``."""

    values: int = 1
    now: float = 0.0
    version: str = "1"
    reads: list[str] = field(default_factory=list)

    def monotonic(self) -> float:
        return self.now

    async def resource(self, _group: str, kind: str) -> str:
        return kind

    async def find(self, kind: str, name: str, namespace: str) -> Manifest:
        self.reads.append(name)
        await asyncio.sleep(0)
        found = {**config_map(name), "spec": [0] * self.values}
        source = named("v1", kind, name, namespace, data={"a": yaml.dump(found)})
        source["metadata"] |= {"uid": name, "resourceVersion": self.version}
        return source


class Unwatched:
    def follows(self, _key: object) -> bool:
        return False


def sources(server: Server) -> SyncSources:
    return SyncSources(cast("Any", server), cast("Any", server), cast("Any", None), cast("Any", Unwatched))


async def read(known: SyncSources, name: str, *, template: bool = False) -> None:
    # What is rendered from a template is not kept.
    await known._read(SyncSourceKind.CONFIG_MAP, ObjectKey("team", name), is_template=template)


@pytest.mark.parametrize("template", [False, True], ids=["objects", "templates"])
async def test_sources_of_many_tenants_take_no_more_memory_than_the_bound(
    monkeypatch: pytest.MonkeyPatch, *, template: bool
) -> None:
    server = Server(values=1000)
    known = sources(server)
    await read(known, "first", template=template)
    (one,) = known._known.values()
    monkeypatch.setattr(sync_sources, "KEPT_BYTES", 5 * one.weight)
    for number in range(20):
        await read(known, f"s{number}", template=template)
        await read(known, "first", template=template)
        assert sum(kept.weight for kept in known._known.values()) <= 5 * one.weight
    assert known._locks.keys() == known._known.keys()
    assert [name for _, (_, name), _ in known._known] == ["s16", "s17", "s18", "s19", "first"]
    assert server.reads == ["first", *(f"s{number}" for number in range(20))]


async def test_weight_of_a_source_counts_its_values() -> None:
    server = Server()
    known = sources(server)
    await read(known, "small")
    server.values = VALUES
    await read(known, "large")
    small, large = known._known.values()
    assert large.weight - small.weight > VALUES * 40
    assert large.weight < sync_sources.KEPT_BYTES


async def test_source_that_is_read_all_the_time_is_looked_at_when_it_is_not_fresh_any_more() -> None:
    """As a Secret of many clusters, or a ConfigMap that is not watched: each of its reads made it fresh again."""
    server = Server()
    known = sources(server)
    for number in range(11):
        server.now = number * sync_sources.FRESH_SECONDS / 2
        await read(known, "secret")
    assert len(server.reads) == 6
