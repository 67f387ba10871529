"""Texts of tenants and workload clusters are rejected within milliseconds."""

from __future__ import annotations

import contextlib
import gzip
import time
import tracemalloc
from typing import TYPE_CHECKING, TypeVar

import pytest

from clusterstacks.deliver.apply.delivery_plan import DeliveryRecord, DeliveryState, RecordedObject
from clusterstacks.deliver.apply.messages import explain, immutable_fields
from clusterstacks.deliver.apply.record_codec import RecordUnreadable, pack_record, unpacking_record, unpacking_revision
from clusterstacks.deliver.apply.targets import ApplyTarget
from clusterstacks.deliver.render.renderer import Renderer
from clusterstacks.model import yaml
from clusterstacks.model.errors import SpecError
from clusterstacks.model.objects import ObjectId
from clusterstacks.net.kube.errors import FieldCause, Forbidden, Invalid
from clusterstacks.net.kube.kubeconfig import MAX_SECRET_BYTES, parse_secret_kubeconfig
from clusterstacks.net.kube.resources import Resource
from clusterstacks.operator.controllers.clusteraddon.addon_inputs import cluster_values
from tests.support.builders.manifests import config_map
from tests.support.in_pieces import completed
from tests.support.observing.cpu_time import check_used, few_collections, no_stall

if TYPE_CHECKING:
    from collections.abc import Generator

    from clusterstacks.model.objects import Manifest

T = TypeVar("T")

TARGET = ApplyTarget(
    ObjectId("", "ConfigMap", "default", "one"),
    "v1",
    config_map("one"),
    "digest",
    Resource("", "v1", "ConfigMap", "configmaps", namespaced=True),
)

SECRET = "Secret tenant/first-kubeconfig"

FLOW = "[" + "[]," * 260_000 + "]"


def merges(levels: int) -> str:
    """Repeat ten aliases of the level above in the merge key of each level."""
    lines = ["a0: &a0 {hunter2: 1}"]
    lines += [f"a{level}: &a{level}\n  <<: [{', '.join([f'*a{level - 1}'] * 10)}]" for level in range(1, levels)]
    return "\n".join(lines)


KUBECONFIGS = {
    "100,000 brackets": "a: " + "[" * 100_000,
    "200,000 brackets": "[" * 200_000,
    "merge keys of merge keys": merges(8),
    "780 KB of empty lists": FLOW,
    "empty lists up to the bound": FLOW[:MAX_SECRET_BYTES],
    "a list in a list after a carriage return": "a:\r" + "- " * 200_000,
    "a list in a list after a line separator": "a:\N{LINE SEPARATOR}" + "- " * 150_000,
    "a list in a list after a byte order mark": "\ufeff" + "- " * 200_000,
    "questions": "? " * 200_000,
    "braces and brackets": "[{" * 200_000,
    "many keys": "\n".join(f"k{number}: hunter2" for number in range(30_000)),
    "many documents": "---\n" * 100_000,
    "one mapping merged with many empty ones": (
        "a: &a {" + ", ".join(f"k{number}: 1" for number in range(900)) + "}\n<<: [*a" + ", {}" * 900 + "]"
    ),
    "one mapping merged through many levels": (
        "{<<: " * 190 + "{" + ", ".join(f"k{number}: 1" for number in range(1_000)) + "}" + "}" * 190
    ),
    "a long number": "a: " + "1" * 500_000,
    "a long word": "a: " + "hunter2" * 70_000,
    "asterisks": "*" * 500_000,
    "aliases": "a: &a 1\nb: [" + "*a, " * 100_000 + "]",
}


@pytest.mark.regression("SEC-2")
@pytest.mark.parametrize("text", KUBECONFIGS.values(), ids=KUBECONFIGS)
def test_hostile_kubeconfig_neither_blocks_nor_crashes_the_operator(text: str) -> None:
    content = text.encode()

    with no_stall(), pytest.raises(SpecError) as caught:
        parse_secret_kubeconfig(content, origin=SECRET)

    assert str(caught.value).startswith(SECRET)
    assert "hunter2" not in str(caught.value)


WORDS = {
    "88 KB": "updates to " * 8_000,
    "352 KB": "updates to " * 32_000,
    "1 MB": "updates to " * 95_000,
    "beginnings of another pattern": 'cannot get resource "' * 50_000,
    "one long word": "cannot " + "a" * 1_000_000,
}


@pytest.mark.regression("SEC-3")
@pytest.mark.parametrize("words", WORDS.values(), ids=WORDS)
def test_server_messages_are_matched_in_linear_time(words: str) -> None:
    refusal = Invalid("apply", status=422, reason="Invalid", causes=tuple([FieldCause("spec", "", words)] * 10))
    forbidden = Forbidden(words, status=403, reason="Forbidden")

    with no_stall():
        assert immutable_fields(refusal, TARGET) == ()
        assert explain(forbidden, TARGET) == words


@pytest.mark.regression("SEC-3")
@pytest.mark.parametrize(
    "words",
    [
        "Forbidden: updates to statefulset spec for fields other than 'replicas' are forbidden",
        "Invalid value: " + "x" * 100_000 + ": field is immutable",
        "updates to parameters are forbidden." + " " * 100_000,
        "spec is immutable after creation except resources.requests",
        "may not change once set",
        "may not be changed",
        "cannot change roleRef",
    ],
)
def test_immutable_fields_are_recognized_in_long_messages(words: str) -> None:
    refusal = Invalid("apply", status=422, reason="Invalid", causes=(FieldCause("spec", "", words),))

    assert immutable_fields(refusal, TARGET) == ("spec",)


