"""Who may write ClusterResourceSyncs, their bindings and ConfigMaps of one namespace stays in its clusters.

And in them, what the operator knows about its own deliveries is not his.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from clusterstacks.deliver.apply.record_store import (
    ADDON_RECORD,
    HEALTHY_RECORD,
    RECORD_LABEL,
    SECRETS,
    SYNC_RECORD,
    record_name,
)
from clusterstacks.model import yaml
from clusterstacks.model.kinds.clusterresourcesync import SYNC_API_VERSION, binding_name
from clusterstacks.model.kinds.names import SYNC_FINALIZER, Kind
from tests.support.builders.manifests import config_map, named
from tests.support.running.world import is_ready

if TYPE_CHECKING:
    from clusterstacks.model.objects import Manifest
    from tests.support.running.world import World

SYNC, BINDING = Kind.CLUSTER_RESOURCE_SYNC, Kind.CLUSTER_RESOURCE_SYNC_BINDING
CLASS = "plain"
"""A class of no cluster stack."""


async def sync(world: World, name: str, *manifests: Manifest, **spec: Any) -> Manifest:
    """Create a sync with a ConfigMap of its own."""
    objects = {"all.yaml": "---\n".join(map(yaml.dump, manifests))}
    await world.create({**config_map(name, world.namespace), "data": objects})
    spec = {"resources": [{"kind": "ConfigMap", "name": name}], "interval": "10s", **spec}
    return await world.create(named(SYNC_API_VERSION, SYNC, name, world.namespace, spec=spec))


async def record(world: World, name: str) -> Manifest:
    return await world.workload.get(SECRETS, record_name(name, SYNC_RECORD), "kube-system")


def forged(name: str, **metadata: Any) -> Manifest:
    metadata = {"name": name, "namespace": "kube-system", **metadata}
    return {"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "stringData": {"record": "forged"}}


@pytest.mark.regression("SEC-41")
async def test_objects_of_a_sync_are_no_delivery_records(world: World) -> None:
    """Neither that of an addon, whose objects would be deleted, nor one that makes all others unreadable."""
    word = world.namespace
    records = [record_name(f"{word}-{kind}", kind) for kind in (ADDON_RECORD, HEALTHY_RECORD, SYNC_RECORD)]
    await world.cluster("one", CLASS)
    async with world.operator():
        await sync(
            world,
            "evil",
            config_map(f"{word}-evil", key="value"),
            *(forged(name) for name in records),
            forged(f"{word}-other", labels={RECORD_LABEL: ADDON_RECORD}),
        )

        words = [f"document 2: (Secret) named {records[0]} has the name or the label of", "and 1 more"]
        await world.says(BINDING, binding_name("evil", "one"), "SourcesRead", words=words)
        await world.shows(f"{word}-evil", {"key": "value"})
        for name in (*records, f"{word}-other"):
            assert await world.workload.find(SECRETS, name, "kube-system") is None


@pytest.mark.regression("SEC-42")
async def test_binding_under_another_name_deletes_nothing_when_it_is_deleted(world: World) -> None:
    word = world.namespace
    await world.cluster("one", CLASS)
    async with world.operator():
        await sync(world, "good", config_map(word, key="good"))
        await world.until(BINDING, binding_name("good", "one"), is_ready)
        before = await record(world, "good")

        names = ("evil", binding_name("good", "two"), binding_name("other", "one"))
        for name in names:
            metadata = {"name": name, "namespace": word, "finalizers": [SYNC_FINALIZER]}
            spec = {"syncName": "good", "clusterName": "one"}
            await world.create({**named(SYNC_API_VERSION, BINDING, name, word, spec=spec), "metadata": metadata})
        for name in names:
            await world.gone(BINDING, name)
        assert await world.delivered(word) is not None
        assert await record(world, "good") == before
