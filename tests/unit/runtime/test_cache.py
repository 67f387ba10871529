from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clusterstacks.model.objects import ObjectKey
from clusterstacks.runtime.cache import ObjectCache, key_of

if TYPE_CHECKING:
    from collections.abc import Iterable

    from clusterstacks.model.objects import Manifest


def cluster(name: str, *uses: str) -> Manifest:
    return {"metadata": {"namespace": "ns", "name": name}, "uses": list(uses)}


def uses(manifest: Manifest) -> Iterable[str]:
    yield from manifest["uses"]


def put(store: ObjectCache, manifest: Manifest) -> Manifest | None:
    return store.put(key_of(manifest), manifest)


def test_every_reader_gets_the_same_object() -> None:
    store = ObjectCache()
    one = cluster("one")
    put(store, one)

    assert store.get(ObjectKey("ns", "one")) is one
    assert store.all() == [one]
    assert list(store) == [ObjectKey("ns", "one")]


def test_put_and_remove_return_the_previous_object() -> None:
    store = ObjectCache()
    first, second = cluster("one"), cluster("one", "class")

    assert put(store, first) is None
    assert put(store, second) is first
    assert store.remove(ObjectKey("ns", "one")) is second
    assert store.remove(ObjectKey("ns", "one")) is None
    assert len(store) == 0


def test_an_index_follows_the_objects() -> None:
    store = ObjectCache({"uses": uses})
    put(store, cluster("one", "a", "b"))
    put(store, cluster("two", "b"))
    put(store, cluster("one", "b", "c"))

    assert store.by_index("uses", "a") == []
    assert [key_of(found).name for found in store.by_index("uses", "b")] == ["one", "two"]
    store.remove(ObjectKey("ns", "one"))
    assert store.by_index("uses", "c") == []
    assert [key_of(found).name for found in store.by_index("uses", "b")] == ["two"]


def test_unused_index_values_are_removed() -> None:
    store = ObjectCache({"uses": uses})
    put(store, cluster("one", "a"))
    store.remove(ObjectKey("ns", "one"))

    assert store._keys == {"uses": {}}


def test_an_unknown_index_raises_key_error() -> None:
    with pytest.raises(KeyError):
        ObjectCache().by_index("uses", "a")


def test_an_object_an_index_fails_on_is_kept_and_the_others_are_found(caplog: pytest.LogCaptureFixture) -> None:
    store = ObjectCache({"uses": uses})
    put(store, {"metadata": {"namespace": "ns", "name": "broken"}})
    put(store, cluster("one", "a"))

    assert len(store) == 2
    assert [key_of(found).name for found in store.by_index("uses", "a")] == ["one"]
    assert "Index uses failed on ns/broken" in caplog.text


STEPS = st.lists(
    st.tuples(st.sampled_from("xyz"), st.none() | st.sets(st.sampled_from("abc"))),
    max_size=30,
)


@given(STEPS)
def test_an_index_always_equals_a_search(steps: list[tuple[str, set[str] | None]]) -> None:
    store = ObjectCache({"uses": uses})
    for name, wanted in steps:
        if wanted is None:
            store.remove(ObjectKey("ns", name))
        else:
            put(store, cluster(name, *wanted))

    for value in "abc":
        found = {key_of(manifest) for manifest in store.by_index("uses", value)}
        assert found == {key_of(manifest) for manifest in store.all() if value in manifest["uses"]}
