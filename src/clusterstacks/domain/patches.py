"""JSON merge patches (RFC 7386)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from clusterstacks.domain.objects import Manifest


def merge_diff(old: Manifest, new: Manifest) -> Manifest:
    """Return the merge patch that turns ``old`` into ``new``; empty when they are equal.

    Lists are replaced as a whole, as the RFC requires. None in ``new`` counts as absent.
    """
    patch: Manifest = {key: None for key in old if new.get(key) is None and old[key] is not None}
    for key, value in new.items():
        before = old.get(key)
        if value is None or value == before:
            continue
        if isinstance(value, dict) and isinstance(before, dict):
            # Removing all keys of an object leaves an empty object, which is also a change.
            patch[key] = merge_diff(before, value)
        else:
            patch[key] = value
    return patch


def contains(live: Any, wanted: Any) -> bool:  # noqa: ANN401 - any JSON value
    """Return whether ``live`` contains every value of ``wanted``; lists must be equal."""
    if isinstance(wanted, dict):
        return isinstance(live, dict) and all(
            key in live and contains(live[key], value) for key, value in wanted.items()
        )
    return bool(live == wanted)
