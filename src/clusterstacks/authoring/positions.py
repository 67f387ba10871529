"""Where in a file something stands, so that an editor can jump there."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import yaml as pyyaml

from clusterstacks.api import yaml

if TYPE_CHECKING:
    from collections.abc import Sequence

_STEP = re.compile(r"([^.\[\]]+)|\[(\d+)\]")
_COMPLAINT_FIELD = re.compile(r"^[^:]+: ([^\s:]+)(?::| is) ")
_COMPLAINT_LINE = re.compile(r", line (\d+):")


def line_of_field(content: bytes, path: Sequence[str | int]) -> int:
    """Find a field of a YAML file; the deepest part of the path that is there, and 1 in a file that is no YAML."""
    try:
        node = yaml.compose(content)
    except yaml.YamlError:
        return 1
    line = 1
    for step in path:
        found = _child(node, step)
        if found is None:
            break
        line, node = found
    return line


def line_of_text(content: bytes, *needles: str) -> int:
    """Find the first line that holds the first of the texts that is anywhere in the file, else 1."""
    for needle in needles:
        at = content.find(needle.encode(errors="replace"))
        if at >= 0:
            return content.count(b"\n", 0, at) + 1
    return 1


def line_of_complaint(content: bytes, message: str) -> int:
    """Find the line an error of ``domain.documents`` or ``api.yaml`` speaks of."""
    if line := _COMPLAINT_LINE.search(message):
        return int(line[1])
    field = _COMPLAINT_FIELD.match(message)
    return line_of_field(content, steps(field[1])) if field else 1


def steps(field: str) -> list[str | int]:
    """Take ``addonStages.AfterClusterUpgrade[0].name`` apart."""
    return [int(index) if index else name for name, index in _STEP.findall(field)]


def _child(node: pyyaml.Node | None, step: str | int) -> tuple[int, pyyaml.Node] | None:
    if isinstance(node, pyyaml.MappingNode):
        for key, value in node.value:
            if isinstance(key, pyyaml.ScalarNode) and key.value == step:
                return key.start_mark.line + 1, value
    if isinstance(node, pyyaml.SequenceNode) and isinstance(step, int) and step < len(node.value):
        item: pyyaml.Node = node.value[step]
        return item.start_mark.line + 1, item
    return None
