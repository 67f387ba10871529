"""Arbitrary documents, and valid documents with one part replaced."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.builds(lambda: 10**5000)  # beyond the digits Python prints; as a constant hypothesis could not print it either
    | st.floats()
    | st.text(max_size=20)
    | st.sampled_from(["v1", "v1.34.7", "apply", "cni"]),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=10), inner, max_size=4),
    max_leaves=12,
)


def places(document: Any) -> list[tuple[Any, ...]]:
    """List the path of every value of a document, the document itself included."""
    pairs: list[tuple[Any, Any]] = []
    if isinstance(document, dict):
        pairs = list(document.items())
    elif isinstance(document, list):
        pairs = list(enumerate(document))
    return [(), *((key, *rest) for key, value in pairs for rest in places(value))]


def replaced(document: Any, place: tuple[Any, ...], value: Any) -> Any:
    """Copy a document with another value at one place."""
    if not place:
        return value
    key, *rest = place
    copy = document.copy()
    copy[key] = replaced(document[key], tuple(rest), value)
    return copy


def damaged(document: Any) -> st.SearchStrategy[Any]:
    """Draw the document with any JSON value at any one of its places."""
    return st.builds(lambda place, value: replaced(document, place, value), st.sampled_from(places(document)), JSON)
