"""Digests and marks: how two states of an object are told apart without keeping them."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Any

import orjson

from clusterstacks.apply.delivery_plan import Mark
from clusterstacks.apply.stamp import sent_texts

if TYPE_CHECKING:
    from collections.abc import Mapping

    from clusterstacks.domain.objects import Manifest

DIGEST_BYTES = 16
"""128 bits: nobody but the cluster's own administrator could profit from a collision, and records stay small."""


def digest_of(document: Any) -> str:  # noqa: ANN401  # any JSON value
    """Digest a JSON value; the order of keys does not count.

    Raises:
        TypeError: The value cannot be written as JSON.
    """
    text = orjson.dumps(document, option=orjson.OPT_SORT_KEYS)
    return hashlib.blake2b(text, digest_size=DIGEST_BYTES).hexdigest()


def mark_of(live: Manifest, sent: Manifest) -> Mark:
    """Mark a live object; of its labels and annotations only those that ``sent`` names count."""
    metadata = live["metadata"]
    labels, annotations = sent_texts(sent)
    texts = [_chosen(metadata.get("labels"), labels), _chosen(metadata.get("annotations"), annotations)]
    generation = metadata.get("generation") or 0
    version = "" if generation else metadata["resourceVersion"]
    return Mark(generation, version, digest_of(texts))


def _chosen(texts: Mapping[str, Any] | None, keys: Mapping[str, Any]) -> dict[str, Any]:
    return {key: texts.get(key) for key in keys} if texts else {}
