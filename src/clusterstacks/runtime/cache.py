"""Cache of the objects of one kind, with indexes."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

from clusterstacks.model.objects import Manifest, ObjectKey

if TYPE_CHECKING:
    from collections.abc import Iterator

Index: TypeAlias = Callable[[Manifest], Iterable[str]]
"""Returns the index values of an object, e.g. the class of a Cluster; must be deterministic."""

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class CacheChange:
    """An object was added (``old`` is None), deleted (``new`` is None) or changed."""

    key: ObjectKey
    old: Manifest | None
    new: Manifest | None


def key_of(manifest: Manifest) -> ObjectKey:
    """Return the namespace and name of an object."""
    metadata = manifest["metadata"]
    return ObjectKey(metadata.get("namespace", ""), metadata["name"])


class ObjectCache:
    """Objects by key, as last seen. All readers share the same dicts and must not change them."""

    def __init__(self, indexes: Mapping[str, Index] | None = None) -> None:
        self._objects: dict[ObjectKey, Manifest] = {}
        self._indexes = dict(indexes or {})
        # A dict without values is a set that keeps its order.
        self._keys: dict[str, dict[str, dict[ObjectKey, None]]] = {name: {} for name in self._indexes}

    def __len__(self) -> int:
        return len(self._objects)

    def __iter__(self) -> Iterator[ObjectKey]:
        """Iterate over a copy of the keys, so that the cache may change during the iteration."""
        return iter(list(self._objects))

    def get(self, key: ObjectKey) -> Manifest | None:
        """Return the object as last seen; None if it does not exist."""
        return self._objects.get(key)

    def all(self) -> list[Manifest]:
        """Return the objects of all namespaces, in the order in which they were added."""
        return list(self._objects.values())

    def by_index(self, index: str, value: str) -> list[Manifest]:
        """Return the objects for which the index returned this value; KeyError for an unknown index."""
        return [self._objects[key] for key in self._keys[index].get(value, ())]

    def put(self, key: ObjectKey, manifest: Manifest) -> Manifest | None:
        """Add or replace the object; return the previous one."""
        old = self._objects.get(key)
        self._objects[key] = manifest
        for index in self._indexes:
            before = self._values(index, old) if old is not None else set()
            after = self._values(index, manifest)
            self._unlink(index, before - after, key)
            for value in after - before:
                self._keys[index].setdefault(value, {})[key] = None
        return old

    def remove(self, key: ObjectKey) -> Manifest | None:
        """Remove the object and return it; None if it is not in the cache."""
        old = self._objects.pop(key, None)
        if old is not None:
            for index in self._indexes:
                self._unlink(index, self._values(index, old), key)
        return old

    def _unlink(self, index: str, values: Iterable[str], key: ObjectKey) -> None:
        entries = self._keys[index]
        for value in values:
            keys = entries.get(value, {})
            keys.pop(key, None)
            if not keys:
                entries.pop(value, None)

    def _values(self, index: str, manifest: Manifest) -> set[str]:
        """Return the index values; an index that fails on an object omits only that object."""
        try:
            return set(self._indexes[index](manifest))
        except Exception:
            log.exception("Index %s failed on %s", index, key_of(manifest))
            return set()
