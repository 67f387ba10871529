from __future__ import annotations

import gzip
from base64 import b64decode
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import orjson
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from clusterstacks.deliver.apply import record_codec
from clusterstacks.deliver.apply.delivery_plan import (
    AbandonedRevision,
    DeliveryRecord,
    DeliveryState,
    Mark,
    RecordedObject,
)
from clusterstacks.deliver.apply.record_codec import (
    HealthyRevision,
    RecordUnreadable,
    pack_healthy,
    pack_record,
    pack_revision,
    unpacking_healthy,
    unpacking_record,
    unpacking_revision,
)
from clusterstacks.deliver.apply.targets import fault_of
from clusterstacks.model.objects import ObjectId, object_id, split_api_version
from tests.support.builders.documents import JSON, damaged
from tests.support.builders.manifests import addon, config_map
from tests.support.in_pieces import completed

NAMES = st.from_regex(r"[a-z0-9][a-z0-9.:-]{0,20}", fullmatch=True)
WORDS = st.from_regex(r"[a-z0-9:]{0,20}", fullmatch=True)
IDS = st.builds(
    ObjectId,
    st.sampled_from(["", "apps", "example.org"]),
    st.sampled_from(["Secret", "Deployment", "Widget"]),
    st.from_regex(r"[a-z0-9-]{0,10}", fullmatch=True),
    NAMES,
)
MARKS = st.builds(Mark, st.integers(0, 2**40), WORDS, WORDS)
ENTRIES = st.builds(
    RecordedObject,
    IDS,
    st.sampled_from(["v1", "v1beta1"]),
    WORDS,
    WORDS,
    st.none() | MARKS,
    st.sampled_from(["", "its why"]),
    st.booleans(),
)
RECORDS = st.lists(ENTRIES, max_size=8, unique_by=lambda known: known.id).flatmap(
    lambda entries: st.builds(
        DeliveryRecord,
        NAMES,
        WORDS,
        WORDS,
        st.sampled_from(DeliveryState),
        st.just(tuple(entries[::2])),
        st.just(tuple(entries[1::2])),
        st.booleans(),
        st.sampled_from(["", "team/prod", "team/prod.eu"]),
        st.none() | st.builds(AbandonedRevision, WORDS, NAMES, NAMES, st.sampled_from(["", "0 of 1 ready: \u00e9"])),
        WORDS,
    )
)
MARK = Mark(3, "", "t" * 32)
SOUND = DeliveryRecord(
    "cni",
    "sha256:00",
    "sha256:11",
    DeliveryState.DELIVERED,
    (RecordedObject(ObjectId("apps", "Deployment", "n", "a"), "v1", "uid", "d", Mark(1, "", "t")),),
    (RecordedObject(ObjectId("", "ConfigMap", "n", "b"), "v1", "uid", "d", Mark(0, "5", "t"), "kept"),),
)
ROLLED_BACK = replace(SOUND, abandoned=AbandonedRevision("sha256:22", "demo-a-1-34-v2", "demo-a-1-34-v1", "not ready"))


def unpack_record(content: bytes | None) -> DeliveryRecord:
    assert content is not None
    return completed(unpacking_record(content))


def unpack_revision(content: bytes | None) -> list[dict[str, Any]]:
    assert content is not None
    return completed(unpacking_revision(content))


def packed(document: Any) -> bytes:
    return gzip.compress(orjson.dumps(document))


def sound() -> Any:
    return orjson.loads(gzip.decompress(pack_record(SOUND) or b""))


@given(RECORDS)
def test_a_record_reads_back_as_it_was_written(record: DeliveryRecord) -> None:
    assert unpack_record(pack_record(record)) == record


def test_a_record_without_rollback_and_basis_is_written_as_by_earlier_versions() -> None:
    assert set(sound()) == {"format", "addon", "digest", "inputs", "state", "truncated", "objects", "stale"}


@given(st.builds(HealthyRevision, NAMES, NAMES, WORDS, WORDS))
def test_a_healthy_revision_reads_back_as_it_was_written(revision: HealthyRevision) -> None:
    assert completed(unpacking_healthy(pack_healthy(revision))) == revision


