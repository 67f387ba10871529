"""index.yaml of a chart repository.

Public indexes reach 30 MB, of which a chart is a small part, and reading that much YAML takes minutes and gigabytes.
Helm writes them in one form, with a chart's name alone on its line, so the part of one chart is cut out of the text
and only that is read. An index of another form is read whole if it is small.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from clusterstacks.api import yaml
from clusterstacks.charts.errors import ChartBroken
from clusterstacks.domain.documents import Node
from clusterstacks.domain.errors import SpecError

if TYPE_CHECKING:
    from collections.abc import Iterator

MAX_INDEX_BYTES = 64 * 1024 * 1024
"""Largest index read (arbitrary; twice the largest known)."""

MAX_PART_BYTES = 8 * 1024 * 1024
"""Largest part of one chart (arbitrary; the largest known has 2 MB)."""

MAX_WHOLE_BYTES = 4 * 1024 * 1024
"""Largest index of an unusual form (arbitrary: some ten seconds)."""

_ENTRIES = re.compile(rb"""^(?:entries|"entries"|'entries'):[ \t]*\r?\n""", re.MULTILINE)
_TOP = re.compile(rb"^[^\s#-]", re.MULTILINE)
_FIRST = re.compile(rb"^( +)[^\s#-]", re.MULTILINE)
_DIGEST = re.compile(r"(?:sha256:)?([0-9a-f]{64})")


@dataclass(frozen=True, slots=True)
class IndexEntry:
    """One version of a chart in an index.

    Args:
        version: As the index writes it.
        url: Where its archive is; may be relative to the repository.
        digest: ``sha256:<hex>`` of the archive; empty when the index states none.
    """

    version: str
    url: str
    digest: str


def read_entries(index: bytes, chart: str, label: str) -> tuple[IndexEntry, ...]:
    """Return every version of a chart that can be downloaded; empty when the index does not know it.

    Takes time for a large index: call it in a thread.

    Args:
        index: The document.
        chart: The chart's name.
        label: How messages call the index.

    Raises:
        SpecError: The index cannot be read.
    """
    entries = Node(_load(index, chart, label), label).child("entries")
    listed = {} if entries.value is None else entries.mapping()
    return tuple(_usable(Node(listed.get(chart), label, f"entries.{chart}")))


def _usable(versions: Node) -> Iterator[IndexEntry]:
    for node in versions.items():
        fields = node.value if isinstance(node.value, dict) else {}
        version, urls, digest = fields.get("version"), fields.get("urls"), fields.get("digest")
        if isinstance(version, str) and isinstance(urls, list) and urls and isinstance(urls[0], str):
            stated = _DIGEST.fullmatch(digest.lower()) if isinstance(digest, str) else None
            yield IndexEntry(version, urls[0], f"sha256:{stated[1]}" if stated else "")


def _load(index: bytes, chart: str, label: str) -> Any:  # noqa: ANN401 - a document nobody has checked
    if index.lstrip()[:1] == b"{":
        return _load_json(index, label)
    try:
        part = _cut(index, chart.encode())
        if part is not None:
            return yaml.load(part, name=label, max_bytes=MAX_PART_BYTES)
    except yaml.YamlError:
        # A sign that belongs to a text of several lines, or an anchor elsewhere, may have misled the knife.
        if len(index) > MAX_WHOLE_BYTES:
            raise
    if len(index) > MAX_WHOLE_BYTES:
        raise ChartBroken(
            label, f"has a form that is read up to {MAX_WHOLE_BYTES} bytes: write it with helm repo index"
        )
    return yaml.load(index, name=label, max_bytes=MAX_WHOLE_BYTES)


def _load_json(index: bytes, label: str) -> Any:  # noqa: ANN401 - a document nobody has checked
    try:
        return json.loads(index)
    except (ValueError, RecursionError):
        raise SpecError("ChartIndexInvalid", f"{label} is no JSON: write it with helm repo index") from None


def _cut(index: bytes, chart: bytes) -> bytes | None:
    """Return the index as if it had this chart alone; None when it has not the form Helm writes."""
    found = _ENTRIES.search(index)
    first = _FIRST.search(index, found.end()) if found else None
    if found is None or first is None:
        return None
    end = _start(_TOP.search(index, found.end()), index)
    margin = re.escape(first[1])
    key = re.compile(rb"^%s[\"']?%s[\"']?:(?P<rest>[^\r\n]*)" % (margin, re.escape(chart)), re.MULTILINE)
    place = key.search(index, found.end(), end)
    if place is None:
        return b"entries: {}"
    if place["rest"].strip():
        return None
    after = re.compile(rb"^ {0,%d}[^\s#-]" % len(first[1]), re.MULTILINE)
    return b"entries:\n" + index[place.start() : min(end, _start(after.search(index, place.end()), index))]


def _start(found: re.Match[bytes] | None, text: bytes) -> int:
    return found.start() if found else len(text)
