"""Ranges of versions."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clusterstacks.model.ranges import InvalidRange, Range, merged


@pytest.mark.parametrize(
    ("text", "inside", "outside"),
    [
        (">=1.30 <1.36", ["1.30.0", "1.35.99"], ["1.29.9", "1.36.0", "2.0.0"]),
        ("<1.33", ["1.32.9", "0.0.0"], ["1.33.0"]),
        (">1.33", ["1.33.1"], ["1.33.0"]),
        ("<=1.33", ["1.33.0"], ["1.33.1"]),
        ("=1.34", ["1.34.0"], ["1.34.1"]),
        ("=1.34.2", ["1.34.2"], ["1.34.20"]),
        (">=1.9 <1.10", ["1.9.12"], ["1.10.0", "1.90.0"]),
        (">=1.20 <1.22 || =1.25.3", ["1.21.0", "1.25.3"], ["1.22.0", "1.25.4"]),
        (">1.25 <1.25.2", ["1.25.1"], ["1.25.0", "1.25.2"]),
    ],
)
def test_range_contains_the_stated_versions(text: str, inside: list[str], outside: list[str]) -> None:
    found = Range.parse(text)
    assert [one for one in inside if not found.holds(_numbers(one))] == []
    assert [one for one in outside if found.holds(_numbers(one))] == []


def test_pre_release_is_outside_every_range() -> None:
    assert not Range.parse(">=1.0").holds((1, 36, 0), "rc.1")


@pytest.mark.parametrize(
    "text",
    [
        None,
        1.36,
        "",
        " ",
        "1.36",
        ">=1",
        ">= 1.36",
        ">=1.36  <1.38",
        ">=1.36, <1.38",
        ">=1.36||<1.30",
        ">=1.36 ||",
        "~1.36",
        ">=v1.36",
        ">=01.36",
        ">=1.36.0-rc.1",
        ">=1.36.1.1",
        ">=1.36\n",
        "=" + "1" * 600 + ".0",
    ],
)
def test_invalid_range_is_rejected_with_an_example(text: object) -> None:
    with pytest.raises(InvalidRange, match="expected for example"):
        Range.parse(text)


@pytest.mark.parametrize("text", ["<0.0", ">=1.36 <1.36", ">1.36 <1.36.1", "=1.36 =1.37", "<0.0 || >=2.0 <1.0"])
def test_empty_range_is_rejected(text: str) -> None:
    with pytest.raises(InvalidRange, match="contains no version"):
        Range.parse(text)


numbers = st.tuples(st.integers(0, 3), st.integers(0, 12), st.integers(0, 3))
comparators = st.tuples(st.sampled_from([">=", ">", "<=", "<", "="]), numbers)


@given(st.lists(st.lists(comparators, min_size=1, max_size=3), min_size=1, max_size=3), numbers)
def test_range_is_the_union_of_intersections_of_its_bounds(
    alternatives: list[list[tuple[str, tuple[int, int, int]]]], version: tuple[int, int, int]
) -> None:
    def holds(symbol: str, bound: tuple[int, int, int]) -> bool:
        return (
            (version == bound and "=" in symbol)
            or (version > bound and symbol.startswith(">"))
            or (version < bound and symbol.startswith("<"))
        )

    text = " || ".join(" ".join(f"{symbol}{'.'.join(map(str, n))}" for symbol, n in terms) for terms in alternatives)
    expected = any(all(holds(symbol, bound) for symbol, bound in terms) for terms in alternatives)
    try:
        found = Range.parse(text)
    except InvalidRange:
        assert not expected
    else:
        assert found.holds(version) is expected


def _numbers(text: str) -> tuple[int, int, int]:
    major, minor, patch = map(int, text.split("."))
    return major, minor, patch


@pytest.mark.parametrize(
    ("ranges", "text"),
    [
        ((">=1.30 <1.34", ">=1.30 <1.34"), ">=1.30 <1.34"),
        ((">=1.32 <1.33", ">=1.33 <1.34", ">=1.30 <1.31"), ">=1.30 <1.31 || >=1.32 <1.34"),
        ((">=1.30 <1.36", ">=1.31 <1.32"), ">=1.30 <1.36"),
        ((">=1.30 <1.32 || >=1.32 <1.33",), ">=1.30 <1.33"),
        ((">=1.25", ">=1.20 <1.21"), ">=1.20 <1.21 || >=1.25"),
        ((), ""),
    ],
)
def test_adjacent_ranges_are_merged(ranges: tuple[str, ...], text: str) -> None:
    assert merged(Range.parse(one) for one in ranges) == text


SPANS = st.tuples(st.integers(20, 40), st.integers(1, 6)).map(lambda pair: f">=1.{pair[0]} <1.{sum(pair)}")


@given(st.lists(SPANS, min_size=1, max_size=5))
def test_merged_range_contains_the_versions_of_its_parts(texts: list[str]) -> None:
    parts = [Range.parse(text) for text in texts]
    whole = Range.parse(merged(parts))

    for minor in range(15, 50):
        assert whole.holds((1, minor, 3)) is any(part.holds((1, minor, 3)) for part in parts)