def nested(opening: str, closing: str, levels: int = 1_023) -> str:
    return f"{opening * levels}0{closing * levels}"


DOCUMENTS = {
    "empty lists": '{"pad": [' + "[]," * 2_000_000 + "[]]}",
    "empty mappings": '{"pad": [' + "{}," * 2_000_000 + "{}]}",
    "lists of the finding": '{"pad": [' + "[]," * 11_000_000 + "[]]}",
    "as many lists as are taken": "[" + "[]," * 66_000 + "[]]",
    "as many mappings in mappings as are taken": "[" + ",".join([nested('{"a":', "}", 1_000)] * 98) + "]",
    "as many keys as are taken": "{" + ",".join(f'"{number}":0' for number in range(199_000)) + "}",
    "long keys": "{" + ",".join(f'"{number:070}":0' for number in range(110_000)) + "}",
    "repeated keys": "{" + ",".join(['"a":0'] * 199_000) + "}",
    "1,023 levels": nested("[", "]"),
    "1,023 levels of mappings": "[" + nested('{"a":', "}", 1_022) + "]",
    "100,000 levels": "[" * 100_000,
    "a number of 8 million digits": "[" + "1" * 8_000_000 + "]",
    "a number that is no number": "[1e400]",
    "escapes": '["' + "\\u00e9" * 1_300_000 + '"]',
    "braces in a text": '["' + '{\\"' * 2_600_000 + '"]',
    "an unfinished text": '["' + "a" * 8_000_000,
    "numbers": "[" + "1.5e300," * 199_000 + "0]",
    "texts": "[" + '"ab",' * 199_000 + "0]",
    "lists of objects": "[" + '{"a":0},' * 49_000 + "{}]",
}


def run_without_stall(work: Generator[None, None, T]) -> tuple[T, int]:
    """Return the result and the number of pieces."""
    pieces = 0
    with few_collections():
        while True:
            begin = time.thread_time()
            try:
                next(work)
            except StopIteration as end:
                return end.value, pieces
            finally:
                check_used(begin)
            pieces += 1


@pytest.mark.regression("SEC-3")
@pytest.mark.parametrize("text", DOCUMENTS.values(), ids=DOCUMENTS)
def test_hostile_delivery_record_does_not_block_the_operator(text: str) -> None:
    content = gzip.compress(text.encode(), 6)

    with contextlib.suppress(RecordUnreadable):
        run_without_stall(unpacking_record(content))
        pytest.fail("is no inventory")
    with contextlib.suppress(RecordUnreadable):
        run_without_stall(unpacking_revision(content))


@pytest.mark.regression("SEC-3")
def test_decompression_bomb_uses_no_memory() -> None:
    content = gzip.compress(DOCUMENTS["lists of the finding"].encode(), 9)
    assert len(content) < 40_000

    tracemalloc.start()
    try:
        with pytest.raises(RecordUnreadable):
            completed(unpacking_record(content))
        with pytest.raises(RecordUnreadable):
            completed(unpacking_revision(content))
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()

    assert peak < 64 * 1024**2


@pytest.mark.regression("SEC-3")
def test_largest_record_is_checked_in_pieces() -> None:
    known = [RecordedObject(ObjectId("", "ConfigMap", "n", f"cm-{number}"), "v1", "u", "d") for number in range(10_000)]
    content = pack_record(DeliveryRecord("a", "", "", DeliveryState.PRUNED, tuple(known)))
    assert content is not None

    record, pieces = run_without_stall(unpacking_record(content))

    assert len(record.objects) == 10_000
    assert pieces > 20


def with_values(value: object) -> Manifest:
    variables = [{"name": "addonValues", "value": {"cni": value}}]
    return {"metadata": {"namespace": "team", "name": "one"}, "spec": {"topology": {"variables": variables}}}


@pytest.mark.regression("SEC-18")
def test_deeply_nested_values_error_names_cluster_variable_and_addon() -> None:
    value: Manifest = {}
    for _ in range(900):
        value = {"a": value}

    with (
        no_stall(),
        pytest.raises(SpecError, match=r"addonValues\.cni of Cluster team/one nests deeper than 200 levels"),
    ):
        cluster_values("cni", with_values(value))


@pytest.mark.regression("SEC-18")
def test_large_values_of_a_cluster_do_not_block_the_event_loop() -> None:
    """1.5 MB is what an API server takes."""
    values: list[Manifest] = [
        {"a": [[]] * 500_000},
        {f"key{number}": number for number in range(80_000)},
        {"a": "x" * 1_500_000},
    ]
    for value in values:
        with no_stall(), pytest.raises(SpecError, match=r"addonValues\.cni of Cluster team/one has more than"):
            cluster_values("cni", with_values(value))


@pytest.mark.regression("SEC-18")
async def test_values_are_merged_in_a_worker() -> None:
    deep: Manifest = {}
    for _ in range(199):
        deep = {"a": deep}
    many = {f"key{number}": {"a": [number]} for number in range(6_000)}
    renderer = Renderer()
    try:
        for own in (deep, many):
            assert cluster_values("cni", with_values(own)) == own
            with no_stall():
                text = await renderer.overlay("base: 1\n", own, label="addon cni")
            assert yaml.load(text) == {"base": 1, **own}
    finally:
        await renderer.close()
