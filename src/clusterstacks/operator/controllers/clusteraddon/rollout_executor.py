"""Runs the rollout of one cluster's addons: executes the moves of ``rollout_plan``, and records the end."""

from __future__ import annotations

import asyncio
import logging
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING

from clusterstacks.model.documents import and_more
from clusterstacks.model.files.addon_config import LifecycleHook, StageAction, WaitFor
from clusterstacks.model.files.compatibility import leading
from clusterstacks.model.kinds.clusteraddon import DeliveredAddon
from clusterstacks.model.kinds.names import GROUP, AddonCondition, EventReason, Kind, Reason
from clusterstacks.model.outcomes import Outcome, Settled, Waiting
from clusterstacks.operator.controllers.clusteraddon.rollout_plan import (
    WAITING_FOR_UPGRADE,
    Done,
    Occasion,
    Prune,
    RolloutPlan,
    RolloutProgress,
    RunStage,
    StagePhase,
    WaitForUpgrade,
)
from clusterstacks.operator.controllers.clusteraddon.stage_run import StageRun
from clusterstacks.operator.controllers.resource_list import OBJECTS_SHOWN
from clusterstacks.runtime.concurrency import gather

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from clusterstacks.deliver.apply.results import PruneReport
    from clusterstacks.net.kube.client import Client
    from clusterstacks.operator.controllers.addon_sweep import AddonSweep
    from clusterstacks.operator.controllers.clusteraddon.addon_installer import AddonInstaller
    from clusterstacks.operator.controllers.clusteraddon.awaited_objects import AwaitedObjects
    from clusterstacks.operator.controllers.clusteraddon.rollout_journal import RolloutJournal
    from clusterstacks.operator.controllers.clusteraddon.rollout_plan import Move, RolloutStep
    from clusterstacks.release.release import Release
    from clusterstacks.runtime.clock import Clock
    from clusterstacks.runtime.events import EventRecorder

log = logging.getLogger(__name__)

RESYNC = timedelta(minutes=5)
"""Interval at which the control plane and infrastructure objects are read again, as the Go operator's resync."""

CONFIRMATION = timedelta(seconds=1)
"""Delay of the second pass over addons that several reconciles delivered with different values. Arbitrary."""

UPGRADE_RETRY = timedelta(seconds=20)
"""Events of the Cluster enqueue the ClusterAddon; this bounds a lost one. As the Go operator's retry."""

