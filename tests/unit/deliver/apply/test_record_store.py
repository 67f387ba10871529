"""Delivery records in a workload cluster: names, limits and untrusted content."""

from __future__ import annotations

import asyncio
import gzip
import re
from base64 import b64encode
from dataclasses import replace
from typing import Any, cast

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from clusterstacks.deliver.apply import record_codec, record_store
from clusterstacks.deliver.apply.delivery_plan import DeliveryRecord, DeliveryState, RecordedObject
from clusterstacks.deliver.apply.record_codec import (
    HealthyRevision,
    RecordUnreadable,
    pack_healthy,
    pack_record,
    pack_revision,
)
from clusterstacks.deliver.apply.record_store import (
    ADDON_RECORD,
    INSTALLATION_RECORD,
    KINDS_ANNOTATION,
    MAX_SECRET_BYTES,
    NAMESPACES_ANNOTATION,
    RECORD_LABEL,
    SYNC_RECORD,
    TOOLING_ANNOTATION,
    RecordStore,
    Stored,
    applyset_id,
    parent_annotations,
    record_name,
)
from clusterstacks.model.errors import SpecError
from clusterstacks.model.objects import Manifest, ObjectId
from clusterstacks.net.kube.resources import ObjectList
from tests.support.builders.manifests import config_map
from tests.support.observing.cpu_time import no_stall


class Cluster:
    """A cluster with some Secrets that records writes."""

    def __init__(self, *secrets: Manifest) -> None:
        self.secrets = secrets
        self.written: list[Manifest] = []
        self.selected = ""

    async def list(self, _: Any, __: str, *, labels: str) -> ObjectList:
        self.selected = labels
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


def secret(addon: str, kind: str = ADDON_RECORD, **values: bytes | None) -> Manifest:
    values = {"record": pack_record(record(addon)), **values}
    encoded = {key: b64encode(value).decode() for key, value in values.items() if value is not None}
    metadata = {"name": record_name(addon, kind), "resourceVersion": "7", "labels": {RECORD_LABEL: kind}}
    return {"metadata": metadata, "data": encoded}


BOMB = gzip.compress(b'{"pad":[' + b"[]," * 2_000_000 + b"[]]}")


