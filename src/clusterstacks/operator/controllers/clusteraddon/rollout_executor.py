"""Runs the rollout of one cluster's addons: opens the releases, then executes the moves of ``rollout_plan``."""

from __future__ import annotations

import asyncio
import logging
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING

from clusterstacks.deliver.apply.delivery import Delivery, RecordOwner
from clusterstacks.deliver.apply.messages import RecordOfAnotherCluster
from clusterstacks.deliver.apply.record_codec import RecordUnreadable
from clusterstacks.model.conditions import Severity
from clusterstacks.model.documents import and_more
from clusterstacks.model.errors import ClusterStacksError
from clusterstacks.model.files.addon_config import InvalidAddonConfig, LifecycleHook, StageAction, WaitFor
from clusterstacks.model.files.compatibility import leading
from clusterstacks.model.kinds.clusteraddon import DeliveredAddon
from clusterstacks.model.kinds.names import ADOPT_ANNOTATION, GROUP, AddonCondition, EventReason, Kind, Reason
from clusterstacks.model.outcomes import Outcome, Settled, Waiting
from clusterstacks.operator.controllers.clusteraddon.addon_delivery import AddonDelivery
from clusterstacks.operator.controllers.clusteraddon.addon_inputs import AddonInputs, combine_releases, unknown_settings
from clusterstacks.operator.controllers.clusteraddon.delivery_journal import DeliveryJournal
from clusterstacks.operator.controllers.clusteraddon.rollout_plan import (
    NO_TARGET,
    WAITING_FOR_UPGRADE,
    Done,
    Occasion,
    Prune,
    RolloutPlan,
    RolloutProgress,
    RunStage,
    StagePhase,
    Target,
    WaitForUpgrade,
    is_lost_in_upgrade,
    plan_rollout,
    read_progress,
)
from clusterstacks.operator.controllers.clusteraddon.stage_run import StageRun
from clusterstacks.operator.controllers.clusteraddon.upgrade_hold import is_upgraded
from clusterstacks.operator.controllers.resource_list import OBJECTS_SHOWN
from clusterstacks.runtime.concurrency import gather

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from clusterstacks.deliver.apply.delivery_plan import DeliveryRecord
    from clusterstacks.deliver.apply.results import PruneReport
    from clusterstacks.deliver.render.renderer import Renderer
    from clusterstacks.model.names import ReleaseName
    from clusterstacks.model.objects import Manifest
    from clusterstacks.net.kube.client import Client
    from clusterstacks.operator.controllers.addon_sweep import AddonSweep
    from clusterstacks.operator.controllers.clusteraddon.addon_inputs import AddonReleases
    from clusterstacks.operator.controllers.clusteraddon.awaited_objects import AwaitedObjects
    from clusterstacks.operator.controllers.clusteraddon.rollout_plan import Move, RolloutStep
    from clusterstacks.operator.controllers.clusteraddon.snapshot import ClusterSnapshot
    from clusterstacks.operator.controllers.status_reconciler import StatusPatch
    from clusterstacks.release.release import Release
    from clusterstacks.release.sources.fetcher import ReleaseFetcher
    from clusterstacks.runtime.clock import Clock
    from clusterstacks.runtime.events import EventRecorder
    from clusterstacks.runtime.metrics import Metrics

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
    fetcher: ReleaseFetcher
    renderer: Renderer
    events: EventRecorder
    metrics: Metrics
    clock: Clock
    sweep: AddonSweep
    awaited: AwaitedObjects

    async def run_rollout(
        self,
        patch: StatusPatch,
        snapshot: ClusterSnapshot,
        workload: Client,
        *,
        recorded: Target,
        inputs: str,
        begin: Callable[[], Awaitable[None]],
    ) -> Outcome:
        """Do everything that can be done now.

        Args:
            patch: The ClusterAddon.
            snapshot: The Cluster, whose control plane is initialized, and what it refers to.
            workload: The workload cluster.
            recorded: The class and version whose addons the cluster has completely, as the ClusterAddon says.
            inputs: Digest of what the addons depend on now.
            begin: Withdraws what the status says about the class before; called before anything changes.
        """
        opened = await self._open_releases(patch, snapshot)
        if opened is None:
            return Waiting(Reason.CHART_MISSING, "a release is being downloaded again", RESYNC)
        with patch.failing_condition(AddonCondition.CHART_FOUND, Reason.CHART_MISSING):
            releases = combine_releases(opened.pop(snapshot.release), opened, snapshot.requested)
        _check_settings(patch, snapshot, releases)
        adopts = snapshot.cluster.annotations.get(ADOPT_ANNOTATION, "")
        records_of_cluster = Delivery(workload, RecordOwner(snapshot.cluster.key, adopts))
        records = await _read_records(patch, records_of_cluster)
        delivery = AddonDelivery(
            patch=patch,
            inputs=AddonInputs(snapshot, releases, self.renderer.for_object(patch.key)),
            delivery=records_of_cluster,
            records=records,
            metrics=self.metrics,
        )
        wanted = Target(snapshot.cluster.class_name, snapshot.upgrade.wanted.text)
        if recorded == NO_TARGET:
            recorded = _recorded_in_cluster(delivery, wanted)
        plan = plan_rollout(
            releases.config,
            recorded=recorded,
            wanted=wanted,
            changed=patch.status.get("observedInputs", "") != inputs,
            delivered=records,
            progress=read_progress(patch.status),
        )
        if plan.occasion is Occasion.UPGRADE:
            patch.status["deliveredKubernetesVersion"] = recorded.version
        journal = DeliveryJournal(delivery, recorded, self.clock, plan)
        with journal.failing():
            outcome = await self._deliver(journal, workload, begin, inputs)
        journal.note(outcome)
        return outcome

    async def _deliver(
        self, journal: DeliveryJournal, workload: Client, begin: Callable[[], Awaitable[None]], inputs: str
    ) -> Outcome:
        """Execute the plan, and record its end."""
        delivery = journal.delivery
        patch, snapshot = delivery.patch, delivery.inputs.snapshot
        plan, outcome, is_complete = await self._run(journal, workload, begin)
        if isinstance(outcome, Settled):
            self.sweep.watch(patch.key, snapshot.cluster.key, delivery.all_objects())
            ending = (
                partial(self._record, delivery, plan, inputs=inputs if is_complete else ""),
                partial(self.sweep.read_delivered, patch.key, workload),
            )
            await gather(lambda one: one(), ending)
            is_current = is_complete and patch.status["deliveredKubernetesVersion"] == plan.target.version
            return outcome if is_current else Settled(CONFIRMATION)
        if outcome.reason == Reason.ROLLED_BACK:
            await self.sweep.read_delivered(patch.key, workload)
        return outcome

    async def _run(
        self, journal: DeliveryJournal, workload: Client, begin: Callable[[], Awaitable[None]]
    ) -> tuple[RolloutPlan, Outcome, bool]:
        """Execute a plan; also return whether everything that it delivered is of the present inputs."""
        plan, delivery = journal.plan, journal.delivery
        patch, snapshot = delivery.patch, delivery.inputs.snapshot
        try:
            first = plan.next_move(snapshot.upgrade)
            if isinstance(first, RunStage) and _allows_preparation(first.step):
                delivery.begin_preparation(first.step.stage)
            await begin()
            plan, outcome = await self._execute(plan, journal, workload)
            is_complete = isinstance(outcome, Settled) and (not plan.resumed or await delivery.is_current())
        finally:
            await delivery.close()
            patch.status["resources"] = delivery.resources()
            if delivered := delivery.all_objects():
                self.sweep.watch(patch.key, snapshot.cluster.key, delivered)
        return plan, outcome, is_complete

    async def _open_releases(self, patch: StatusPatch, snapshot: ClusterSnapshot) -> dict[ReleaseName, Release] | None:
        """Return the releases; None while one is downloaded again because the local disk was lost."""
        opened: dict[ReleaseName, Release] = {}
        for name, manifest in snapshot.objects.items():
            release = await self._open_release(patch, name, manifest or {})
            if release is None:
                return None
            opened[name] = release
        return opened

    async def _open_release(self, patch: StatusPatch, name: ReleaseName, manifest: Manifest) -> Release | None:
        try:
            fetched = await self.fetcher.fetch(patch.key, manifest, name)
        except InvalidAddonConfig as error:
            patch.false(AddonCondition.CONFIG_VALIDATED, Reason.PARSING_CONFIG_FAILED, error.message, Severity.ERROR)
            raise
        except ClusterStacksError as error:
            patch.false(AddonCondition.RELEASE_DOWNLOADED, Reason.ISSUE_WITH_RELEASE, error.message)
            patch.false(AddonCondition.CHART_FOUND, Reason.CHART_MISSING, error.message)
            raise
        if fetched is None:
            return None
        patch.true(AddonCondition.RELEASE_DOWNLOADED)
        if fetched.release.staged:
            patch.true(AddonCondition.CONFIG_VALIDATED)
        return fetched.release

    async def _execute(
        self, plan: RolloutPlan, journal: DeliveryJournal, workload: Client
    ) -> tuple[RolloutPlan, Outcome]:
        """Execute one move after the other until one must wait or all are done."""
        delivery = journal.delivery
        upgrade = delivery.inputs.snapshot.upgrade
        saved = _now()
        while True:
            match plan.next_move(upgrade):
                case RunStage(index=index):
                    following = plan.reached(index, StagePhase.DONE).next_move(upgrade)
                    if isinstance(following, RunStage) and _allows_preparation(plan.steps[index]):
                        delivery.begin_preparation(following.step.stage)
                    stage = StageRun(
                        plan.steps[index],
                        delivery,
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
                    report = await self._prune(delivery, keep)
                    if not report.complete:
                        return plan, delivery.not_deleted(report)
                    plan = plan.after_prune()
                case Done():
                    return plan, Settled(RESYNC)

    async def _run_stage(
        self, journal: DeliveryJournal, stage: StageRun, index: int
    ) -> tuple[RolloutPlan, Outcome | None]:
        try:
            waiting = await stage.run_stage()
        finally:
            plan = journal.plan.reached(index, stage.phase, stage.since)
            journal.reached(plan)
            await self._report_overridden_fields(stage.delivery)
            await self._report_kept(stage.delivery)
        holds_upgrade = waiting is not None and stage.step.hook is LifecycleHook.BEFORE_CLUSTER_UPGRADE
        self.awaited.follow(stage.delivery.patch.key, stage.workload, stage.awaited if holds_upgrade else ())
        return plan, waiting

    async def _report_overridden_fields(self, delivery: AddonDelivery) -> None:
        """Name the other managers of the addons' fields, which will probably set them again."""
        if delivery.overridden_fields:
            message = f"fields set by other managers were overridden: {'; '.join(delivery.overridden_fields)}"
            delivery.overridden_fields.clear()
            await self.events.record(delivery.patch.manifest, "Warning", "FieldsTakenBack", message)

    async def _report_kept(self, delivery: AddonDelivery) -> None:
        """Name the objects that are no longer delivered and were not deleted, with the reasons."""
        if delivery.kept:
            kept = and_more(delivery.kept, OBJECTS_SHOWN, separator="; ")
            message = f"objects that are no longer delivered were kept: {kept}"
            delivery.kept.clear()
            await self.events.record(delivery.patch.manifest, "Normal", EventReason.OBJECTS_KEPT, message)

    async def _prune(self, delivery: AddonDelivery, keep: frozenset[str]) -> PruneReport:
        patch = delivery.patch
        with patch.failing_condition(AddonCondition.CHART_DELETED, Reason.FAILED_TO_DELETE_OBJECTS):
            report = await delivery.delivery.prune(keep)
        delivery.note_removals(report)
        await self._report_kept(delivery)
        if report.complete:
            patch.drop(AddonCondition.CHART_DELETED)
            delivery.keep_records(keep)
        return report

    async def _record(self, delivery: AddonDelivery, plan: RolloutPlan, *, inputs: str) -> None:
        """Record that the cluster has everything: in spec, which survives the loss of status, then in status."""
        patch, releases = delivery.patch, delivery.inputs.releases
        counts = delivery.counts()
        origins = {addon: releases.release_of(addon) for addon in counts}
        if delivery.truncated:
            listed = ", ".join(sorted(delivery.truncated))
            message = (
                f"the manifests of {listed} do not fit into a Secret: their delivery record holds the inventory only"
            )
            if stuck := ", ".join(sorted(delivery.truncated & plan.addons_that_roll_back)):
                message += f", and so {stuck} cannot be rolled back to this release"
            patch.true(AddonCondition.CHART_APPLIED, "RecordTruncated", message)
        else:
            patch.true(AddonCondition.CHART_APPLIED)
        spec = {
            "clusterStack": delivery.inputs.snapshot.cluster.class_name,
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
        snapshot = delivery.inputs.snapshot
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
            )
            for addon, release in origins.items()
        ]
        patch.status["addons"] = [one.document() for one in delivered]