SAVE_INTERVAL = timedelta(seconds=2)
"""Age of the written progress from which the end of a stage is written, for readers of the status. Arbitrary."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RolloutExecutor:
    """Brings the addons of one cluster to the release of its class."""

    client: Client
    events: EventRecorder
    clock: Clock
    sweep: AddonSweep
    awaited: AwaitedObjects

    @asynccontextmanager
    async def underway(self, rollout: RolloutJournal) -> AsyncIterator[None]:
        """Prepare the first stage while the block runs; at its end, note what the cluster has, and an error."""
        installer = rollout.installer
        with rollout.failing():
            try:
                first = rollout.plan.next_move(installer.inputs.snapshot.upgrade)
                if isinstance(first, RunStage) and _allows_preparation(first.step):
                    installer.begin_preparation(first.step.stage)
                yield
            finally:
                await installer.close()
                installer.patch.status["resources"] = installer.resources()
                if installer.all_objects():
                    self._sweep(installer)

    async def run_rollout(self, rollout: RolloutJournal, workload: Client, inputs: str) -> Outcome:
        """Do everything that can be done now, and record the end; ``inputs`` is the digest of the present inputs."""
        outcome = await self._run(rollout, workload, inputs)
        rollout.note(outcome)
        return outcome

    async def _run(self, rollout: RolloutJournal, workload: Client, inputs: str) -> Outcome:
        installer = rollout.installer
        patch = installer.patch
        plan, outcome = await self._execute(rollout, workload)
        if isinstance(outcome, Settled):
            is_complete = not plan.resumed or await installer.is_current()
            self._sweep(installer)
            ending = (
                partial(self._record, installer, plan, inputs=inputs if is_complete else ""),
                partial(self.sweep.read_delivered, patch.key, workload),
            )
            await gather(lambda work: work(), ending)
            is_current = is_complete and patch.status["deliveredKubernetesVersion"] == plan.target.version
            return outcome if is_current else Settled(CONFIRMATION)
        if outcome.reason == Reason.ROLLED_BACK:
            self._sweep(installer)
            await self.sweep.read_delivered(patch.key, workload)
        return outcome

    def _sweep(self, installer: AddonInstaller) -> None:
        cluster = installer.inputs.snapshot.cluster.key
        self.sweep.watch(installer.patch.key, cluster, installer.all_objects(), installer.delivery.inputs)

    async def _execute(self, journal: RolloutJournal, workload: Client) -> tuple[RolloutPlan, Outcome]:
        plan, installer = journal.plan, journal.installer
        upgrade = installer.inputs.snapshot.upgrade
        saved = _now()
        while True:
            match plan.next_move(upgrade):
                case RunStage(index=index):
                    following = plan.reached(index, StagePhase.DONE).next_move(upgrade)
                    if isinstance(following, RunStage) and _allows_preparation(plan.steps[index]):
                        installer.begin_preparation(following.step.stage)
                    stage = StageRun(
                        plan.steps[index],
                        installer,
                        workload,
                        self.clock.now(),
                        is_refresh=plan.occasion is Occasion.REFRESH,
                    )
                    plan, waiting = await self._run_stage(journal, stage, index)
                    if waiting is not None:
                        return plan, waiting
                    if await _save_stage(index, following, journal, since=saved):
                        saved = _now()
                case WaitForUpgrade(message=message):
                    journal.reached(plan)
                    return plan, Waiting(WAITING_FOR_UPGRADE, message, UPGRADE_RETRY)
                case Prune(keep=keep):
                    report = await self._prune(installer, keep)
                    if not report.complete:
                        return plan, installer.not_deleted(report)
                    plan = plan.after_prune()
                case Done():
                    return plan, Settled(RESYNC)

    async def _run_stage(
        self, journal: RolloutJournal, stage: StageRun, index: int
    ) -> tuple[RolloutPlan, Outcome | None]:
        try:
            waiting = await stage.run_stage()
        finally:
            plan = journal.plan.reached(index, stage.phase, stage.since)
            journal.reached(plan)
            await self._report_overridden_fields(stage.installer)
            await self._report_kept(stage.installer)
        holds_upgrade = waiting is not None and stage.step.hook is LifecycleHook.BEFORE_CLUSTER_UPGRADE
        self.awaited.follow(stage.installer.patch.key, stage.workload, stage.awaited if holds_upgrade else ())
        return plan, waiting

    async def _report_overridden_fields(self, installer: AddonInstaller) -> None:
        """Report the other managers of the addons' fields, which will probably set them again."""
        if installer.overridden_fields:
            message = f"fields set by other managers were overridden: {'; '.join(installer.overridden_fields)}"
            installer.overridden_fields.clear()
            await self.events.record(installer.patch.manifest, "Warning", "FieldsTakenBack", message)

    async def _report_kept(self, installer: AddonInstaller) -> None:
        """Report the objects that are no longer delivered and were not deleted, with the reasons."""
        if installer.kept:
            kept = and_more(installer.kept, OBJECTS_SHOWN, separator="; ")
            message = f"objects that are no longer delivered were kept: {kept}"
            installer.kept.clear()
            await self.events.record(installer.patch.manifest, "Normal", EventReason.OBJECTS_KEPT, message)

    async def _prune(self, installer: AddonInstaller, keep: frozenset[str]) -> PruneReport:
        patch = installer.patch
        with patch.failing_condition(AddonCondition.CHART_DELETED, Reason.FAILED_TO_DELETE_OBJECTS):
            report = await installer.delivery.prune(keep)
        installer.note_removals(report)
        await self._report_kept(installer)
        if report.complete:
            patch.drop(AddonCondition.CHART_DELETED)
            installer.keep_records(keep)
        return report

    async def _record(self, installer: AddonInstaller, plan: RolloutPlan, *, inputs: str) -> None:
        """Record that the cluster has everything: in spec, which survives the loss of status, then in status."""
        patch, releases = installer.patch, installer.inputs.releases
        counts = installer.counts()
        origins = {addon: releases.release_of(addon) for addon in counts}
        if installer.truncated:
            listed = ", ".join(sorted(installer.truncated))
            message = (
                f"the manifests of {listed} do not fit into a Secret: their delivery record holds the inventory only"
            )
            if stuck := ", ".join(sorted(installer.truncated & plan.addons_that_roll_back)):
                message += f", and so {stuck} cannot be rolled back to this release"
            patch.true(AddonCondition.CHART_APPLIED, "RecordTruncated", message)
        else:
            patch.true(AddonCondition.CHART_APPLIED)
        spec = {
            "clusterStack": installer.inputs.snapshot.cluster.class_name,
            "version": releases.class_release.metadata.cluster_addon.dot,
            "hook": "",
            "addons": [{"name": addon, "release": release.name.release} for addon, release in origins.items()],
        }
        before = patch.manifest.get("spec") or {}
        if any(before.get(key, "") != value for key, value in spec.items()):
            resource = await self.client.resource(GROUP, Kind.CLUSTER_ADDON)
            patch.manifest = await self.client.merge_patch(
                resource, patch.key.name, {"spec": spec}, patch.key.namespace
            )
        log.info("the addons of class %s are delivered", spec["clusterStack"])
        patch.status["observedInputs"] = inputs
        patch.status |= RolloutProgress().document()
        snapshot = installer.inputs.snapshot
        # The stages before an upgrade that began during the installation are still to run.
        installed = plan.occasion is Occasion.INSTALL
        version = snapshot.reached(snapshot.running.text) if installed else plan.target.version
        patch.status["deliveredKubernetesVersion"] = version
        delivered = [
            DeliveredAddon(
                name=addon,
                release=release.name.release,
                version=_version(release, addon),
                objects=counts[addon],
                wait_for=WaitFor.HEALTHY if addon in plan.addons_that_must_be_healthy else "",
                inputs=installer.delivery.inputs.get(addon, ""),
            )
            for addon, release in origins.items()
        ]
        patch.status["addons"] = [addon.document() for addon in delivered]


