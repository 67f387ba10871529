"""Addons and resource syncs of one cluster: each has its own records, and no object belongs to two of them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from clusterstacks.deliver.apply.delivery import RECORD_NAMESPACE, Delivery, ReleaseAddons, Revision
from clusterstacks.deliver.apply.messages import ObjectInTwoAddons
from clusterstacks.deliver.apply.record_store import RECORD_LABEL, SECRETS, SYNC_RECORD, RecordStore
from clusterstacks.model.kinds.names import Reason
from tests.support.builders.manifests import config_map, crd, named

if TYPE_CHECKING:
    from clusterstacks.deliver.apply.delivery_plan import DeliveryRecord
    from clusterstacks.net.kube.client import Client
    from tests.integration.apply.conftest import Cluster


def syncs(client: Client) -> Delivery:
    return Delivery(client, store=RecordStore(client, RECORD_NAMESPACE, kind=SYNC_RECORD))


def revision(*names: str, inputs: str = "inputs", **values: str) -> Revision:
    return Revision.of([config_map(name, **values) for name in names], inputs)


async def current(_: DeliveryRecord) -> bool:
    return True


async def test_rollout_of_addons_keeps_a_sync_of_the_same_name_with_its_crd_and_custom_resources(
    cluster: Cluster, unique: str
) -> None:
    kind, group = "Widget", f"{unique}.example.org"
    widget = named(f"{group}/v1", kind, unique, "default")
    await syncs(cluster.client).install(unique, Revision.of([widget, crd(kind, group)], "inputs"))
    addons = Delivery(cluster.client)
    await addons.install(unique, revision(unique))
    await addons.install(f"{unique}-old", revision(f"{unique}-old"))

    report = await addons.prune((unique,))

    assert {removal.id.name for removal in report.removals} == {f"{unique}-old"}
    assert await cluster.live(kind, unique, "default", group)
    assert unique in await syncs(cluster.client).records()


async def test_departure_of_all_addons_keeps_syncs(cluster: Cluster, unique: str) -> None:
    await syncs(cluster.client).install(unique, revision(f"{unique}-sync"))
    await Delivery(cluster.client).install(unique, revision(f"{unique}-addon"))

    await Delivery(cluster.client).prune(())

    assert await cluster.live("ConfigMap", f"{unique}-sync", "kube-system")
    assert await cluster.live("ConfigMap", f"{unique}-addon", "kube-system") is None


async def test_prune_and_removal_of_a_sync_keep_addons_and_other_syncs(cluster: Cluster, unique: str) -> None:
    await Delivery(cluster.client).install(unique, revision(f"{unique}-addon"))
    mine = syncs(cluster.client)
    await mine.install("other", revision(f"{unique}-other"))
    await mine.install(unique, revision(f"{unique}-old", inputs="old"))
    await mine.install(unique, revision(f"{unique}-new", inputs="new"))

    await mine.prune_addon(unique)
    assert await cluster.live("ConfigMap", f"{unique}-old", "kube-system") is None
    await mine.remove(unique)

    assert await cluster.live("ConfigMap", f"{unique}-new", "kube-system") is None
    assert await cluster.live("ConfigMap", f"{unique}-other", "kube-system")
    assert await cluster.live("ConfigMap", f"{unique}-addon", "kube-system")


async def test_object_of_an_addon_is_refused_to_a_sync(cluster: Cluster, unique: str) -> None:
    await Delivery(cluster.client).install("network", revision(unique, key="addon"))

    with pytest.raises(ObjectInTwoAddons, match=rf"sync extra and addon network both .*ConfigMap .*{unique}") as caught:
        await syncs(cluster.client).install("extra", revision(unique, f"{unique}-2", key="sync"))

    assert caught.value.code == Reason.OBJECT_CLAIMED_TWICE
    live = await cluster.live("ConfigMap", unique, "kube-system")
    assert live is not None
    assert live["data"] == {"key": "addon"}
    assert await cluster.live("ConfigMap", f"{unique}-2", "kube-system") is None


async def test_object_of_a_sync_is_refused_to_an_addon(cluster: Cluster, unique: str) -> None:
    await syncs(cluster.client).install("extra", revision(unique, key="sync"))

    with pytest.raises(ObjectInTwoAddons, match="addon network and sync extra both"):
        await Delivery(cluster.client).install(
            "network", revision(unique, key="addon"), siblings=ReleaseAddons(("network",), current)
        )

    live = await cluster.live("ConfigMap", unique, "kube-system")
    assert live is not None
    assert live["data"] == {"key": "sync"}


async def test_object_of_a_sync_is_refused_to_another_sync_until_it_leaves_the_first(
    cluster: Cluster, unique: str
) -> None:
    await syncs(cluster.client).install("first", revision(unique, key="first"))

    with pytest.raises(ObjectInTwoAddons, match="sync second and sync first both"):
        await syncs(cluster.client).install("second", revision(unique, key="second"))

    await syncs(cluster.client).install("first", revision(f"{unique}-other", inputs="other"))
    report = await syncs(cluster.client).install("second", revision(unique, key="second"))
    assert report.synced
    await syncs(cluster.client).prune_addon("first")
    live = await cluster.live("ConfigMap", unique, "kube-system")
    assert live is not None
    assert live["data"] == {"key": "second"}


async def test_operator_that_does_not_know_syncs_does_not_list_their_records(cluster: Cluster, unique: str) -> None:
    """It would delete the records, with their objects, as those of addons that left the release."""
    await syncs(cluster.client).install(unique, revision(unique))

    listed = await cluster.user.list(SECRETS, RECORD_NAMESPACE, labels=f"{RECORD_LABEL}=addon")
    assert [item["metadata"]["name"] for item in listed.items] == []
