"""Runs the rollout of one cluster's addons: opens the releases, then executes the moves of ``rollout_plan``."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING

from clusterstacks.api.clusteraddon import DeliveredAddon
from clusterstacks.api.names import ADOPT_ANNOTATION, GROUP, AddonCondition, Kind, Reason
from clusterstacks.apply.delivery import Delivery, RecordOfAnotherCluster, RecordOwner
from clusterstacks.apply.prune_plan import PruneOutcome
from clusterstacks.controllers.clusteraddon.addon_delivery import AddonDelivery
from clusterstacks.controllers.clusteraddon.addon_inputs import AddonInputs, combine_releases, unknown_settings
from clusterstacks.controllers.clusteraddon.rollout_plan import (
    Done,
    Prune,
    RolloutPlan,
    RunStage,
    WaitForUpgrade,
    plan_rollout,
    read_progress,
)
from clusterstacks.controllers.clusteraddon.stage_run import StageRun
from clusterstacks.domain.addon_config import InvalidAddonConfig
from clusterstacks.domain.compatibility import leading
from clusterstacks.domain.conditions import Severity
from clusterstacks.domain.errors import ClusterStacksError
from clusterstacks.domain.outcomes import Outcome, Settled, Waiting

if TYPE_CHECKING:
    from clusterstacks.apply.delivery_plan import DeliveryRecord
    from clusterstacks.apply.results import PruneReport
    from clusterstacks.controllers.clusteraddon.addon_inputs import AddonReleases
    from clusterstacks.controllers.clusteraddon.snapshot import ClusterSnapshot
    from clusterstacks.controllers.status_reconciler import StatusPatch
    from clusterstacks.domain.names import ReleaseName
    from clusterstacks.domain.objects import Manifest
    from clusterstacks.kube.client import Client
    from clusterstacks.releases.release import Release
    from clusterstacks.render.renderer import Renderer
    from clusterstacks.runtime.events import EventRecorder
    from clusterstacks.runtime.metrics import Metrics
    from clusterstacks.sources.fetcher import ReleaseFetcher

log = logging.getLogger(__name__)

RESYNC = timedelta(minutes=5)
"""Interval at which the control plane and infrastructure objects are read again, as the Go operator's resync."""

CONFIRMATION = timedelta(seconds=1)
"""Delay of the second pass over addons that several reconciles delivered, perhaps with different values. Arbitrary."""