def _allows_preparation(step: RolloutStep) -> bool:
    """Return whether the next stage is prepared while this one runs, or the first one before it begins.

    A stage that waits would have to cancel the preparation at each retry, and a deletion changes what it reads.
    """
    return step.phase is StagePhase.PENDING and step.stage.action is StageAction.APPLY


def _version(release: Release, addon: str) -> str:
    """Return the version of an addon's software; empty where its release does not state it."""
    stated = release.compatibility
    components = stated.of_addon(addon) if stated is not None else ()
    return leading(addon, components).text if components else ""


async def _save_stage(index: int, following: Move, journal: RolloutJournal, *, since: float) -> bool:
    """Write the progress after a stage if a later reconcile or a reader needs it; return whether it was written.

    A reconcile without progress runs the stages again. For a stage that only applies that costs nothing, so a rollout
    of some seconds writes its status once, at its end. Before the wait for the upgrade the reconcile ends anyway.
    A stage that changes nothing may have been run by an operator that was killed; the stages of a refresh may all run
    again.
    """
    plan, installer = journal.plan, journal.installer
    step = plan.steps[index]
    is_idle = plan.occasion is Occasion.REFRESH and not installer.has_changed(step.stage)
    if is_idle or isinstance(following, WaitForUpgrade):
        return False
    next_action = following.step.stage.action if isinstance(following, RunStage) else None
    late = next_action is not None and _now() - since > SAVE_INTERVAL.total_seconds()
    if step.idempotent and not late and next_action is not StageAction.DELETE:
        return False
    if late:
        installer.patch.status["resources"] = installer.resources()
    journal.note()
    message = f"{index + 1} of {len(plan.steps)} stages done, the last one was {step.stage.addon}"
    await installer.patch.checkpoint(Waiting("RollingOut", message))
    return True


def _now() -> float:
    return asyncio.get_running_loop().time()
