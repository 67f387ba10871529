"""Shards: instances of the operator that share the Clusters of a management cluster by a label.

The label of a Cluster is the wish of its owner. The label of its ClusterAddon and of its bindings says who holds them,
and only the holder delivers. The holder changes it when it has stopped to write to the cluster; so a Cluster that moves
has no writer for a moment, and never two. For a holder whose Lease has ended, the main instance changes it.
"""

from __future__ import annotations

import re
from enum import Enum, auto
from typing import TYPE_CHECKING, Final

from clusterstacks.model.digests import sha256_digest
from clusterstacks.model.documents import text
from clusterstacks.model.kinds.names import SHARD_LABEL, SHARDS_ANNOTATION, WATCH_FILTER_LABEL

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from clusterstacks.model.objects import Manifest

MAIN: Final = ""
"""The main instance, which has all Clusters without the label."""

MAIN_LEASE: Final = "clusterstack.x-k8s.io"
"""Name of the Lease of the main instance: that of the Go operator, so that only one of the two operators writes."""

NAME: Final = re.compile(r"(?!main$)[a-z0-9]([-a-z0-9]{0,28}[a-z0-9])?")
"""Pattern of the name of a shard, which is in names of objects; csctl shows the main instance as ``main``."""


class ShardStep(Enum):
    """What an instance does with a ClusterAddon or binding."""

    WORK = auto()
    HAND_OVER = auto()
    """It makes the wanted shard the holder."""
    HAND_OVER_FOR = auto()
    """It hands over for the holder, if that does not run; one that runs does it soon."""
    IGNORE = auto()


def decide_step(own: str, wanted: str, holder: str) -> ShardStep:
    """Decide what the instance ``own`` does with an object of ``holder`` whose Cluster wants ``wanted``."""
    if holder == own:
        return ShardStep.WORK if wanted == own else ShardStep.HAND_OVER
    return ShardStep.HAND_OVER_FOR if own == MAIN and wanted != holder else ShardStep.IGNORE


def shard_of(manifest: Manifest | None) -> str:
    """Return the shard that a Cluster wants, or that holds a ClusterAddon or binding; ``MAIN`` without a label."""
    return text(manifest or {}, "metadata", "labels", SHARD_LABEL)


def inherited_labels(labels: Mapping[str, str]) -> dict[str, str]:
    """Return the labels of a Cluster that its ClusterAddon and its bindings have from the beginning."""
    return {label: labels[label] for label in (WATCH_FILTER_LABEL, SHARD_LABEL) if label in labels}


def lease_name(shard: str, watch_filter: str = "") -> str:
    """Return the name of the Lease of an instance: two that share no objects do not exclude each other."""
    parts = [shard, f"filter-{sha256_digest(watch_filter.encode())[7:15]}" if watch_filter else "", MAIN_LEASE]
    return ".".join(filter(None, parts))


def shard_refusal(wanted: str, shards: Collection[str], namespace: Manifest | None) -> str:
    """Return why a Cluster may not be given to a shard; empty if it may.

    ``shards`` are those of the installation; an annotation of the Namespace, which its provider writes, can limit them.
    """
    limit = text(namespace or {}, "metadata", "annotations", SHARDS_ANNOTATION)
    allowed = {*shards} & {name.strip() for name in limit.split(",")} if limit else {*shards}
    if wanted in allowed:
        return ""
    offered = f"use {' or '.join(sorted(allowed))}, or remove the label" if allowed else "remove the label"
    whom = f"annotation {SHARDS_ANNOTATION} of its namespace does not name it" if wanted in shards else "there is none"
    return f"label {SHARD_LABEL} asks for the shard {wanted!r}, but {whom}: {offered}"