UPGRADE_RETRY = timedelta(seconds=20)
"""Events of the Cluster enqueue the ClusterAddon; this bounds a lost one. As the Go operator's retry."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RolloutExecutor:
    """Brings the addons of one cluster to the release of its class."""

    client: Client
    supply: ReleaseFetcher
    renderer: Renderer
    events: EventRecorder
    metrics: Metrics

    async def run_rollout(
        self, draft: StatusPatch, snapshot: ClusterSnapshot, workload: Client, *, recorded: str, inputs: str
    ) -> Outcome:
        """Do everything that can be done now.

        Args:
            draft: The ClusterAddon.
            snapshot: The Cluster, whose control plane is initialized, and what it refers to.
            workload: The workload cluster.
            recorded: The class whose addons the cluster has completely.
            inputs: Digest of what the addons depend on now.
        """
        opened = await self._open_releases(draft, snapshot)
        if opened is None:
            return Waiting(Reason.CHART_MISSING, "a release is being downloaded again", RESYNC)
        with draft.failing_condition(AddonCondition.CHART_FOUND, Reason.CHART_MISSING):
            releases = combine_releases(opened.pop(snapshot.release), opened, snapshot.wishes)
        _check_settings(draft, snapshot, releases)
        adopts = snapshot.cluster.annotations.get(ADOPT_ANNOTATION, "")
        records_of_cluster = Delivery(workload, RecordOwner(snapshot.cluster.key, adopts))
        records = await _read_records(draft, records_of_cluster)
        delivery = AddonDelivery(
            draft=draft,
            inputs=AddonInputs(snapshot, releases, self.renderer.for_object(draft.key)),
            delivery=records_of_cluster,
            records=records,
            metrics=self.metrics,
        )
        plan = plan_rollout(
            releases.config,
            recorded=recorded,
            wanted=snapshot.cluster.class_name,
            changed=draft.status.get("observedInputs", "") != inputs,
            delivered=records,
            progress=read_progress(draft.status.get("target"), draft.status.get("stages")),
        )
        try:
            plan, outcome = await self._execute(plan, delivery, workload)
        finally:
            draft.status["resources"] = delivery.resources()
        if isinstance(outcome, Settled):
            await self._record(delivery, inputs="" if plan.resumed else inputs)
            return Settled(CONFIRMATION) if plan.resumed else outcome
        return outcome

    async def _open_releases(self, draft: StatusPatch, snapshot: ClusterSnapshot) -> dict[ReleaseName, Release] | None:
        """Return the releases; None while one is downloaded again because the local disk was lost."""
        opened: dict[ReleaseName, Release] = {}
        for name, manifest in snapshot.objects.items():
            release = await self._open_release(draft, name, manifest or {})
            if release is None:
                return None
            opened[name] = release
        return opened

    async def _open_release(self, draft: StatusPatch, name: ReleaseName, manifest: Manifest) -> Release | None:
        try:
            obtained = await self.supply.obtain(draft.key, manifest, name)
        except InvalidAddonConfig as error:
            draft.false(AddonCondition.CONFIG_VALIDATED, Reason.PARSING_CONFIG_FAILED, error.message, Severity.ERROR)
            raise
        except ClusterStacksError as error:
            draft.false(AddonCondition.RELEASE_DOWNLOADED, Reason.ISSUE_WITH_RELEASE, error.message)
            draft.false(AddonCondition.CHART_FOUND, Reason.CHART_MISSING, error.message)
            raise
        if obtained is None:
            return None
        draft.true(AddonCondition.RELEASE_DOWNLOADED)
        if obtained.release.staged:
            draft.true(AddonCondition.CONFIG_VALIDATED)
        return obtained.release

    async def _execute(
        self, plan: RolloutPlan, delivery: AddonDelivery, workload: Client
    ) -> tuple[RolloutPlan, Outcome]:
        """Execute one move after the other until one must wait or all are done."""
        control_plane = delivery.inputs.snapshot.control_plane
        while True:
            match plan.next_move(control_plane):
                case RunStage(index=index):
                    plan, waiting = await self._run_stage(plan, StageRun(plan.steps[index], delivery, workload), index)
                    if waiting is not None:
                        return plan, waiting
                case WaitForUpgrade(message=message):
                    _save_progress(delivery.draft, plan)
                    return plan, Waiting("WaitingForUpgrade", message, UPGRADE_RETRY)
                case Prune(keep=keep):
                    report = await self._prune(delivery, keep)
                    if not report.complete:
                        return plan, delivery.not_deleted(report)
                    plan = plan.after_prune()
                case Done():
                    return plan, Settled(RESYNC)

    async def _run_stage(self, plan: RolloutPlan, stage: StageRun, index: int) -> tuple[RolloutPlan, Outcome | None]:
        delivery, draft = stage.delivery, stage.delivery.draft
        try:
            waiting = await stage.run_stage()
        finally:
            plan = plan.reached(index, stage.phase)
            _save_progress(draft, plan)
            await self._report_overridden_fields(delivery)
        # A stage without work is not worth a write: another reconcile finds it done at no cost. Before the wait for the
        # upgrade the reconcile ends, and its last write has the same progress.
        ends = isinstance(plan.next_move(delivery.inputs.snapshot.control_plane), WaitForUpgrade)
        if waiting is None and delivery.has_changed(stage.step.stage) and not ends:
            draft.status["resources"] = delivery.resources()
            message = f"{index + 1} of {len(plan.steps)} stages done, the last one was {stage.step.stage.addon}"
            await draft.checkpoint(Waiting("RollingOut", message))
        return plan, waiting

    async def _report_overridden_fields(self, delivery: AddonDelivery) -> None:
        """Name the other managers of the addons' fields, which will probably set them again."""
        if delivery.overridden_fields:
            message = f"fields set by other managers were overridden: {'; '.join(delivery.overridden_fields)}"
            delivery.overridden_fields.clear()
            await self.events.record(delivery.draft.manifest, "Warning", "FieldsTakenBack", message)

    async def _prune(self, delivery: AddonDelivery, keep: frozenset[str]) -> PruneReport:
        draft = delivery.draft
        with draft.failing_condition(AddonCondition.CHART_DELETED, Reason.FAILED_TO_DELETE_OBJECTS):
            report = await delivery.delivery.prune(keep)
        kept = [f"{one.id}: {one.result.reason}" for one in report.removals if one.result.outcome is PruneOutcome.KEPT]
        if kept:
            release = delivery.inputs.releases.class_release.name
            message = f"objects that {release} no longer contains were kept: {'; '.join(kept)}"
            await self.events.record(draft.manifest, "Normal", "ObjectsKept", message)
        if report.complete:
            draft.drop(AddonCondition.CHART_DELETED)
            delivery.keep_records(keep)
        return report

    async def _record(self, delivery: AddonDelivery, *, inputs: str) -> None:
        """Record that the cluster has everything: in spec, which survives the loss of status, then in status."""
        draft, releases = delivery.draft, delivery.inputs.releases
        counts = delivery.counts()
        origins = {addon: releases.release_of(addon) for addon in counts}
        if delivery.truncated:
            listed = ", ".join(sorted(delivery.truncated))
            message = (
                f"the manifests of {listed} do not fit into a Secret: their delivery record holds the inventory only"
            )
            draft.true(AddonCondition.CHART_APPLIED, "RecordTruncated", message)
        else:
            draft.true(AddonCondition.CHART_APPLIED)
        spec = {
            "clusterStack": delivery.inputs.snapshot.cluster.class_name,
            "version": releases.class_release.metadata.cluster_addon.dot,
            "hook": "",
            "addons": [{"name": addon, "release": release.name.release} for addon, release in origins.items()],
        }
        before = draft.manifest.get("spec") or {}
        if any(before.get(key, "") != value for key, value in spec.items()):
            resource = await self.client.resource(GROUP, Kind.CLUSTER_ADDON)
            draft.manifest = await self.client.merge_patch(
                resource, draft.key.name, {"spec": spec}, draft.key.namespace
            )
        log.info("the addons of class %s are delivered", spec["clusterStack"])
        draft.status["observedInputs"] = inputs
        draft.status["target"] = ""
        draft.status["stages"] = []
        draft.status["addons"] = [
            DeliveredAddon(
                name=addon, release=release.name.release, version=_version(release, addon), objects=counts[addon]
            ).document()
            for addon, release in origins.items()
        ]


