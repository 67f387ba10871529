"""ConfigMaps and Secrets as sources of objects."""

from __future__ import annotations

import gzip
import json
from base64 import b64encode
from itertools import pairwise
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clusterstacks.deliver.apply import source_objects
from clusterstacks.deliver.apply.record_codec import MAX_BYTES
from clusterstacks.deliver.apply.source_objects import SOURCE_SECRET_TYPE, read_source, without_repetitions
from clusterstacks.model import yaml
from clusterstacks.model.objects import ObjectKey
from tests.support.builders.manifests import config_map
from tests.support.observing.cpu_time import no_stall

if TYPE_CHECKING:
    from collections.abc import Callable

    from clusterstacks.deliver.apply.source_objects import SourceObjects
    from clusterstacks.model.objects import Manifest

KEY = ObjectKey("team", "cni")
DOCUMENT = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: %s}\n"


def encoded(content: bytes | str) -> str:
    return b64encode(content.encode() if isinstance(content, str) else content).decode()


def of_config_map(values: dict[str, str], binary: dict[str, str] | None = None) -> SourceObjects:
    return read_source("ConfigMap", KEY, {"data": values, "binaryData": binary or {}})


def listed(kind: str, *items: Manifest) -> str:
    return yaml.dump({"apiVersion": "v1", "kind": kind, "items": [*items]})


A, B = DOCUMENT % "a", DOCUMENT % "b"


def of_secret(type_: str = SOURCE_SECRET_TYPE, **values: bytes | str) -> SourceObjects:
    return read_source("Secret", KEY, {"type": type_, "data": {key: encoded(value) for key, value in values.items()}})


def names(source: SourceObjects) -> list[str]:
    return [manifest["metadata"]["name"] for manifest in source.manifests]


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        pytest.param(A, ["a"], id="one document"),
        pytest.param(f"---\n{A}---\n---\n# only this\n---\n{B}---\n", ["a", "b"], id="several"),
        pytest.param(f"--- # first\n{A}...\n---\n{B}", ["a", "b"], id="comments and ends"),
        pytest.param(f"{A}data:\n  text: |\n    ---\n    no separator\n", ["a"], id="text"),
        pytest.param(f"---\n{A}---\n{B}".replace("\n", "\r\n"), ["a", "b"], id="CRLF"),
        pytest.param('{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a"}}', ["a"], id="JSON"),
        pytest.param(listed("List", config_map("a"), config_map("b")), ["a", "b"], id="List"),
        pytest.param(listed("ConfigMapList", {"metadata": {"name": "a"}}), ["a"], id="typed list"),
        pytest.param("", [], id="empty"),
        pytest.param("---\n# nothing\n", [], id="comment"),
    ],
)
def test_documents_of_a_key_are_read_in_their_order_from_configmaps_and_secrets(
    content: str, expected: list[str]
) -> None:
    zipped = encoded(gzip.compress(content.encode()))
    for source in (
        of_config_map({"a": content}),
        of_config_map({}, {"a": zipped}),
        of_config_map({}, {"a": encoded(content)}),
        of_secret(a=content),
        of_secret(a=gzip.compress(content.encode())),
    ):
        assert source.faults == ()
        assert names(source) == expected
        assert source.is_empty == (expected == [])


def test_keys_are_read_in_their_order() -> None:
    assert names(of_config_map({"c": DOCUMENT % "c", "a": A}, {"b": encoded(B)})) == ["a", "b", "c"]


@pytest.mark.parametrize(
    ("broken", "complaint"),
    [
        ("key: [", "line 6"),
        ("- a", "is a list instead of an object"),
        ("just text", "is text instead of an object"),
        ("kind: Pod\nmetadata: {name: a}", "has no apiVersion"),
        ("apiVersion: v1\nmetadata: {name: a}", "has no kind"),
        ("apiVersion: v1\nkind: Pod\nmetadata: {generateName: a}", "metadata.generateName is not supported"),
        ("apiVersion: v1\nkind: Pod\nmetadata: {name: 5}", "has no metadata.name"),
        ("apiVersion: v1\nkind: Pod\nmetadata: {name: a, labels: [b]}", "metadata.labels that is not a mapping"),
        ("apiVersion: v1\nkind: List\nitems: [5]", "item 1: is a number instead of an object"),
    ],
)
def test_document_that_is_not_valid_is_named_and_the_others_are_read(broken: str, complaint: str) -> None:
    content = f"{DOCUMENT % 'a'}---\n{broken}\n---\n{DOCUMENT % 'b'}"

    source = of_config_map({"x.yaml": DOCUMENT % "x", "y.yaml": content, "z.yaml": DOCUMENT % "z"})

    assert names(source) == ["x", "a", "b", "z"]
    assert len(source.faults) == 1
    assert source.faults[0].startswith("ConfigMap team/cni, key y.yaml, document 2")
    assert complaint in source.faults[0]


