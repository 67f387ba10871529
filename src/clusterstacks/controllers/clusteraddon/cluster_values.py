"""Values of one cluster's own: the topology variable ``addonValues`` (INCUMBENT D79)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import orjson

from clusterstacks.api.addon_annotations import without_effect
from clusterstacks.api.clusterapi import topology_variables
from clusterstacks.api.yaml import MAX_DEPTH
from clusterstacks.domain.documents import shown
from clusterstacks.domain.errors import SpecError

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

    from clusterstacks.domain.objects import Manifest

VARIABLE = "addonValues"
"""A class that allows such values defines this variable, an object by addon; Cluster API refuses it elsewhere."""

MAX_BYTES = 1024 * 1024
"""Such values of one addon as JSON (arbitrary: an object of Kubernetes has at most 1.5 MiB)."""

MAX_VALUES = 20_000
"""Scalars, lists and mappings of one addon (arbitrary: the values of the largest charts known have 3,000; laying so
many over others takes half a second of a render worker)."""


SHOWN_NAMES = 10
"""Names of one kind that a message lists (arbitrary: most releases have fewer addons)."""


class AddonValuesInvalid(SpecError):
    """The values that a Cluster has for an addon cannot be used."""

    def __init__(self, message: str) -> None:
        super().__init__("AddonValuesInvalid", message)


def unknown_settings(cluster: Manifest, addons: Collection[str]) -> str:
    """Say which values and annotations of a Cluster about addons have no effect; empty for none.

    Args:
        cluster: The Cluster.
        addons: The addons its releases have, also those that it keeps out.
    """
    by_addon = topology_variables(cluster).get(VARIABLE)
    unknown = sorted(key for key in by_addon if key not in addons) if isinstance(by_addon, dict) else []
    found = []
    if unknown:
        there = _named(sorted(addons)) or "none"
        found.append(
            f"variable {VARIABLE} has values for {_named(unknown)}, but the addons are {there}: rename the key"
        )
    found += without_effect(cluster["metadata"].get("annotations") or {}, addons)
    return "; ".join(found)


def _named(names: list[str]) -> str:
    more = f" and {len(names) - SHOWN_NAMES} more" if len(names) > SHOWN_NAMES else ""
    return ", ".join(shown(name) for name in names[:SHOWN_NAMES]) + more


def own_values(addon: str, cluster: Manifest) -> Manifest | None:
    """Return the values a Cluster has for an addon, to be laid over those its release makes; None for none.

    Args:
        addon: Its name.
        cluster: The Cluster.

    Raises:
        AddonValuesInvalid: The variable does not hold mappings, or its values are too many or too deep.
    """
    by_addon = topology_variables(cluster).get(VARIABLE)
    if by_addon is None:
        return None
    own = by_addon.get(addon) if isinstance(by_addon, dict) else by_addon
    if own is None:
        return None
    where = f"{VARIABLE}.{addon}" if isinstance(by_addon, dict) else VARIABLE
    title = f"variable {where} of Cluster {cluster['metadata']['namespace']}/{cluster['metadata']['name']}"
    if not isinstance(own, dict):
        raise AddonValuesInvalid(f"{title} is {shown(own)}: write the values of the addon's chart as a mapping")
    if excess := _excess(own):
        raise AddonValuesInvalid(f"{title} {excess}: write fewer values, or put them into the release")
    return own


def _excess(values: Manifest) -> str:
    """Say which bound values exceed; the bounds keep this below some milliseconds."""
    too_deep = f"nests deeper than {MAX_DEPTH} levels"
    try:
        text = orjson.dumps(values)
    except TypeError:
        return too_deep  # orjson writes 254 levels
    if len(text) > MAX_BYTES:
        return f"has more than {MAX_BYTES} bytes"
    level: list[object] = [values]
    count = depth = 0
    while level:
        count += len(level)
        if count > MAX_VALUES:
            return f"has more than {MAX_VALUES} values"
        if depth > MAX_DEPTH:
            return too_deep
        depth += 1
        level = [child for one in level for child in _children(one)]
    return ""


def _children(value: object) -> Iterable[object]:
    if isinstance(value, dict):
        return value.values()
    return value if isinstance(value, list) else ()
