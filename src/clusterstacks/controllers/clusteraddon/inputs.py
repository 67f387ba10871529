"""What an addon's manifests are rendered from, and the digests that tell whether any of it changed."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

import orjson

if TYPE_CHECKING:
    from clusterstacks.domain.objects import Manifest

RENDERING = "1"
"""Version of everything that decides how inputs become manifests. A new number delivers every addon anew: raise it only
when the output is meant to change. An upgrade of the operator alone must not write to any workload cluster."""

_METADATA = ("name", "namespace", "labels", "annotations")
_NOISY_STATUS = {"conditions", "deprecated", "v1beta2", "observedGeneration"}


def seen_digest(kubernetes_minor: str, class_digest: str, objects: Manifest) -> str:
    """Digest of everything a settled addon depends on, without rendering anything.

    ``objects`` are the roots of the templates: Cluster, control plane and infrastructure object. Of their status only
    conditions and their like are left out, which change without meaning. A changed digest says that values *may*
    differ: the rendered values decide.
    """
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


def _digest(value: list[object]) -> str:
    return "sha256:" + hashlib.sha256(orjson.dumps(value, option=orjson.OPT_SORT_KEYS)).hexdigest()