@given(damaged({"format": 1, "addon": "cni", "release": "r", "digest": "d", "inputs": "i"}))
def test_damaged_healthy_revision_is_read_or_rejected(document: Any) -> None:
    try:
        packed_document = packed(document)
    except TypeError:
        return
    with suppress(RecordUnreadable):
        assert pack_healthy(completed(unpacking_healthy(packed_document)))


def test_equal_records_are_equal_bytes() -> None:
    assert pack_record(SOUND) == pack_record(unpack_record(pack_record(SOUND)))


@given(damaged(sound()) | damaged(orjson.loads(gzip.decompress(pack_record(ROLLED_BACK) or b""))))
def test_damaged_record_is_read_or_rejected(document: Any) -> None:
    try:
        packed_document = packed(document)
    except TypeError:
        return
    try:
        record = unpack_record(packed_document)
    except RecordUnreadable:
        return
    assert pack_record(record)


@given(st.binary(max_size=100) | st.builds(lambda cut: (pack_record(SOUND) or b"")[:cut], st.integers(0, 200)))
def test_arbitrary_bytes_are_read_or_rejected(junk: bytes) -> None:
    try:
        record = unpack_record(junk)
    except RecordUnreadable:
        return
    assert record == SOUND


@pytest.mark.parametrize(
    ("entry", "complaint"),
    [
        ({"name": "../../secrets"}, "field name"),
        ({"name": ".."}, "field name"),
        ({"name": ""}, "field name"),
        ({"name": "a%2f"}, "field name"),
        ({"name": "a" * 254}, "field name"),
        ({"namespace": "a/b"}, "field namespace"),
        ({"kind": "a b"}, "field kind"),
        ({"group": "a/b"}, "field group"),
        ({"version": "v1/../.."}, "field version"),
        ({"uid": "a b"}, "field uid"),
        ({"mark": {"generation": True}}, "mark"),
        ({"mark": {"generation": "1"}}, "mark"),
        ({"mark": []}, "mark"),
    ],
)
def test_entry_with_unsafe_name_or_mark_is_rejected(entry: dict[str, Any], complaint: str) -> None:
    document = sound()
    document["objects"][0] |= entry

    with pytest.raises(RecordUnreadable, match=complaint):
        unpack_record(packed(document))


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        ({"format": 2}, "format is 2, this operator supports 1"),
        ({"format": None}, "format"),
        ({"state": "unheard of"}, "state"),
        ({"state": []}, "state"),
        ({"objects": {}}, "objects"),
        ({"stale": sound()["objects"]}, "twice"),
    ],
)
def test_record_of_another_shape_is_rejected(change: dict[str, Any], complaint: str) -> None:
    with pytest.raises(RecordUnreadable, match=complaint):
        unpack_record(packed(sound() | change))