def _allows_preparation(step: RolloutStep) -> bool:
    """Return whether the next stage is prepared while this one runs, or the first one before it begins.

    A stage that waits would have to cancel the preparation at each retry, and one that deletes changes what it reads.
    """
    return step.phase is StagePhase.PENDING and step.stage.action is StageAction.APPLY


def _check_settings(patch: StatusPatch, snapshot: ClusterSnapshot, releases: AddonReleases) -> None:
    """Report settings of the Cluster for addons that do not exist; everything else is delivered."""
    addons = {addon for one in (releases.class_release, *releases.releases.values()) for addon in one.addons()}
    if unknown := unknown_settings(snapshot.cluster.raw, addons):
        patch.false(AddonCondition.SETTINGS_USED, Reason.UNKNOWN_SETTINGS, unknown)
    else:
        patch.drop(AddonCondition.SETTINGS_USED)


async def _read_records(patch: StatusPatch, delivery: Delivery) -> dict[str, DeliveryRecord]:
    """Read the records; records of another Cluster have their own reason, which tools can match."""
    try:
        with patch.failing_condition(AddonCondition.CHART_APPLIED, Reason.FAILED_TO_APPLY_OBJECTS):
            return await delivery.records()
    except RecordOfAnotherCluster as error:
        patch.false(AddonCondition.CHART_APPLIED, error.code, error.message, Severity.ERROR)
        raise