def _check_settings(draft: StatusPatch, snapshot: ClusterSnapshot, releases: AddonReleases) -> None:
    """Report settings of the Cluster for addons that do not exist; everything else is delivered."""
    addons = {addon for one in (releases.class_release, *releases.releases.values()) for addon in one.addons()}
    if unknown := unknown_settings(snapshot.cluster.raw, addons):
        draft.false(AddonCondition.SETTINGS_USED, Reason.UNKNOWN_SETTINGS, unknown)
    else:
        draft.drop(AddonCondition.SETTINGS_USED)


async def _read_records(draft: StatusPatch, delivery: Delivery) -> dict[str, DeliveryRecord]:
    """Read the records; records of another Cluster have their own reason, which tools can match."""
    try:
        with draft.failing_condition(AddonCondition.CHART_APPLIED, Reason.FAILED_TO_APPLY_OBJECTS):
            return await delivery.records()
    except RecordOfAnotherCluster as error:
        draft.false(AddonCondition.CHART_APPLIED, error.code, error.message, Severity.ERROR)
        raise


def _version(release: Release, addon: str) -> str:
    """Return the version of an addon's software; empty where its release does not state it."""
    stated = release.compatibility
    components = stated.of_addon(addon) if stated is not None else ()
    return leading(addon, components).text if components else ""


def _save_progress(draft: StatusPatch, plan: RolloutPlan) -> None:
    draft.status["target"] = plan.progress.target
    draft.status["stages"] = plan.progress.documents()
