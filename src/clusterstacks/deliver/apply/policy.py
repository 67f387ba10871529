"""Policies that the author of an object chooses by an annotation: its update, its prune, and the rule for its health.

A policy travels with the manifest, so a new one is read here and obeyed in ``object_applier``, ``prune`` or
``health_expressions``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from clusterstacks.deliver.apply.health_rules import has_state
from clusterstacks.model.objects import split_api_version
from clusterstacks.release.charts.helm_hooks import HOOK_ANNOTATION

if TYPE_CHECKING:
    from collections.abc import Iterable

    from clusterstacks.model.files.addon_config import HealthRule
    from clusterstacks.model.objects import Manifest

PRUNE_ANNOTATION: Final = "clusterstack.x-k8s.io/prune"
KEPT: Final = "disabled"
"""On an object, keeps it when its addon no longer renders it."""

HELM_POLICY_ANNOTATION: Final = "helm.sh/resource-policy"
HELM_KEPT: Final = "keep"
"""The same in the words of Helm, in any case. Source: https://helm.sh/docs/howto/charts_tips_and_tricks"""

RECREATE_ANNOTATION: Final = "clusterstack.x-k8s.io/recreate"
RECREATED: Final = "allowed"
"""In a manifest, allows the deletion and re-creation of the object when a field is immutable."""

_RECREATED_BEFORE: Final = "enabled"
"""The value of earlier versions."""

HEALTH_ANNOTATION: Final = "clusterstack.x-k8s.io/health"
HEALTH_FAILED_ANNOTATION: Final = "clusterstack.x-k8s.io/health-failed"
"""CEL expressions that are true if the object is healthy, and if it has failed."""

KINDS_WITH_DATA: Final = frozenset(
    {
        ("", "Namespace"),
        ("", "PersistentVolume"),
        ("", "PersistentVolumeClaim"),
        ("apiextensions.k8s.io", "CustomResourceDefinition"),
    }
)
"""Kinds whose deletion deletes data or objects of users; they are never recreated."""

HOOK_POLICY_ANNOTATION: Final = "helm.sh/hook-delete-policy"
BEFORE_CREATION: Final = "before-hook-creation"
"""Helm's values. Source: https://helm.sh/docs/topics/charts_hooks"""

_RUN_ONCE: Final = frozenset({"Job", "Pod"})


def wants_recreation(manifest: Manifest) -> bool:
    """Return whether an object may be deleted and created again when a field is immutable.

    That holds for a Job or Pod that is a Helm hook, unless it has a delete policy without ``before-hook-creation``,
    which is Helm's default: hooks that run once are written to be created again at each upgrade.
    """
    if holds_data(manifest):
        return False
    annotations = manifest["metadata"].get("annotations") or {}
    if manifest.get("kind") in _RUN_ONCE and HOOK_ANNOTATION in annotations:
        policies = str(annotations.get(HOOK_POLICY_ANNOTATION) or BEFORE_CREATION).split(",")
        if BEFORE_CREATION in (policy.strip() for policy in policies):
            return True
    return annotations.get(RECREATE_ANNOTATION) in {RECREATED, _RECREATED_BEFORE}


def holds_data(manifest: Manifest) -> bool:
    """Return whether the deletion of an object would delete data or objects of users."""
    return _group_kind(manifest) in KINDS_WITH_DATA


def _group_kind(manifest: Manifest) -> tuple[str, str]:
    return split_api_version(str(manifest.get("apiVersion") or ""))[0], str(manifest.get("kind") or "")


def ineffective_annotation(manifest: Manifest) -> tuple[str, str]:
    """Return an annotation of an object that has no effect, and why; empty texts where there is none."""
    annotations = manifest["metadata"].get("annotations") or {}
    recreate = annotations.get(RECREATE_ANNOTATION)
    if recreate is not None and holds_data(manifest):
        return RECREATE_ANNOTATION, f"a {manifest['kind']} holds data and is never deleted and created again"
    if recreate not in {None, RECREATED, _RECREATED_BEFORE}:
        return RECREATE_ANNOTATION, f"its only value is {RECREATED}"
    if annotations.get(PRUNE_ANNOTATION, KEPT) != KEPT:
        return PRUNE_ANNOTATION, f"its only value is {KEPT}"
    return _ineffective_health(manifest)


def _ineffective_health(manifest: Manifest) -> tuple[str, str]:
    annotations = manifest["metadata"].get("annotations") or {}
    written = [name for name in (HEALTH_ANNOTATION, HEALTH_FAILED_ANNOTATION) if annotations.get(name) is not None]
    if written and not has_state(*_group_kind(manifest)):
        return written[0], f"a {manifest['kind']} has no status and is never read"
    if written == [HEALTH_FAILED_ANNOTATION]:
        return HEALTH_FAILED_ANNOTATION, f"it needs the annotation {HEALTH_ANNOTATION} beside it"
    return "", ""


def with_health_rules(manifests: Iterable[Manifest], rules: Iterable[HealthRule]) -> list[Manifest]:
    """Return the manifests with the rules of their kinds as annotations; an object's own annotation counts more."""
    by_kind = {rule.group_kind: rule for rule in rules}
    return [_with_health_rule(one, by_kind.get(_group_kind(one))) for one in manifests]


def _with_health_rule(manifest: Manifest, rule: HealthRule | None) -> Manifest:
    metadata = manifest["metadata"]
    annotations = metadata.get("annotations") or {}
    if rule is None or HEALTH_ANNOTATION in annotations:
        return manifest
    added = {HEALTH_ANNOTATION: rule.current, **({HEALTH_FAILED_ANNOTATION: rule.failed} if rule.failed else {})}
    return {**manifest, "metadata": {**metadata, "annotations": {**annotations, **added}}}


def reason_to_keep(manifest: Manifest) -> str:
    """Return which annotation of an object forbids its deletion; empty if none does."""
    annotations = manifest["metadata"].get("annotations") or {}
    if annotations.get(PRUNE_ANNOTATION) == KEPT:
        return "its annotation disables pruning"
    if str(annotations.get(HELM_POLICY_ANNOTATION)).strip().lower() == HELM_KEPT:
        return f"its annotation {HELM_POLICY_ANNOTATION} is {HELM_KEPT}"
    return ""
