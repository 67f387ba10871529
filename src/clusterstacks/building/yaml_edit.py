"""Changing single values of a YAML file without touching anything else of it: comments, order and quotes stay."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

import yaml as pyyaml

from clusterstacks.api import yaml

if TYPE_CHECKING:
    from collections.abc import Mapping

Place: TypeAlias = tuple[str | int, ...]
"""The way to a value: keys of mappings, positions in lists."""

_NOT_ALONE = "&!|>"
"""What begins an anchor, a tag, or a block of lines."""


def with_values(content: bytes, values: Mapping[Place, str], *, name: str) -> bytes | None:
    """Write other texts in the places of existing scalars.

    Args:
        content: The file; YAML, UTF-8.
        values: What to write where. Texts are written as they are, so they must be none that YAML reads as anything
            else, as versions and names of charts are.
        name: How messages call the file.

    Returns:
        The changed file; None when a place is not there, or what stands there is no scalar on its line: a block of
        lines, or a value with an anchor or tag, which something else may refer to.

    Raises:
        YamlError: The file is no YAML.
    """
    yaml.load(content, name=name)  # refuses a file that cannot be read as it is
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


def _at(node: pyyaml.Node | None, place: Place) -> pyyaml.ScalarNode | None:
    for step in place:
        node = _child(node, step)
    # An empty value has a place, too, but nothing stands before it that would keep it apart from its key.
    return node if isinstance(node, pyyaml.ScalarNode) and node.value else None


def _child(node: pyyaml.Node | None, step: str | int) -> pyyaml.Node | None:
    if isinstance(step, int):
        items = node.value if isinstance(node, pyyaml.SequenceNode) else []
        return items[step] if step < len(items) else None
    pairs = node.value if isinstance(node, pyyaml.MappingNode) else []
    return next((value for key, value in pairs if key.value == step), None)