@pytest.mark.parametrize(
    ("value", "complaint"),
    [
        ("no base64!", "is not base64"),
        (encoded(b"\x1f\x8bno gzip"), "is not gzip"),
        (encoded(gzip.compress(b"a: b" * 1000, mtime=0)[:-20]), "its gzip data is incomplete"),
        (encoded(b"\xff\xfe"), "is not UTF-8 at byte 0"),
        (encoded(gzip.compress(bytes(MAX_BYTES + 1), mtime=0)), f"larger than {MAX_BYTES} bytes"),
    ],
)
def test_key_that_cannot_be_decoded_is_named_and_the_others_are_read(value: str, complaint: str) -> None:
    source = of_config_map({"a": A, "z": DOCUMENT % "z"}, {"m": value})

    assert names(source) == ["a", "z"]
    assert len(source.faults) == 1
    assert source.faults[0].startswith("ConfigMap team/cni, key m: ")
    assert complaint in source.faults[0]


def test_size_is_bounded_for_all_keys_together_before_more_is_decompressed() -> None:
    half = encoded(gzip.compress(b"#" * (MAX_BYTES * 2 // 3)))

    with no_stall():
        source = of_config_map({}, {"a": half, "b": half, "c": half})

    assert [fault.split(":")[0] for fault in source.faults] == [
        "ConfigMap team/cni, key b",
        "ConfigMap team/cni, key c",
    ]


@pytest.mark.parametrize("bound", ["MAX_KEYS", "MAX_OBJECTS", "MAX_DOCUMENTS"])
def test_more_than_a_bound_is_a_fault(bound: str, monkeypatch: pytest.MonkeyPatch) -> None:
    values = {key: DOCUMENT % key for key in "abcd"}
    monkeypatch.setattr(source_objects, bound, 4)
    assert of_config_map(values).faults == ()

    monkeypatch.setattr(source_objects, bound, 3)
    source = of_config_map(values)
    assert names(source) == ["a", "b", "c"]
    assert "more than" in source.faults[0]


BOMB = "x: &x [{}]\ny: &y [{}]\nz: [{}]\n"
"""Aliases of aliases; each list has the given content."""


def bomb(name: str, content: str = "", *, end: str = "") -> str:
    lists = BOMB.format(",".join([content or "1"] * 50), ",".join(["*x"] * 50), ",".join(["*y"] * 49))
    return f"{DOCUMENT % name}{lists}{end}"


@pytest.mark.parametrize(
    "documents",
    [
        pytest.param([bomb(f"n{number}") for number in range(40)], id="each within the bound of a document"),
        pytest.param([bomb(f"n{number}", end="last: !!other a\n") for number in range(40)], id="each with an error"),
        pytest.param([bomb("n", "x" * 500)], id="long text"),
        pytest.param([f"{DOCUMENT % 'n'}x: &x {{? {'k' * 100_000} : 1}}\ny: [{'*x,' * 99}]\n"], id="long keys"),
    ],
)
@pytest.mark.parametrize("read", [of_config_map, lambda values: of_secret(**values)], ids=["ConfigMap", "Secret"])
def test_aliases_of_all_documents_together_are_bounded(
    documents: list[str], read: Callable[[dict[str, str]], SourceObjects], monkeypatch: pytest.MonkeyPatch
) -> None:
    budgets: list[yaml.ValueBudget] = []

    class Noted(yaml.ValueBudget):
        def __init__(self, **bounds: int) -> None:
            super().__init__(**bounds)
            budgets.append(self)

    monkeypatch.setattr(yaml, "ValueBudget", Noted)
    source = read({"b": "---\n".join(documents), "a": A})

    assert names(source)[0] == "a"
    assert source.faults
    assert len(json.dumps(source.manifests)) < 2 * MAX_BYTES
    # The last document of each may take what is left and one value more.
    assert budgets[0].values >= -50
    assert budgets[0].characters >= -100_000


def test_document_with_too_many_aliases_leaves_the_others() -> None:
    text = bomb("b").replace("[1", f"[{'1,' * 60}1")

    source = of_config_map({"a": A, "b": f"{text}---\n{DOCUMENT % 'c'}"})

    assert names(source) == ["a", "c"]
    assert "key b, document 1" in source.faults[0]
    assert "values once its aliases are expanded" in source.faults[0]


def test_bombs_are_refused_and_take_nothing_from_the_documents_after_them() -> None:
    bomb = "v: &v [1]\n" + "\n".join(f"{b}: &{b} [{f'*{a},' * 20}]" for a, b in pairwise("vwxyz"))
    values = {f"k{number}": f"{bomb}\n---\n{DOCUMENT % number}" for number in range(5)}
    found = of_config_map({key: text.replace("name: ", "name: o") for key, text in values.items()})
    assert [one["metadata"]["name"] for one in found.manifests] == ["o0", "o1", "o2", "o3", "o4"]
    assert len(found.faults) == 5
    # The time is bounded: a source that is made of bombs is given up.
    many = of_config_map({f"k{number:02}": f"{bomb}\n---\n{DOCUMENT % 'a'}" for number in range(20)})
    assert len(many.manifests) <= 11
    assert "too large with all aliases expanded" in many.faults[-1]


def test_source_that_does_not_exist_is_a_fault_and_not_empty() -> None:
    source = read_source("ConfigMap", KEY, None)

    assert "ConfigMap team/cni does not exist" in source.faults[0]
    assert not source.is_empty


@pytest.mark.parametrize("type_", ["Opaque", "", "kubernetes.io/tls", "cluster.x-k8s.io/secret"])
def test_secret_of_another_type_is_refused_with_the_command_that_makes_one(type_: str) -> None:
    source = of_secret(type_, a=DOCUMENT % "a")

    assert source.manifests == ()
    assert (
        "kubectl --namespace team create secret generic cni-objects --type=addons.cluster.x-k8s.io/resource-set"
        in (source.faults[0])
    )


@pytest.mark.parametrize(
    "content",
    [
        "a: *hunter2",
        'a: "hunter2\n---\n',
        "hunter2: 1\nhunter2: {",
        "!!hunter2 a",
        "hunter2",
        "hunter2: 3\n---\n? [hunter2]\n: b",
    ],
)
def test_no_value_of_a_secret_is_in_a_message(content: str) -> None:
    source = of_secret(a=content)

    assert source.faults
    assert not any("hunter2" in fault for fault in source.faults)


def test_object_in_two_sources_is_named_with_both() -> None:
    one = of_config_map({"a": A})
    other = read_source("Secret", ObjectKey("team", "more"), {
        "type": SOURCE_SECRET_TYPE, "data": {"a": encoded(f"{A}---\n{B}")}
    })  # fmt: skip

    first, second = without_repetitions([one, other])

    assert (names(first), names(second)) == (["a"], ["b"])
    assert "Secret team/more has ConfigMap a, which is also in ConfigMap team/cni" in second.faults[0]


@given(st.lists(st.text(alphabet="abc-\n #:|'\"", max_size=30), max_size=5), st.booleans())
def test_objects_arrive_whatever_stands_between_them(texts: list[str], zipped: bool) -> None:  # noqa: FBT001
    manifests = [config_map(f"n{number}", text=text) for number, text in enumerate(texts)]
    content = "---\n".join(map(yaml.dump, manifests))
    binary = {"a": encoded(gzip.compress(content.encode()))}

    source = of_config_map({}, binary) if zipped else of_config_map({"a": content})

    assert source.faults == ()
    assert list(source.manifests) == manifests


@given(st.binary(max_size=200), st.text(max_size=200))
def test_any_content_is_read_or_named(binary: bytes, text: str) -> None:
    source = of_config_map({"c": text}, {"a": encoded(binary), "b": encoded(b"\x1f\x8b" + binary)})

    assert all(fault.startswith("ConfigMap team/cni, key ") for fault in source.faults)
