"""``csctl values``: the values of merged layers, and the layer that each comes from."""

from __future__ import annotations

from functools import reduce
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clusterstacks.csctl.verbs.values import origins
from clusterstacks.deliver.render.values_document import merge_values

CHART = {"image": {"tag": "1.0", "repository": "r"}, "tolerations": [], "ipam": {}}

TREES = st.recursive(
    st.none() | st.integers(0, 3),
    lambda inner: st.dictionaries(st.sampled_from("abc"), inner, max_size=3),
    max_leaves=6,
)
LAYERS = st.lists(st.dictionaries(st.sampled_from("abc"), TREES, max_size=3), min_size=1, max_size=4)


@pytest.mark.parametrize(
    ("layers", "expected"),
    [
        ([{}], {}),
        ([{"image": {"tag": "2.0"}}], {"image.tag": ("2.0", "layer 1")}),
        ([{"image": None}], {"image": (None, "layer 1")}),
        ([{"ipam": {"mode": "cluster"}}], {"ipam.mode": ("cluster", "layer 1")}),
        ([{"image": {}}], {}),
        ([{"image": {"tag": "2.0"}}, {"image": {"tag": "3.0"}}], {"image.tag": ("3.0", "layer 2")}),
        ([{"image": "none"}, {"image": {"tag": "3.0"}}], {"image.tag": ("3.0", "layer 2")}),
        ([{"a.b": 1}], {r"a\.b": (1, "layer 1")}),
    ],
)
def test_each_value_has_the_layer_that_set_it_last(
    layers: list[dict[str, Any]], expected: dict[str, tuple[Any, str]]
) -> None:
    found = origins([(f"layer {number}", values) for number, values in enumerate([CHART, *layers])])

    assert {key: origin for key, origin in found.items() if origin[1] != "layer 0"} == expected


@given(LAYERS)
def test_the_values_are_those_that_helm_merges(layers: list[dict[str, Any]]) -> None:
    merged: Any = {}
    for key, (value, _) in origins([("", values) for values in layers]).items():
        *above, last = key.split(".")
        place = reduce(lambda inner, part: inner.setdefault(part, {}), above, merged)
        place[last] = value

    assert merged == reduce(merge_values, layers)
