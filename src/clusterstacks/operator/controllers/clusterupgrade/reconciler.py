"""Carries out ClusterUpgrades: writes the status of their Clusters, then patches those whose step begins."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Final

from clusterstacks.deliver.render.errors import shortened
from clusterstacks.model.conditions import Severity
from clusterstacks.model.documents import and_more, mappings, text
from clusterstacks.model.errors import SpecError
from clusterstacks.model.kinds.clusterapi import cluster_view, is_moving, is_watched
from clusterstacks.model.kinds.clusterupgrade import (
    LATEST_PATCH,
    MESSAGE_LENGTH,
    MOST_CLUSTERS,
    ClusterUpgrade,
    upgrades_of,
)
from clusterstacks.model.kinds.names import (
    CLUSTER_API_GROUP,
    CLUSTER_KIND,
    ClusterPhase,
    Reason,
    UpgradeCondition,
    UpgradePhase,
)
from clusterstacks.model.objects import ObjectKey, rfc3339
from clusterstacks.model.outcomes import Outcome, Settled, Waiting
from clusterstacks.net.kube.errors import ApiError, Conflict, NotFound, Unreachable
from clusterstacks.operator.controllers.clusterupgrade.schedule import KnownCluster, Limits, decide, overall
from clusterstacks.operator.controllers.clusterupgrade.step_record import MANAGER, StepRecord
from clusterstacks.operator.controllers.clusterupgrade.stepper import Blocked, Unsettled

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from clusterstacks.model.kinds.clusterapi import ClusterView
    from clusterstacks.model.objects import Manifest
    from clusterstacks.net.kube.client import Client
    from clusterstacks.operator.controllers.clusterupgrade.cluster_looks import ClusterLooks
    from clusterstacks.operator.controllers.clusterupgrade.schedule import ClusterDecision
    from clusterstacks.operator.controllers.clusterupgrade.stepper import Action
    from clusterstacks.operator.controllers.status_reconciler import StatusPatch
    from clusterstacks.runtime.cache import ObjectCache
    from clusterstacks.runtime.clock import Clock
    from clusterstacks.runtime.informer import Informer

CLUSTERS_SHOWN: Final = 3
"""Clusters that a message names (arbitrary)."""

PLANS_AT_A_TIME: Final = 5
"""Plans of one reconcile; the other Clusters are looked at in the next one. Arbitrary."""

AGAIN: Final = timedelta(seconds=1)
"""Pause before the next plans, or after a patch that met a change. Arbitrary."""

RECHECK: Final = timedelta(minutes=5)
"""Interval at which an upgrade that is not done is looked at without an event: for what has none. Arbitrary."""

_REASONS: Final = {
    UpgradePhase.WAITING: Reason.UPGRADE_WAITING,
    UpgradePhase.RUNNING: Reason.UPGRADE_RUNNING,
    UpgradePhase.SUSPENDED: Reason.UPGRADE_SUSPENDED,
    UpgradePhase.STOPPED: Reason.UPGRADE_STOPPED,
    UpgradePhase.BLOCKED: Reason.UPGRADE_BLOCKED,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class UpgradeReconciler:
    """Carries out the upgrades of the Clusters of a ClusterUpgrade.

    Clusters are read from the cache. So each patch has the resource version that its plan was made from, and the status
    says that a Cluster has begun before it is patched.
    """

    client: Client
    clock: Clock
    clusters: Informer
    upgrades: ObjectCache
    looks: ClusterLooks
    watch_filter: str

    async def work(self, patch: StatusPatch) -> Outcome | timedelta | None:
        """Reconcile one upgrade."""
        if is_moving(patch.manifest) or patch.deleting:
            return None  # steps that have begun go on by themselves
        try:
            with patch.failing_condition(UpgradeCondition.CLUSTERS_UPGRADED):
                return await self._carry_out(patch, ClusterUpgrade.parse(patch.manifest))
        except SpecError:
            patch.status["phase"] = UpgradePhase.BLOCKED.value
            raise

    async def _carry_out(self, patch: StatusPatch, upgrade: ClusterUpgrade) -> Outcome:
        upgrade.check()
        views = self._selected(upgrade)
        now = self.clock.now()
        limits = limits_of(upgrade, now)
        targets = {name: self._target(upgrade, view) for name, view in views.items()}
        others = upgrades_of(self.upgrades.all(), upgrade.key.namespace, views)
        older = sorted((other for other in others if _age(other) < _age(upgrade)), key=_age)
        states = [state_of(upgrade, name, view, targets[name], holder(older, view)) for name, view in views.items()]
        plans = PLANS_AT_A_TIME

        async def look(name: str) -> Action | None:
            nonlocal plans
            view = views[name]
            if view is None:
                return Blocked(self._missing(upgrade.key.namespace))
            action = await self.looks.look(upgrade.metadata.uid, view, targets[name], may_plan=plans > 0)
            plans -= not isinstance(action, Unsettled)
            return action

        decisions = await decide(limits, states, now, look)
        outcome = report(patch, upgrade, limits, states, decisions, now)
        steps = {name: decision for name, decision in decisions.items() if decision.patch is not None}
        if not steps:
            return outcome
        patch.require_live()
        await patch.checkpoint(outcome)
        taken = [await self._step(upgrade, views[name], targets[name], decision) for name, decision in steps.items()]
        return outcome if all(taken) or not isinstance(outcome, Waiting) else replace(outcome, retry=AGAIN)

    async def _step(
        self, upgrade: ClusterUpgrade, view: ClusterView | None, target: str, decision: ClusterDecision
    ) -> bool:
        """Patch a Cluster; return whether it was patched. Another look tells what else has happened."""
        if view is None or decision.patch is None:
            return False
        uid = upgrade.metadata.uid
        body = StepRecord.of(view, uid, target).next(view, uid, target, decision.patch)
        resource = await self.client.resource(CLUSTER_API_GROUP, CLUSTER_KIND)
        try:
            written = await self.client.merge_patch(resource, view.name, body, view.namespace, manager=MANAGER)
        except (Conflict, NotFound, Unreachable):
            return False
        except ApiError as error:
            self.looks.refused(uid, view, target, error.message)
            return False
        self.clusters.written(written)
        return True

    def _selected(self, upgrade: ClusterUpgrade) -> dict[str, ClusterView | None]:
        """Return the Clusters in their order; None for a name without a Cluster."""
        clusters, namespace = upgrade.spec.clusters, upgrade.key.namespace
        if clusters.selector is None:
            return {name: self._view(ObjectKey(namespace, name)) for name in clusters.names}
        keys = sorted(key for key in self.clusters.cache if key.namespace == namespace)
        found = {key.name: view for key in keys if (view := self._view(key)) is not None}
        selected = {name: view for name, view in found.items() if clusters.selector.matches(view.labels)}
        if len(selected) > MOST_CLUSTERS:
            raise SpecError(
                "TooManyClusters",
                f"ClusterUpgrade {upgrade.key}: spec.clusters.selector matches {len(selected)} Clusters, at most "
                f"{MOST_CLUSTERS} are possible: use several upgrades with narrower selectors",
            )
        if not selected:
            raise SpecError(
                "NoClusters",
                f"ClusterUpgrade {upgrade.key}: spec.clusters.selector matches no Cluster. {self._labels(found)}",
            )
        return dict(selected)

    def _view(self, key: ObjectKey) -> ClusterView | None:
        manifest = self.clusters.cache.get(key)
        if manifest is None or not is_watched(manifest, self.watch_filter):
            return None
        view = cluster_view(manifest)
        return None if view.deleting else view

    @staticmethod
    def _labels(found: Mapping[str, ClusterView]) -> str:
        if not found:
            return "The namespace has no Clusters"
        labels = sorted({f"{key}={value}" for view in found.values() for key, value in view.labels.items()})
        return (
            f"Clusters of the namespace have the labels {and_more(labels, CLUSTERS_SHOWN)}"
            if labels
            else ("The Clusters of the namespace have no labels")
        )

    def _missing(self, namespace: str) -> str:
        keys = [key.name for key in self.clusters.cache if key.namespace == namespace]
        names = and_more(sorted(keys), CLUSTERS_SHOWN) or "none"
        return f"does not exist: correct spec.clusters.names; Clusters of namespace {namespace}: {names}"

    def _target(self, upgrade: ClusterUpgrade, view: ClusterView | None) -> str:
        if not upgrade.spec.follows:
            return upgrade.spec.to
        if view is not None:
            with suppress(SpecError):  # a look says why
                return self.looks.newest(view, same_minor=upgrade.spec.to == LATEST_PATCH)
        return ""


def _age(upgrade: ClusterUpgrade) -> tuple[str, str]:
    return upgrade.metadata.creation_timestamp, upgrade.metadata.name


def holder(older: Iterable[ClusterUpgrade], view: ClusterView | None) -> str:
    """Return the first upgrade that selects a Cluster and is not done with it; empty if there is none."""
    if view is None:
        return ""
    selecting = (one for one in older if one.spec.clusters.include(view.name, view.labels))
    return next((one.metadata.name for one in selecting if holds(one, view.name)), "")


def holds(upgrade: ClusterUpgrade, name: str) -> bool:
    """Return whether a younger upgrade waits for this one, which selects the Cluster.

    One that follows what is published never ends. One that cannot begin with the Cluster does not keep it.
    """
    status = upgrade.status
    known = [one.phase for one in status.clusters if one.name == name and status.target == upgrade.spec.to]
    return upgrade.spec.follows or known not in ([ClusterPhase.DONE.value], [ClusterPhase.BLOCKED.value])


def limits_of(upgrade: ClusterUpgrade, now: datetime) -> Limits:
    """Return what the spec allows at a moment."""
    spec, pause = upgrade.spec, ""
    window = spec.window.parsed() if spec.window is not None else None
    if window is not None and not window.is_open(now):
        opens = window.next_change(now).astimezone(window.zone)
        pause = f"waits for the window, which opens on {opens:%a %Y-%m-%d at %H:%M %Z}"
    if spec.suspend:
        pause = "waits, because spec.suspend is true"
    return Limits(spec.max_concurrent, spec.stop_after_failures, spec.deadline(), spec.step_limit, pause)


def state_of(upgrade: ClusterUpgrade, name: str, view: ClusterView | None, target: str, held_by: str) -> KnownCluster:
    """Return what the status and the Cluster itself say about the state of a Cluster."""
    if view is None:
        return KnownCluster(name, target=target)
    known = next((one for one in upgrade.status.clusters if (one.name, one.uid) == (name, view.uid)), None)
    record = StepRecord.of(view, upgrade.metadata.uid, target)
    phase = ClusterPhase.RUNNING if record.number else ClusterPhase.WAITING
    if known is None:
        return KnownCluster(name, phase, record.number, held_by=held_by, uid=view.uid, target=target)
    with suppress(ValueError):  # that of another version of the operator
        phase = ClusterPhase(known.phase)
    if phase is ClusterPhase.DONE and known.target != target:
        phase = ClusterPhase.WAITING
    since = datetime.fromisoformat(known.since).astimezone(UTC) if known.since else None
    return KnownCluster(name, phase, record.number, known.doing, since, held_by, view.uid, target)


def report(
    patch: StatusPatch,
    upgrade: ClusterUpgrade,
    limits: Limits,
    clusters: Sequence[KnownCluster],
    decisions: Mapping[str, ClusterDecision],
    now: datetime,
) -> Outcome:
    """Write the decisions into the status; return the outcome."""
    before = {text(one, "name"): one for one in mappings(patch.status, "clusters")}
    entries = [_entry(before.get(one.name, {}), one, decisions[one.name], now) for one in clusters]
    phase = overall(limits, decisions.values(), is_suspended=upgrade.spec.suspend)
    count = {one: sum(decision.phase is one for decision in decisions.values()) for one in ClusterPhase}
    patch.status |= {
        "phase": phase.value,
        "target": upgrade.spec.to,
        "done": f"{count[ClusterPhase.DONE]}/{len(decisions)}",
        "total": len(decisions),
        "running": count[ClusterPhase.RUNNING],
        "failed": count[ClusterPhase.FAILED],
        "clusters": entries,
    }
    if phase is UpgradePhase.DONE:
        patch.true(UpgradeCondition.CLUSTERS_UPGRADED)
        return Settled()
    message = _summary(patch.status["done"], entries)
    is_trouble = phase in (UpgradePhase.STOPPED, UpgradePhase.BLOCKED)
    severity = Severity.WARNING if is_trouble else Severity.INFO
    patch.false(UpgradeCondition.CLUSTERS_UPGRADED, _REASONS[phase], message, severity)
    return Waiting(_REASONS[phase], message, _retry(upgrade, [*decisions.values()], now))


def _entry(before: Manifest, cluster: KnownCluster, decision: ClusterDecision, now: datetime) -> Manifest:
    before = before if text(before, "uid") == cluster.uid else {}
    step, doing = decision.step or text(before, "step"), shortened(decision.doing, MESSAGE_LENGTH)
    entry = {"name": cluster.name, "uid": cluster.uid, "phase": decision.phase.value, "target": cluster.target}
    entry |= {"step": step, "doing": doing}
    same = all(text(before, field) == entry[field] for field in ("step", "doing"))
    since = text(before, "since") if same else ""
    entry |= {"since": since or rfc3339(now), "message": shortened(decision.message, MESSAGE_LENGTH)}
    return {field: value for field, value in entry.items() if value}


def _summary(done: str, entries: Sequence[Manifest]) -> str:
    """Say what to look at first: failed Clusters, then those that cannot begin, then those that run."""
    parts = [f"{done} clusters have the target"]
    for phase in (ClusterPhase.FAILED, ClusterPhase.BLOCKED, ClusterPhase.RUNNING):
        found = [
            f"{entry['name']}: {text(entry, 'message') or text(entry, 'doing')}"
            for entry in entries
            if entry["phase"] == phase
        ]
        if found:
            parts.append(f"{len(found)} {phase.lower()} ({and_more(found, CLUSTERS_SHOWN, separator='; ')})")
    waiting = [entry for entry in entries if entry["phase"] == ClusterPhase.WAITING]
    if waiting:
        parts.append(f"{len(waiting)} waiting ({waiting[0]['name']}: {text(waiting[0], 'doing')})")
    return ", ".join(parts)


def _retry(upgrade: ClusterUpgrade, decisions: Sequence[ClusterDecision], now: datetime) -> timedelta:
    moments = [RECHECK, *(max(decision.recheck, AGAIN) for decision in decisions if decision.recheck is not None)]
    if upgrade.spec.window is not None and not upgrade.spec.suspend:
        moments.append(max(upgrade.spec.window.parsed().next_change(now) - now, AGAIN))
    return min(moments)
