"""Changes single values of a YAML file and keeps its comments, order and quotes."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

import yaml as pyyaml

from clusterstacks.model import yaml
from clusterstacks.model.errors import SpecError
from clusterstacks.model.files.definitions import field_path

if TYPE_CHECKING:
    from collections.abc import Mapping

Place: TypeAlias = tuple[str | int, ...]
"""Path of a value: keys of mappings and positions in lists."""

_NOT_ALONE = "&!|>"
"""First characters of an anchor, a tag, or a block scalar."""


def with_values(content: bytes, values: Mapping[Place, str], *, name: str) -> bytes | None:
    """Replace existing scalars, by path, in a YAML file.

    The new texts are written without quotes, so YAML must read them as strings, as it does with versions and chart
    names. Returns None if a path does not exist or its value is not a plain scalar on one line: a block scalar, or a
    value with an anchor or a tag, to which an alias may refer.
    """
    yaml.load(content, name=name)  # reports a file that is not valid
    text = content.decode("utf-8-sig")  # marks do not count a byte order mark
    root = yaml.compose(text, name=name)
    found = {place: _at(root, place) for place in values}
    spans = []
    for place, node in found.items():
        if node is None or node.start_mark is None or node.end_mark is None:
            return None
        if text[node.start_mark.index] in _NOT_ALONE:
            return None
        spans.append((node.start_mark.index, node.end_mark.index, values[place]))
    for start, end, value in sorted(spans, reverse=True):
        text = text[:start] + value + text[end:]
    return text.encode()


def with_key(content: bytes, place: Place, key: str, value: str, *, name: str) -> bytes:
    """Set a key of a mapping that exists: replace its value, or write the key before the others.

    The value is written without quotes, as by :func:`with_values`.
    """
    replaced = with_values(content, {(*place, key): value}, name=name)
    if replaced is not None:
        return replaced
    text = content.decode("utf-8-sig")
    node = yaml.compose(text, name=name)
    for step in place:
        node = _child(node, step)
    if not isinstance(node, pyyaml.MappingNode) or node.start_mark is None or _child(node, key) is not None:
        raise SpecError("NotEditable", f"{name}: write {key}: {value} at {field_path(place)}")
    start = node.start_mark.index + bool(node.flow_style)  # after the brace
    separator = ", " if node.flow_style else f"\n{' ' * node.start_mark.column}"
    return f"{text[:start]}{key}: {value}{separator}{text[start:]}".encode()


def _at(node: pyyaml.Node | None, place: Place) -> pyyaml.ScalarNode | None:
    for step in place:
        node = _child(node, step)
    # An empty value has marks too, but no space separates them from the key.
    return node if isinstance(node, pyyaml.ScalarNode) and node.value else None


def _child(node: pyyaml.Node | None, step: str | int) -> pyyaml.Node | None:
    if isinstance(step, int):
        items = node.value if isinstance(node, pyyaml.SequenceNode) else []
        return items[step] if step < len(items) else None
    pairs = node.value if isinstance(node, pyyaml.MappingNode) else []
    return next((value for key, value in pairs if key.value == step), None)
