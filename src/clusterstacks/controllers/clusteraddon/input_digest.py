"""What an addon's manifests are rendered from, and the digests that tell whether any of it changed."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

import orjson

from clusterstacks.domain.errors import SpecError
from clusterstacks.domain.objects import ObjectKey

if TYPE_CHECKING:
    from clusterstacks.domain.objects import Manifest

RENDERING = "1"
"""Version of everything that decides how inputs become manifests. A new number delivers every addon anew: raise it only
when the output is meant to change. An upgrade of the operator alone must not write to any workload cluster."""

MAX_LEVELS = 200
"""Levels of nesting that an object may have. orjson writes 254, and what is written holds the object some levels deep;
Cluster API's own objects have some 20."""

_ORJSON_LEVELS = 254
_METADATA = ("name", "namespace", "labels", "annotations")
_NOISY_STATUS = {"conditions", "deprecated", "v1beta2", "observedGeneration"}


class NestedTooDeep(SpecError):
    """An object that addons are rendered from has too many levels."""

    def __init__(self, manifest: Manifest) -> None:
        metadata = manifest.get("metadata") or {}
        name = ObjectKey(metadata.get("namespace") or "", metadata.get("name") or "")
        super().__init__(
            "NestedTooDeep",
            f"{manifest.get('kind')} {name} is nested deeper than {MAX_LEVELS} levels, so no addon can be rendered "
            "from it: flatten the values of its variables",
        )


def seen_digest(kubernetes_minor: str, class_digest: str, objects: Manifest) -> str:
    """Digest of everything a settled addon depends on, without rendering anything.

    ``objects`` are the roots of the templates: Cluster, control plane and infrastructure object. Of their status only
    conditions and their like are left out, which change without meaning. A changed digest says that values *may*
    differ: the rendered values decide.

    Raises:
        NestedTooDeep: One of the objects.
    """
    for manifest in objects.values():
        _check_levels(manifest)
    return _digest([RENDERING, kubernetes_minor, class_digest, {key: stable(value) for key, value in objects.items()}])


def input_digest(kubernetes_minor: str, chart_digest: str, values: str) -> str:
    """Digest of what one addon's manifests are rendered from; a Kubernetes patch release is no part of it."""
    return _digest([RENDERING, kubernetes_minor, chart_digest, values])


def stable(manifest: Manifest) -> Manifest:
    """What of an object may decide values: all but conditions and their like, and the server's bookkeeping."""
    if not manifest:
        return {}
    metadata = manifest.get("metadata") or {}
    status = manifest.get("status") or {}
    return {
        "metadata": {key: metadata.get(key) for key in _METADATA},
        "spec": manifest.get("spec"),
        "status": {key: value for key, value in status.items() if key not in _NOISY_STATUS},
    }


def _check_levels(manifest: Manifest) -> None:
    """Refuse an object before anything is made of it that recurses: here orjson does, which is fast."""
    wrapped: object = manifest
    for _ in range(_ORJSON_LEVELS - MAX_LEVELS):
        wrapped = [wrapped]
    try:
        orjson.dumps(wrapped)
    except orjson.JSONEncodeError:
        raise NestedTooDeep(manifest) from None


def _digest(value: list[object]) -> str:
    return "sha256:" + hashlib.sha256(orjson.dumps(value, option=orjson.OPT_SORT_KEYS)).hexdigest()
