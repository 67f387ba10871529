"""Starts and stops the sweep of a cluster, with the settings of its ClusterStack and its annotation."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from clusterstacks.model.documents import mappings
from clusterstacks.model.drift_settings import (
    DriftMode,
    DriftSettings,
    first_interval,
)
from clusterstacks.model.errors import SpecError
from clusterstacks.model.kinds.clusterstack import ClusterStack, DriftSpec
from clusterstacks.model.kinds.names import DRIFT_INTERVAL_ANNOTATION, RECONCILE_ANNOTATION
from clusterstacks.operator.controllers.clusteraddon.rollout_plan import RolloutProgress, read_progress
from clusterstacks.release.sources.owners import leading_stack

if TYPE_CHECKING:
    from datetime import timedelta

    from clusterstacks.model.kinds.clusterapi import ClusterView
    from clusterstacks.model.objects import Manifest
    from clusterstacks.net.kube.client import Client
    from clusterstacks.operator.controllers.addon_sweep import AddonSweep
    from clusterstacks.operator.controllers.clusteraddon.snapshot import ClusterSnapshot
    from clusterstacks.operator.controllers.status_reconciler import StatusPatch
    from clusterstacks.runtime.cache import ObjectCache


@dataclass(frozen=True, slots=True, kw_only=True)
class SweepSwitch:
    """Decides whether the addons of a Cluster are swept, and how."""

    sweep: AddonSweep
    client: Client
    stacks: ObjectCache
    """ClusterStacks that are not in it are read."""
    interval: timedelta | None
    """Interval of the operator; None if it does not detect drift."""

    async def start(self, patch: StatusPatch, snapshot: ClusterSnapshot) -> None:
        """Detect drift from now on, at once if a user requested it and the request was not handled yet."""
        settings = await self.settings(snapshot)
        requested = snapshot.cluster.annotations.get(RECONCILE_ANNOTATION, "")
        handled = patch.status.get("lastHandledReconcileAt", "")
        is_complete = read_progress(patch.status) == RolloutProgress()
        request = requested if requested != handled else ""
        self.sweep.configure(patch.key, settings, request, mappings(patch.status, "addons") if is_complete else ())

    async def settings(self, snapshot: ClusterSnapshot) -> DriftSettings:
        """Return the settings of a Cluster; deliveries obey those about fields of other writers."""
        cluster, release = snapshot.cluster, snapshot.release_object or {}
        return await read_sweep_settings(
            cluster, release, client=self.client, stacks=self.stacks, default=self.interval
        )

    def stop(self, patch: StatusPatch) -> None:
        """Ignore drift, as while the addons are rolled out or paused."""
        self.sweep.configure(patch.key, None)


async def read_sweep_settings(
    cluster: ClusterView, release: Manifest, *, client: Client, stacks: ObjectCache, default: timedelta | None
) -> DriftSettings:
    """Read the settings: the annotation precedes the ClusterStack, and that the operator's default.

    Nothing is corrected while the ClusterStack cannot be parsed, because it may forbid it. ``release`` is the
    ClusterStackRelease of the class; ClusterStacks that are not in the cache are read.
    """
    stack = await leading_stack(release, stacks, client)
    spec, faults = DriftSpec(), []
    try:
        spec = (ClusterStack.parse(stack).spec.drift if stack else None) or spec
    except SpecError as error:
        spec = DriftSpec(mode=DriftMode.WARN)
        faults.append(f"spec.drift of the ClusterStack is not used, and nothing is corrected: {error.message}")
    interval, complaints = first_interval(
        (
            (
                f"the annotation {DRIFT_INTERVAL_ANNOTATION}",
                str(cluster.annotations.get(DRIFT_INTERVAL_ANNOTATION, "")),
            ),
            ("spec.drift.interval of the ClusterStack", spec.interval),
        ),
        default,
    )
    return DriftSettings(interval, spec.mode, spec.ignored(), "; ".join((*complaints, *faults)))
