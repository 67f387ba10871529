"""What a store takes from a cluster whose owner writes records, and what it writes itself."""

from __future__ import annotations

import asyncio
import gzip
from base64 import b64encode
from typing import Any, cast

import orjson
import pytest

from clusterstacks.apply import record_codec, record_store
from clusterstacks.apply.delivery_plan import DeliveryRecord, DeliveryState, RecordedObject
from clusterstacks.apply.record_codec import RecordUnreadable, pack_record, pack_revision
from clusterstacks.apply.record_store import MAX_SECRET_BYTES, RecordStore, Stored, record_name
from clusterstacks.domain.errors import SpecError
from clusterstacks.domain.objects import Manifest, ObjectId
from clusterstacks.kube.resources import ObjectList
from tests.support.builders.manifests import config_map
from tests.support.observing.cpu_time import no_stall


class Cluster:
    """A cluster that has some Secrets and takes down what is written."""

    def __init__(self, *secrets: Manifest) -> None:
        self.secrets = secrets
        self.written: list[Manifest] = []

    async def list(self, *_: Any, **__: Any) -> ObjectList:
        return ObjectList(list(self.secrets), "1")

    async def create(self, _: Any, secret: Manifest, __: str) -> Manifest:
        self.written.append(secret)
        return {**secret, "metadata": {**secret["metadata"], "resourceVersion": str(len(self.written))}}

    async def merge_patch(self, _: Any, __: str, patch: Manifest, *___: Any, **____: Any) -> Manifest:
        self.written.append(patch)
        return {"metadata": {"resourceVersion": str(len(self.written))}}


def store(cluster: Cluster, name: str = "team/prod") -> RecordStore:
    return RecordStore(cast("Any", cluster), "kube-system", name)


def record(addon: str, objects: int = 1, **fields: Any) -> DeliveryRecord:
    entries = tuple(
        RecordedObject(ObjectId("", "ConfigMap", "n", f"cm-{number}"), "v1", "u") for number in range(objects)
    )
    return DeliveryRecord(addon, "d", "i", DeliveryState.PRUNED, entries, **fields)


def secret(addon: str, **values: bytes | None) -> Manifest:
    values = {"record": pack_record(record(addon)), **values}
    encoded = {key: b64encode(value).decode() for key, value in values.items() if value is not None}
    return {"metadata": {"name": record_name(addon), "resourceVersion": "7"}, "data": encoded}


BOMB = gzip.compress(b'{"pad":[' + b"[]," * 2_000_000 + b"[]]}")


async def test_bombs_among_records_are_named_and_hold_up_nobody() -> None:
    beats = 0

    async def beat() -> None:
        nonlocal beats
        while True:
            with no_stall():
                await asyncio.sleep(0)
            beats += 1

    heart = asyncio.create_task(beat())
    cluster = Cluster(secret("a"), *(secret(f"bomb{number}", record=BOMB) for number in range(6)), secret("z"))

    stored, unreadable = await store(cluster).read()

    heart.cancel()
    assert beats > 10
    assert list(stored) == ["a", "z"]
    assert sorted(unreadable) == [record_name(f"bomb{number}") for number in range(6)]
    assert "delete it to deliver the addon again" in unreadable[record_name("bomb0")]


@pytest.mark.parametrize(
    ("bound", "secrets"),
    [
        ("MAX_RECORDS", [secret(f"a{number}") for number in range(4)]),
        ("MAX_UNREADABLE", [secret(f"a{number}", record=b"") for number in range(4)]),
        ("MAX_OBJECTS_TOGETHER", [secret("a", record=pack_record(record("a", 4)))]),
    ],
)
async def test_more_records_than_any_cluster_has_are_refused(
    bound: str, secrets: list[Manifest], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(record_store, bound, 4)
    assert await store(Cluster(*secrets)).read()

    monkeypatch.setattr(record_store, bound, 3)
    with pytest.raises(
        RecordUnreadable, match=r"namespace kube-system holds .* delete those that do not belong to an addon"
    ):
        await store(Cluster(*secrets)).read()


@pytest.mark.parametrize(
    ("data", "complaint"),
    [
        (None, "it has no record"),
        ([], "it has no record"),
        ({}, "it has no record"),
        ({"record": "no base64!"}, "it has no record"),
        ({"record": 3}, "it has no record"),
        ({"record": "A" * 2_000_000}, f"its record is larger than {MAX_SECRET_BYTES} bytes"),
        ({**secret("a")["data"], "revision": "A" * 2_000_000}, f"its revision is larger than {MAX_SECRET_BYTES} bytes"),
        (secret("b")["data"], "it is the record of addon b"),
    ],
)
async def test_a_secret_of_another_shape_is_unreadable(data: Any, complaint: str) -> None:
    stored, unreadable = await store(Cluster({**secret("a"), "data": data})).read()

    assert not stored
    assert complaint in unreadable[record_name("a")]


async def test_a_revision_over_the_bounds_is_left_out() -> None:
    cluster = Cluster()
    manifests = [config_map(f"cm-{number}", key="value") for number in range(5_000)]
    dense = [{**one, "data": [[]] * 40} for one in manifests]
    assert pack_revision(manifests) is not None
    assert pack_revision(dense) is None

    stored = await store(cluster).write(None, record("a"), pack_revision(dense))

    assert stored.record.truncated
    assert "revision" not in cluster.written[0]["data"]
    again = await store(cluster).write(stored, stored.record, stored.kept_revision)
    assert again is stored


@pytest.mark.parametrize("bound", ["MAX_OBJECTS", "MAX_WEIGHT", "MAX_BYTES"])
async def test_an_inventory_over_the_bounds_is_not_written(bound: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(record_codec, bound, 1)

    with pytest.raises(SpecError, match="addon a has 2 objects, whose inventory does not fit"):
        await store(Cluster()).write(None, record("a", 2), b"revision")


async def test_a_record_names_the_cluster_of_its_store() -> None:
    cluster = Cluster()

    stored = await store(cluster).write(None, record("a"), b"revision")

    assert stored.record.cluster == "team/prod"
    assert orjson.loads(gzip.decompress(pack_record(stored.record) or b""))["cluster"] == "team/prod"


@pytest.mark.parametrize(("before", "writes"), [("", 0), ("team/prod", 0), ("team/other", 1)])
async def test_the_missing_name_of_a_cluster_is_no_reason_to_write(before: str, writes: int) -> None:
    cluster = Cluster()
    stored = Stored(record("a", cluster=before), b"revision", "7")

    await store(cluster).write(stored, stored.record, stored.kept_revision)

    assert len(cluster.written) == writes
