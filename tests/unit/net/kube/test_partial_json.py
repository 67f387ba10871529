"""Partial reading of documents with excessive depth or size."""

from __future__ import annotations

import asyncio
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from clusterstacks.model.bounded_json import MAX_DEPTH, MAX_VALUES, Undecodable, decode
from clusterstacks.net.kube.partial_json import ListPage, decode_partial, read_page

TEXTS = st.text(max_size=8) | st.sampled_from(['"', "\\", '\\"', "[", "}", '["],{'])
JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**40), 2**40) | TEXTS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXTS, inner, max_size=4),
    max_leaves=30,
)
OBJECTS = st.dictionaries(TEXTS, JSON, max_size=4)


def shortened(value: Any, levels: int) -> Any:
    """The same by recursion over values."""
    if isinstance(value, dict):
        return {key: shortened(one, levels - 1) for key, one in value.items()} if levels else None
    if isinstance(value, list):
        return [shortened(one, levels - 1) for one in value] if levels else None
    return value


@given(OBJECTS)
def test_values_nested_deeper_than_five_levels_become_null(document: dict[str, Any]) -> None:
    assert asyncio.run(decode_partial(orjson.dumps(document))) == shortened(document, 5)


@given(st.lists(OBJECTS, max_size=4), TEXTS)
def test_a_page_is_split_into_its_items(items: list[dict[str, Any]], token: str) -> None:
    document = {"apiVersion": "v1", "items": items, "metadata": {"continue": token}}
    page = asyncio.run(read_page(orjson.dumps(document)))

    assert page == ListPage({**document, "items": [None] * len(items)}, [orjson.dumps(item) for item in items])


@given(st.binary(max_size=60) | st.text(alphabet='[]{}",\\ab1', max_size=60).map(str.encode))
def test_rubbish_ends_as_undecodable_or_as_json(document: bytes) -> None:
    for read in (decode_partial, read_page):
        try:
            asyncio.run(read(document))
        except Undecodable:
            continue


@pytest.mark.parametrize("document", [b"[]", b'{"items":{}}', b'{"items":[1]}', b'{"items":[[]],"a":[{}]}', b"{}"])
def test_document_that_is_not_a_list_of_objects_is_undecodable(document: bytes) -> None:
    with pytest.raises(Undecodable, match="is not a list of objects"):
        asyncio.run(read_page(document))


def test_depth_and_width_are_bounded() -> None:
    assert decode(b"[" * MAX_DEPTH + b"]" * MAX_DEPTH)
    with pytest.raises(Undecodable, match="is nested deeper than 1024 levels"):
        decode(b"[" * (MAX_DEPTH + 1) + b"]" * (MAX_DEPTH + 1))
    half = MAX_VALUES // 2
    assert len(decode(b"[" + b"[]," * (half - 1) + b"1]")) == half
    with pytest.raises(Undecodable, match="has more than 100000 values"):
        decode(b"[" + b"[]," * half + b"1]")
    with pytest.raises(Undecodable, match="is not valid JSON"):
        decode(b"[1,")


def test_commas_and_brackets_in_strings_are_not_counted() -> None:
    """A ConfigMap of 900 KB with a table, and one with JSON in it."""
    table = {"data": {"table": 'a,b,"c",[d]\n' * 80_000}}
    assert decode(orjson.dumps(table)) == table


def test_strings_alone_may_be_too_many() -> None:
    with pytest.raises(Undecodable, match="values"):
        decode(b"[" + b'"",' * 1_000_000 + b'""]')


@pytest.mark.parametrize(
    "document",
    [
        b'{"metadata":{"name":"x"},"spec":{"a":' + b"[" * 700_000 + b"]" * 700_000 + b"}}",
        b'{"metadata":{"name":"x"},"spec":{"a":[' + b"[[1],{}]," * 150_000 + b"1]}}",
        b'{"metadata":{"name":"x"},"spec":{"a":[' + b'"a",' * 350_000 + b"1]}}",
        b'{"metadata":{"name":"x"},"spec":{"a":{"b":{"c":{"d":{"e":[[' + b"1," * 700_000 + b"1]]}}}}}}",
    ],
    ids=["nested", "many containers", "many strings", "deep and wide"],
)
def test_name_of_the_worst_objects_is_read(document: bytes) -> None:
    with pytest.raises(Undecodable):
        decode(document)
    assert asyncio.run(decode_partial(document))["metadata"] == {"name": "x"}
