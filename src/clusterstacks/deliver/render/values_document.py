"""Reads and merges the values of an addon: the YAML document that goes to Helm."""

from __future__ import annotations

from typing import TYPE_CHECKING

from clusterstacks.deliver.render.errors import RenderFailed, kind_of
from clusterstacks.model import yaml

if TYPE_CHECKING:
    from collections.abc import Mapping


def merge_values(base: Mapping[str, object], over: Mapping[str, object]) -> dict[str, object]:
    """Merge values as Helm does: mappings key by key; anything else replaces the previous value.

    A null replaces the previous value and stays: Helm then removes the default of the chart. The arguments are not
    changed.
    """
    merged = dict(base)
    for key, value in over.items():
        before = merged.get(key)
        if isinstance(value, dict) and isinstance(before, dict):
            merged[key] = merge_values(before, value)
        else:
            merged[key] = value
    return merged


def values_document(text: str) -> str:
    """Return the YAML text for Helm: the string under the key ``values``, otherwise the whole text.

    Empty text, or only comments, gives an empty string. The text itself is returned, so numbers keep their notation.

    Raises:
        RenderFailed: The text, or the text under ``values``, is not valid YAML, or neither a mapping nor empty.
    """
    outer = _mapping(text, "the rendered values")
    if outer is None:
        return ""
    inner = outer.get("values")
    if not isinstance(inner, str):
        return text
    return "" if _mapping(inner, "the text under the key values") is None else inner


def overlaid_document(text: str, over: Mapping[str, object]) -> str:
    """Return a values document merged with other values, as YAML text.

    The text is an input of the delivery: it must stay equal, byte for byte, in later releases.
    """
    return yaml.dump(merge_values(_mapping(text, "the rendered values") or {}, over))


def helm_values(text: str) -> dict[str, object]:
    """Return the values of a render; empty text gives no values."""
    return _mapping(text, "values") or {}


def _mapping(text: str, name: str) -> dict[str, object] | None:
    try:
        document = yaml.load(text, name=name)
    except yaml.YamlError as error:
        raise RenderFailed(error.message) from None
    if document is not None and not isinstance(document, dict):
        raise RenderFailed(f"{name} must be a mapping, not {kind_of(document)}")
    return document