def test_record_above_the_unpacked_size_limit_is_rejected(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(record_codec, "MAX_BYTES", 1000)

    with pytest.raises(RecordUnreadable, match="larger than 1000 bytes"):
        unpack_record(packed(["a" * 2000]))


def test_record_with_too_many_objects_is_rejected(monkeypatch: pytest.MonkeyPatch) -> None:
    content = pack_record(SOUND)
    monkeypatch.setattr(record_codec, "MAX_OBJECTS", 0)
    with pytest.raises(RecordUnreadable, match="more than 0 objects"):
        unpack_record(content)
    monkeypatch.setattr(record_codec, "MAX_OBJECTS", 1)
    with pytest.raises(RecordUnreadable, match="more than 1 objects"):
        unpack_record(content)

    assert pack_record(SOUND) is None


def test_record_above_the_limits_is_not_written(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(record_codec, "MAX_WEIGHT", 10)

    assert pack_record(SOUND) is None
    assert pack_revision(addon("a", "b")) is None


def test_braces_in_strings_do_not_count_as_nesting() -> None:
    dashboards = [{"data": {"dashboard.json": '{"panels": ' + '{"title": {}}' * 1_000 + "}"}}]

    assert record_codec._weight(orjson.dumps(dashboards)) < 2 * 1_010 + 10


def test_large_addon_is_within_the_limits() -> None:
    entries = tuple(
        RecordedObject(
            ObjectId("apps", "Deployment", "kube-system", f"a-name-of-an-object-{number}"),
            "v1",
            "u" * 36,
            "d" * 32,
            MARK,
        )
        for number in range(5_000)
    )
    crd = {"properties": {f"field{number}": {"type": "string", "description": "d" * 60} for number in range(9_000)}}
    manifests = [*(config_map(f"cm-{number}", key="value") for number in range(560)), *([crd] * 5)]

    assert unpack_record(pack_record(DeliveryRecord("a", "", "", DeliveryState.PRUNED, entries))).objects == entries
    assert len(orjson.dumps(crd)) > 900_000
    assert unpack_revision(pack_revision(manifests)) == manifests


def test_records_of_the_first_release_are_read_and_written_unchanged() -> None:
    secrets = orjson.loads((Path(__file__).parent / "records" / "77d5f50.json").read_bytes())

    assert secrets.keys() == {"delivered", "delivering", "truncated"}
    for secret in secrets.values():
        content = b64decode(secret["data"]["record"])
        record = unpack_record(content)
        assert record.cluster == ""
        assert gzip.decompress(pack_record(record) or b"") == gzip.decompress(content)
        if revision := b64decode(secret["data"].get("revision", "")):
            manifests = unpack_revision(revision)
            assert len(manifests) == 3
            assert gzip.decompress(pack_revision(manifests) or b"") == gzip.decompress(revision)


def test_record_with_a_cluster_is_readable_by_the_first_release() -> None:
    """It asks for the fields it knows and passes over others."""
    document = orjson.loads(gzip.decompress(pack_record(replace(SOUND, cluster="team/prod")) or b""))

    assert document.pop("cluster") == "team/prod"
    assert document == sound()


@pytest.mark.parametrize("cluster", ["team", "team/", "/prod", "Team/prod", "team/prod; rm -rf /", "a/b/c", 3, ["a/b"]])
def test_cluster_is_identified_by_namespace_and_name(cluster: object) -> None:
    with pytest.raises(RecordUnreadable, match="field cluster"):
        unpack_record(packed(sound() | {"cluster": cluster}))


def test_a_revision_reads_back_as_it_was_written() -> None:
    assert unpack_revision(pack_revision(addon("a", "b"))) == addon("a", "b")


@given(JSON.filter(lambda value: not isinstance(value, list)))
def test_revision_of_another_shape_is_rejected(value: Any) -> None:
    try:
        content = packed(value)
    except TypeError:
        return
    with pytest.raises(RecordUnreadable):
        unpack_revision(content)


TEXTS = st.one_of(st.sampled_from(["", "a", "v1", "a/b", "..", "a\n", "n" * 254, "a%2f"]), st.text(max_size=8))


@given(
    api_version=st.one_of(st.sampled_from(["v1", "apps/v1", "a/b/v1", "v1/../x"]), TEXTS),
    kind=st.one_of(st.just("ConfigMap"), TEXTS),
    namespace=TEXTS,
    name=TEXTS,
)
@example("v1", "ConfigMap", "", "../../../api/v1/namespaces/kube-system")
@example("v1", "ConfigMap", "a/../b?dryRun=All", "a")
@example("v1/../../x", "ConfigMap", "", "a")
@example("v1", "Configmap/../x", "", "a")
def test_record_of_every_object_that_can_be_sent_can_be_read(
    api_version: str, kind: str, namespace: str, name: str
) -> None:
    """Else the operator writes a record, before the API server refuses the object, that it cannot read again."""
    manifest = {"apiVersion": api_version, "kind": kind, "metadata": {"namespace": namespace, "name": name}}
    if fault_of(manifest):
        return
    known = RecordedObject(object_id(manifest), split_api_version(api_version)[1], "uid", "digest")
    record = DeliveryRecord("network", "digest", "inputs", DeliveryState.DELIVERING, (known,))
    assert unpack_record(pack_record(record)) == record
