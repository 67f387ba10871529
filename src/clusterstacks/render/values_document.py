"""The values document inside a rendered ``overwrite.yaml`` (FORMATS 14), and values laid over it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from clusterstacks.api import yaml
from clusterstacks.render.errors import RenderFailed, kind_of
from clusterstacks.render.merge_values import merge_values

if TYPE_CHECKING:
    from collections.abc import Mapping


def values_document(text: str) -> str:
    """Return the YAML text that goes to Helm: the string under the key ``values``, else the whole text.

    Empty text, or nothing but comments, gives an empty string (D34). The text itself is passed on, so numbers stay
    as they were written.

    Raises:
        RenderFailed: not YAML, or neither a mapping nor empty, on the outside or inside ``values``.
    """
    outer = _mapping(text, "the rendered values")
    if outer is None:
        return ""
    inner = outer.get("values")
    if not isinstance(inner, str):
        return text
    return "" if _mapping(inner, "the text under the key values") is None else inner


def overlaid_document(text: str, over: Mapping[str, object]) -> str:
    """Return a values document with other values laid over it, as YAML text.

    The text decides what an addon is rendered from: it must stay the same, byte for byte, from release to release.

    Raises:
        RenderFailed: the text is not YAML, or neither a mapping nor empty.
    """
    return yaml.dump(merge_values(_mapping(text, "the rendered values") or {}, over))


def _mapping(text: str, name: str) -> dict[str, object] | None:
    try:
        document = yaml.load(text, name=name)
    except yaml.YamlError as error:
        raise RenderFailed(error.message) from None
    if document is not None and not isinstance(document, dict):
        raise RenderFailed(f"{name} must be a mapping, not {kind_of(document)}")
    return document
