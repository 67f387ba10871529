"""Decides which Clusters of a ClusterUpgrade begin, take a step, wait, have failed or are done.

A Cluster has begun once the status says so, which is written before its first patch. Without the status, the annotation
that each patch writes says it; so what was lost costs at most another look at the Cluster.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Final

from clusterstacks.model.kinds.names import ClusterPhase, UpgradePhase
from clusterstacks.operator.controllers.clusterupgrade.stepper import Arrived, Blocked, Patch, Unsettled
from clusterstacks.plan.planner.step_titles import step_title

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable, Sequence
    from datetime import datetime

    from clusterstacks.operator.controllers.clusterupgrade.stepper import Action

    Look = Callable[[str], Awaitable[Action | None]]
    """Looks at a Cluster by name; None if its turn comes later."""

PATIENCE: Final = timedelta(minutes=1)
"""Time after which a Cluster that has begun and is blocked has failed: a release or a webhook may be away for a moment.
Arbitrary."""

TURN: Final = "waits for its turn (spec.maxConcurrent)"


@dataclass(frozen=True, slots=True)
class Limits:
    """What the spec of an upgrade allows now."""

    max_concurrent: int
    stop_after_failures: int
    deadline: timedelta | None = None
    step_limit: int | None = None
    pause: str = ""
    """Why no step begins now; empty if steps may begin."""


@dataclass(frozen=True, slots=True)
class KnownCluster:
    """What is known of a Cluster before it is looked at."""

    name: str
    phase: ClusterPhase = ClusterPhase.WAITING
    steps: int = 0
    """Steps that it has taken in this upgrade."""
    doing: str = ""
    since: datetime | None = None
    """When ``doing`` last changed; None if it is not known."""
    held_by: str = ""
    """An older upgrade that has the Cluster; empty if there is none."""
    uid: str = ""
    """Empty if it does not exist."""
    target: str = ""

    def unchanged(self, doing: str, now: datetime) -> timedelta:
        """Return for how long the Cluster has been doing the same; zero if it did something else before."""
        return now - self.since if self.since is not None and self.doing == doing else timedelta()


@dataclass(frozen=True, slots=True)
class ClusterDecision:
    """The state of a Cluster after it was looked at, and whether it is patched now."""

    phase: ClusterPhase
    doing: str = ""
    """What it does or waits for."""
    message: str = ""
    """Why it does not go on, and what to do."""
    step: str = ""
    """The present step and the number of all, if that is known now."""
    patch: Patch | None = None
    recheck: timedelta | None = None
    """When time alone changes the decision; None if it does not."""


async def decide(
    limits: Limits, clusters: Sequence[KnownCluster], now: datetime, look: Look
) -> dict[str, ClusterDecision]:
    """Decide on all Clusters, in their order; only those whose turn it is are looked at.

    Those that have begun come first: of these, at most ``max_concurrent`` are not failed. Then others begin while
    there is room and fewer than ``stop_after_failures`` have failed. A failed Cluster that can go on needs room, too.
    """
    decisions = {
        cluster.name: ClusterDecision(
            cluster.phase, f"the older ClusterUpgrade {cluster.held_by} has this Cluster: wait, or delete it"
        )
        for cluster in clusters
        if cluster.held_by
    }
    decisions |= {
        cluster.name: ClusterDecision(ClusterPhase.DONE) for cluster in clusters if cluster.phase is ClusterPhase.DONE
    }
    free = limits.max_concurrent
    for phase in (ClusterPhase.RUNNING, ClusterPhase.FAILED):
        for cluster in clusters:
            if cluster.phase is phase:
                decision = decisions.get(cluster.name) or _go_on(limits, cluster, now, await look(cluster.name), free)
                decisions[cluster.name] = decision
                free -= decision.phase is ClusterPhase.RUNNING or decision.patch is not None
    failed = sum(decision.phase is ClusterPhase.FAILED for decision in decisions.values())
    for cluster in clusters:
        if cluster.name in decisions:
            continue
        if why := limits.pause or _no_room(limits, free, failed):
            decisions[cluster.name] = ClusterDecision(ClusterPhase.WAITING, why)
            continue
        decision = decisions[cluster.name] = _begin(limits, cluster, await look(cluster.name))
        free -= decision.phase is ClusterPhase.RUNNING
    return {cluster.name: decisions[cluster.name] for cluster in clusters}


def _no_room(limits: Limits, free: int, failed: int) -> str:
    if failed >= limits.stop_after_failures:
        return f"no further Cluster begins, because {failed} failed (spec.stopAfterFailures)"
    return "" if free > 0 else TURN


def _begin(limits: Limits, cluster: KnownCluster, action: Action | None) -> ClusterDecision:
    match action:
        case None:
            return ClusterDecision(ClusterPhase.WAITING, "is looked at in a moment", recheck=timedelta())
        case Arrived():
            return ClusterDecision(ClusterPhase.DONE)
        case Unsettled(what=what):
            return ClusterDecision(ClusterPhase.WAITING, f"begins when it has settled: {what}")
        case Blocked(why=why):
            return ClusterDecision(ClusterPhase.BLOCKED, message=why)
        case Patch() as patch:
            return _step(limits, cluster, patch, ClusterPhase.RUNNING)


def _go_on(limits: Limits, cluster: KnownCluster, now: datetime, action: Action | None, free: int) -> ClusterDecision:
    match action:
        case None:
            return ClusterDecision(cluster.phase, cluster.doing, recheck=timedelta())
        case Arrived():
            return ClusterDecision(ClusterPhase.DONE)
        case Unsettled(what=what):
            return _wait(limits, cluster, what, now, free)
        case Blocked(why=why):
            left = PATIENCE - cluster.unchanged("", now)
            failed = cluster.phase is ClusterPhase.FAILED or left <= timedelta()
            phase = ClusterPhase.FAILED if failed else ClusterPhase.RUNNING
            return ClusterDecision(phase, message=why, recheck=None if failed else left)
        case Patch() as patch:
            if limits.pause or free <= 0:
                return ClusterDecision(cluster.phase, limits.pause or TURN)
            return _step(limits, cluster, patch, cluster.phase)


def _wait(limits: Limits, cluster: KnownCluster, what: str, now: datetime, free: int) -> ClusterDecision:
    left = limits.deadline - cluster.unchanged(what, now) if limits.deadline is not None else None
    if left is not None and left <= timedelta():
        return ClusterDecision(ClusterPhase.FAILED, what, f"nothing has moved for {limits.deadline}: {what}")
    if cluster.phase is ClusterPhase.FAILED and free <= 0:
        return ClusterDecision(ClusterPhase.FAILED, what, f"it moves again, and {TURN}")
    return ClusterDecision(ClusterPhase.RUNNING, what, recheck=left)


def _step(limits: Limits, cluster: KnownCluster, patch: Patch, phase: ClusterPhase) -> ClusterDecision:
    total = cluster.steps + len(patch.steps)
    if limits.step_limit is not None and cluster.steps >= limits.step_limit:
        what = f"stopped after {cluster.steps} of {total} steps: raise spec.stepLimit to continue"
        return ClusterDecision(phase, what, step=f"{cluster.steps}/{total}")
    return ClusterDecision(phase, step_title(patch.steps[0]), step=f"{cluster.steps + 1}/{total}", patch=patch)


def overall(limits: Limits, decisions: Iterable[ClusterDecision], *, is_suspended: bool) -> UpgradePhase:
    """Return the phase of the whole upgrade."""
    phases = [decision.phase for decision in decisions]
    if all(phase is ClusterPhase.DONE for phase in phases):
        return UpgradePhase.DONE
    if is_suspended:
        return UpgradePhase.SUSPENDED
    if phases.count(ClusterPhase.FAILED) >= limits.stop_after_failures:
        return UpgradePhase.STOPPED
    if ClusterPhase.RUNNING in phases:
        return UpgradePhase.RUNNING
    return UpgradePhase.WAITING if ClusterPhase.WAITING in phases else UpgradePhase.BLOCKED
