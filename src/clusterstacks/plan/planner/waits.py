"""Conditions to wait for after each step of a plan, as arguments of ``kubectl wait``.

The operator writes the observed fields and addons of the ClusterAddon after the conditions of the Cluster, in one write
with its own conditions. So these conditions cannot be true because of an earlier step.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from clusterstacks.model.kinds.addon_annotations import annotations_digest
from clusterstacks.plan.planner.patches import taken_from
from clusterstacks.plan.planner.steps import StepKind

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from clusterstacks.model.objects import Manifest
    from clusterstacks.plan.planner.steps import Step

CLUSTER = "Cluster"
CLUSTER_ADDON = "ClusterAddon"


@dataclass(frozen=True, slots=True)
class Wait:
    """One condition to wait for.

    Args:
        kind: The kind of the object: Cluster or ClusterAddon.
        until: Value of ``--for``.
        nodes: Whether nodes are replaced meanwhile, which takes long.
    """

    kind: str
    until: str
    nodes: bool = False

    @property
    def timeout(self) -> str:
        """Value of ``--timeout``; arbitrary, far above the duration of a healthy rollout."""
        return "2h" if self.nodes else "15m"


TOPOLOGY_RECONCILED = Wait(CLUSTER, "condition=TopologyReconciled", nodes=True)
ADDONS_READY = Wait(CLUSTER, "condition=ClusterStackAddonsReady")


def waits(steps: Iterable[tuple[Step, Manifest | None]], annotations: Mapping[str, str]) -> Iterator[tuple[Wait, ...]]:
    """Yield for each step the conditions to wait for after its patch.

    Args:
        steps: The steps in order, each with its patch.
        annotations: The annotations of the Cluster before the first step.
    """
    here = dict(annotations)
    for step, patch in steps:
        changed = ((patch or {}).get("metadata") or {}).get("annotations") or {}
        here = {key: value for key, value in {**here, **changed}.items() if value is not None}
        yield _after(step, here)


def _after(step: Step, annotations: Mapping[str, str]) -> tuple[Wait, ...]:
    if step.kind is StepKind.WORKERS:
        return (TOPOLOGY_RECONCILED,)
    if step.kind is StepKind.ADDON:
        return _after_addon(step, annotations)
    if step.before.kubernetes == step.after.kubernetes:
        return TOPOLOGY_RECONCILED, ADDONS_READY
    return TOPOLOGY_RECONCILED, control_plane_runs(step.after.kubernetes.text), ADDONS_READY


def _after_addon(step: Step, annotations: Mapping[str, str]) -> tuple[Wait, ...]:
    release = taken_from(step)
    if release is None:
        return _observed("observedAddonAnnotations", annotations_digest(annotations)), ADDONS_READY
    return (_observed(f"addons[?(@.name=={json.dumps(step.addon)})].release", release.release),)


def control_plane_runs(version: str) -> Wait:
    """Return the condition that the control plane runs a version, as observed by the operator."""
    return replace(_observed("observedKubernetesVersion", version), nodes=True)


def addon_delivered(addon: str, version: str) -> Wait:
    """Return the condition that a cluster has a version of an addon."""
    return _observed(f"addons[?(@.name=={json.dumps(addon)})].version", version)


def _observed(field: str, value: str) -> Wait:
    return Wait(CLUSTER_ADDON, f"jsonpath={{.status.{field}}}={value}")
