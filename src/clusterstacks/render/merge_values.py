"""Values over values, as Helm lays them over one another."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping


def merge_values(base: Mapping[str, object], over: Mapping[str, object]) -> dict[str, object]:
    """Lay values over others: mappings are merged key by key, anything else replaces what was there.

    A null replaces what was there and stays: Helm then removes the chart's default. Neither argument is changed.
    """
    merged = dict(base)
    for key, value in over.items():
        before = merged.get(key)
        if isinstance(value, dict) and isinstance(before, dict):
            merged[key] = merge_values(before, value)
        else:
            merged[key] = value
    return merged
