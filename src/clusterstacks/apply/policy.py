"""Policies that the author of an object chooses by an annotation: how it is updated, and whether it is pruned.

A policy travels with the manifest, so a new one is read here and obeyed in ``object_applier`` or ``prune``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from clusterstacks.charts.helm_hooks import HOOK_ANNOTATION

if TYPE_CHECKING:
    from clusterstacks.domain.objects import Manifest

PRUNE_ANNOTATION: Final = "clusterstack.x-k8s.io/prune"
"""``disabled`` on an object keeps it when its addon no longer renders it."""

RECREATE_ANNOTATION: Final = "clusterstack.x-k8s.io/recreate"
"""``enabled`` in a manifest allows the deletion and re-creation of the object when a field is immutable."""

HOOK_POLICY_ANNOTATION: Final = "helm.sh/hook-delete-policy"
BEFORE_CREATION: Final = "before-hook-creation"
"""Helm's values. Source: https://helm.sh/docs/topics/charts_hooks"""

_RUN_ONCE: Final = frozenset({"Job", "Pod"})


def wants_recreation(manifest: Manifest) -> bool:
    """Return whether an object may be deleted and created again when a field is immutable.

    That holds for a Job or Pod that is a Helm hook, unless it has a delete policy without ``before-hook-creation``,
    which is Helm's default: hooks that run once are written to be created again at each upgrade.
    """
    annotations = manifest["metadata"].get("annotations") or {}
    if manifest.get("kind") in _RUN_ONCE and HOOK_ANNOTATION in annotations:
        policies = str(annotations.get(HOOK_POLICY_ANNOTATION) or BEFORE_CREATION).split(",")
        if BEFORE_CREATION in (policy.strip() for policy in policies):
            return True
    return annotations.get(RECREATE_ANNOTATION) == "enabled"


def refuses_pruning(live: Manifest) -> bool:
    """Return whether an annotation of the object disables pruning."""
    return (live["metadata"].get("annotations") or {}).get(PRUNE_ANNOTATION) == "disabled"