async def test_decompression_bomb_is_reported_and_other_records_are_read() -> None:
    beats = 0

    async def beat() -> None:
        nonlocal beats
        while True:
            with no_stall():
                await asyncio.sleep(0)
            beats += 1

    heart = asyncio.create_task(beat())
    cluster = Cluster(secret("a"), *(secret(f"bomb{number}", record=BOMB) for number in range(6)), secret("z"))

    read = await store(cluster).read()
    stored, unreadable = read.stored, read.unreadable

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
async def test_too_many_records_are_rejected(
    bound: str, secrets: list[Manifest], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(record_store, bound, 4)
    read = await store(Cluster(*secrets)).read()
    assert len(read.stored) + len(read.unreadable) == len(secrets)

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
    read = await store(Cluster({**secret("a"), "data": data})).read()
    stored, unreadable = read.stored, read.unreadable

    assert not stored
    assert complaint in unreadable[record_name("a")]


async def test_revision_above_the_limits_is_left_out() -> None:
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
async def test_inventory_above_the_limits_is_not_written(bound: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(record_codec, bound, 1)

    with pytest.raises(SpecError, match="addon a has 2 objects, whose inventory does not fit"):
        await store(Cluster()).write(None, record("a", 2), b"revision")


async def test_record_names_the_cluster_of_its_store() -> None:
    cluster = Cluster()

    stored = await store(cluster).write(None, record("a"), b"revision")

    assert stored.record.cluster == "team/prod"
    assert orjson.loads(gzip.decompress(pack_record(stored.record) or b""))["cluster"] == "team/prod"


@pytest.mark.parametrize(("before", "writes"), [("", 0), ("team/prod", 0), ("team/other", 1)])
async def test_missing_cluster_name_alone_causes_no_write(before: str, writes: int) -> None:
    cluster = Cluster()
    stored = Stored(record("a", cluster=before), b"revision", "7")

    await store(cluster).write(stored, stored.record, stored.kept_revision)

    assert len(cluster.written) == writes


@pytest.mark.parametrize(("inputs", "writes"), [("i", 0), ("j", 1)])
async def test_a_basis_is_written_with_other_inputs_only(inputs: str, writes: int) -> None:
    """A new version of the operator knows more about a record, and writes nothing for that."""
    cluster = Cluster()
    stored = Stored(record("a", cluster="team/prod"), b"revision", "7")

    after = await store(cluster).write(stored, replace(stored.record, inputs=inputs, basis="b"), stored.kept_revision)

    assert len(cluster.written) == writes
    assert after.record.basis == ("b" if writes else "")


SUBDOMAIN = re.compile(r"[a-z0-9]([-a-z0-9.]*[a-z0-9])?")
LABEL_VALUE = re.compile(r"[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?")


def test_applyset_id_equals_the_one_of_kubectl() -> None:
    """From kubectl's own tests: the parent ``secrets/my-set`` in namespace ``test``."""
    assert applyset_id("my-set", "test") == "applyset-0eFHV8ySqp7XoShsGvyWFQD3s96yqwHmzc4e0HR1dsY-v1"


@given(st.text(max_size=300))
def test_record_name_and_id_of_any_addon_are_valid_in_kubernetes(addon: str) -> None:
    name = record_name(addon)

    assert len(name) <= 253
    assert SUBDOMAIN.fullmatch(name)
    label = applyset_id(name, "kube-system")
    assert len(label) <= 63
    assert LABEL_VALUE.fullmatch(label)


@given(st.text(max_size=20), st.text(max_size=20))
def test_two_addons_never_share_a_record(one: str, other: str) -> None:
    assert (record_name(one) == record_name(other)) == (one == other)


def test_parent_lists_kinds_and_additional_namespaces_in_order() -> None:
    members = [
        ObjectId("apps", "Deployment", "kube-system", "a"),
        ObjectId("", "Secret", "zeta", "b"),
        ObjectId("", "Secret", "alpha", "c"),
        ObjectId("", "Namespace", "", "zeta"),
    ]

    assert parent_annotations(members, "kube-system") == {
        TOOLING_ANNOTATION: "cluster-stack-operator/v1",
        KINDS_ANNOTATION: "Deployment.apps,Namespace,Secret",
        NAMESPACES_ANNOTATION: "alpha,zeta",
    }


@pytest.mark.parametrize(("addon", "name"), [("cilium", "cluster-stack-addon-cilium")])
def test_record_name_contains_the_addon_name(addon: str, name: str) -> None:
    assert record_name(addon) == name


class HealthyCluster(Cluster):
    """A cluster that stores what is applied."""

    async def apply(self, _: Any, secret: Manifest, **__: Any) -> Manifest:
        self.written.append(secret)
        return secret

    async def find(self, _: Any, name: str, __: str) -> Manifest | None:
        return next((one for one in reversed(self.written) if one["metadata"]["name"] == name), None)


HEALTHY = HealthyRevision("cni", "demo-a-1-34-v1", "d", "i")


async def test_the_healthy_revision_has_a_secret_of_its_own_that_no_list_of_records_selects() -> None:
    cluster = HealthyCluster()

    assert await store(cluster).read_healthy("cni") is None
    assert await store(cluster).write_healthy(HEALTHY, pack_revision([config_map("a", "n")]) or b"")

    found = await store(cluster).read_healthy("cni")
    assert found is not None
    assert found.revision == HEALTHY
    assert await found.manifests() == [config_map("a", "n")]
    assert cluster.written[0]["metadata"]["name"] == "cluster-stack-healthy-cni"
    assert cluster.written[0]["metadata"]["labels"] == {RECORD_LABEL: "healthy"}


async def test_a_healthy_revision_that_does_not_fit_is_not_written() -> None:
    cluster = HealthyCluster()

    assert not await store(cluster).write_healthy(HEALTHY, b"x" * MAX_SECRET_BYTES)
    assert cluster.written == []


@pytest.mark.parametrize(
    ("values", "complaint"),
    [
        ({}, "it has no record"),
        ({"record": pack_healthy(HEALTHY)}, "it has no revision"),
        ({"record": BOMB, "revision": b""}, "it contains more values"),
        ({"record": pack_healthy(replace(HEALTHY, addon="dns")), "revision": b""}, "it is that of addon dns"),
    ],
)
async def test_an_edited_healthy_revision_is_unreadable(values: dict[str, bytes], complaint: str) -> None:
    cluster = HealthyCluster()
    encoded = {key: b64encode(value).decode() for key, value in values.items()}
    cluster.written.append({"metadata": {"name": "cluster-stack-healthy-cni"}, "data": encoded})

    with pytest.raises(RecordUnreadable, match=rf"kube-system/cluster-stack-healthy-cni .* {complaint}.*; delete it"):
        await store(cluster).read_healthy("cni")


@pytest.mark.regression("LIVE-LV-5")
@pytest.mark.parametrize("packed", [b"rubbish", BOMB])
async def test_live_lv_5_broken_manifests_of_a_healthy_revision_name_their_secret(packed: bytes) -> None:
    cluster = HealthyCluster()
    assert await store(cluster).write_healthy(HEALTHY, packed)
    found = await store(cluster).read_healthy("cni")
    assert found is not None

    with pytest.raises(
        RecordUnreadable, match=r"Secret kube-system/cluster-stack-healthy-cni .*: it .*; delete it, and"
    ):
        await found.manifests()


async def test_the_record_of_an_installation_is_not_that_of_an_addon_with_its_name() -> None:
    cluster = Cluster()
    records = RecordStore(cast("Any", cluster), "kube-system", kind=INSTALLATION_RECORD, selector="a=b")

    await records.write(None, record("a"), b"revision")

    metadata = cluster.written[0]["metadata"]
    assert metadata["name"] != record_name("a")
    assert metadata["labels"][RECORD_LABEL] == "installation"
    assert records.set_id("a") != store(cluster).set_id("a")
    assert records.members("a") == "a=b"
    await store(cluster).read()
    assert cluster.selected == f"{RECORD_LABEL} in (addon,sync)"


async def test_records_of_syncs_and_addons_are_apart_also_where_their_names_are_the_same() -> None:
    cluster = Cluster(
        secret("a"), secret("a", SYNC_RECORD), secret("b", SYNC_RECORD), secret("c", SYNC_RECORD, record=b"")
    )

    of_addons = await store(cluster).read()
    of_syncs = await RecordStore(cast("Any", cluster), "kube-system", kind=SYNC_RECORD).read()

    assert (list(of_addons.stored), list(of_addons.others)) == (["a"], ["sync a", "sync b"])
    assert (list(of_syncs.stored), list(of_syncs.others)) == (["a", "b"], ["addon a"])
    assert of_addons.unreadable == {}
    assert "to deliver the sync again" in of_syncs.unreadable[record_name("c", SYNC_RECORD)]


async def test_a_record_that_was_never_written_is_created_and_its_deletion_needs_no_request() -> None:
    cluster = Cluster()
    records = RecordStore(cast("Any", cluster), "home", kind=INSTALLATION_RECORD)

    await records.delete(Stored(record("a"), b"", ""))  # the fake cluster has no delete
    await records.write(Stored(record("a"), b"", ""), record("a", 2), b"")

    assert cluster.written[0]["metadata"]["name"] == "cluster-stack-installation-a"
