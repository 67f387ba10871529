"""JSON merge patches (RFC 7386) as values."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from clusterstacks.domain.objects import Manifest


def merge_diff(old: Manifest, new: Manifest) -> Manifest:
    """Return the merge patch that turns ``old`` into ``new``; empty when they are equal.

    Lists are replaced whole, as the format demands. A None in ``new`` counts as absent.
    """
    patch: Manifest = {key: None for key in old if new.get(key) is None and old[key] is not None}
    for key, value in new.items():
        before = old.get(key)
        if value is None or value == before:
            continue
        if isinstance(value, dict) and isinstance(before, dict):
            # An object whose every key goes leaves an empty object behind, which is still a change worth writing.
            patch[key] = merge_diff(before, value)
        else:
            patch[key] = value
    return patch


def contains(live: Any, wanted: Any) -> bool:  # noqa: ANN401 - any JSON value
    """Tell whether ``live`` already says everything ``wanted`` says; lists must be equal."""
    if isinstance(wanted, dict):
        return isinstance(live, dict) and all(
            key in live and contains(live[key], value) for key, value in wanted.items()
        )
    return bool(live == wanted)