def _recorded_in_cluster(delivery: AddonDelivery, wanted: Target) -> Target:
    """Return what the cluster has where the ClusterAddon does not say it: nothing, or the addons of an unknown class.

    Raises:
        RecordUnreadable: A record that cannot be read may be all that is left of an upgrade.
    """
    patch, snapshot = delivery.patch, delivery.inputs.snapshot
    progress, unreadable = read_progress(patch.status), delivery.delivery.unreadable
    is_lost = is_lost_in_upgrade(
        progress,
        delivery.records.values(),
        wanted,
        are_unreadable=bool(unreadable),
        is_upgraded=is_upgraded(snapshot.cluster, snapshot.data["ControlPlane"], snapshot.upgrade),
        are_others_delivered=delivery.are_others_delivered(),
    )
    if is_lost:
        log.info("ClusterAddon %s was lost in an upgrade: the stages of the upgrade run from the first one", patch.key)
        return Target("", snapshot.reached(snapshot.running.text))
    if unreadable and progress == RolloutProgress():
        why = next(iter(unreadable.values()))
        with patch.failing_condition(AddonCondition.CHART_APPLIED, Reason.FAILED_TO_APPLY_OBJECTS):
            raise RecordUnreadable(f"nothing is delivered, because it is not known what is installed: {why}")
    return NO_TARGET


def _version(release: Release, addon: str) -> str:
    """Return the version of an addon's software; empty where its release does not state it."""
    stated = release.compatibility
    components = stated.of_addon(addon) if stated is not None else ()
    return leading(addon, components).text if components else ""


async def _save_stage(index: int, following: Move, journal: DeliveryJournal, *, since: float) -> bool:
    """Write the progress after a stage if a later reconcile or a reader needs it; return whether it was written.

    A reconcile that finds no progress runs the stages again. That costs nothing for one that only applies, so a rollout
    of some seconds writes its status once, at its end. Before the wait for the upgrade the reconcile ends anyway.
    A stage that changes nothing may have been run by an operator that was killed; a refresh has only stages that may
    run again.
    """
    plan, delivery = journal.plan, journal.delivery
    step = plan.steps[index]
    is_idle = plan.occasion is Occasion.REFRESH and not delivery.has_changed(step.stage)
    if is_idle or isinstance(following, WaitForUpgrade):
        return False
    next_action = following.step.stage.action if isinstance(following, RunStage) else None
    late = next_action is not None and _now() - since > SAVE_INTERVAL.total_seconds()
    if step.idempotent and not late and next_action is not StageAction.DELETE:
        return False
    if late:
        delivery.patch.status["resources"] = delivery.resources()
    journal.note()
    message = f"{index + 1} of {len(plan.steps)} stages done, the last one was {step.stage.addon}"
    await delivery.patch.checkpoint(Waiting("RollingOut", message))
    return True


def _now() -> float:
    return asyncio.get_running_loop().time()
