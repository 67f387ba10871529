"""The rollout of one release's addons: the moves of ``rollout_plan``, made one after the other."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING

from clusterstacks.api.clusteraddon import DeliveredAddon
from clusterstacks.api.names import ADOPT_ANNOTATION, GROUP, AddonCondition, Kind, Reason
from clusterstacks.apply.delivery import Delivery, Recipient, RecordOfAnotherCluster
from clusterstacks.apply.prune_plan import Fate
from clusterstacks.controllers.clusteraddon.addon_delivery import Delivering
from clusterstacks.controllers.clusteraddon.addon_releases import sourcing
from clusterstacks.controllers.clusteraddon.addon_stage import StageRun
from clusterstacks.controllers.clusteraddon.cluster_values import unknown_settings
from clusterstacks.controllers.clusteraddon.progress import read_progress
from clusterstacks.controllers.clusteraddon.rollout_plan import (
    Done,
    Prune,
    RolloutPlan,
    RunStage,
    WaitForUpgrade,
    plan_rollout,
)
from clusterstacks.domain.addon_config import InvalidAddonConfig
from clusterstacks.domain.compatibility import leading
from clusterstacks.domain.conditions import Severity
from clusterstacks.domain.errors import ClusterStacksError
from clusterstacks.domain.outcomes import Outcome, Settled, Waiting

if TYPE_CHECKING:
    from collections.abc import Collection

    from clusterstacks.apply.delivery_plan import DeliveryRecord
    from clusterstacks.apply.results import PruneReport
    from clusterstacks.controllers.clusteraddon.snapshot import ClusterSnapshot
    from clusterstacks.controllers.status_reconciler import StatusPatch
    from clusterstacks.domain.names import ReleaseName
    from clusterstacks.domain.objects import Manifest
    from clusterstacks.kube.client import Client
    from clusterstacks.releases.release import Release
    from clusterstacks.render.renderer import Renderer
    from clusterstacks.runtime.events import EventRecorder
    from clusterstacks.runtime.metrics import Metrics
    from clusterstacks.sources.fetcher import Supply

log = logging.getLogger(__name__)

RESYNC = timedelta(minutes=5)
"""Control plane and infrastructure objects are read again at least this often; as the Go operator's resync."""

CONFIRMATION = timedelta(seconds=1)
"""How soon to go once more over what was delivered in several goes, which may have seen different values. Arbitrary."""

UPGRADE_RETRY = timedelta(seconds=20)
"""The Cluster's events wake the reconciler; this only bounds a lost one. As the Go operator's retry."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rolling:
    """Brings one cluster's addons to the release of its class."""

    client: Client
    supply: Supply
    renderer: Renderer
    events: EventRecorder
    metrics: Metrics

    async def roll(
        self, draft: StatusPatch, seen: ClusterSnapshot, workload: Client, *, recorded: str, inputs: str
    ) -> Outcome:
        """Do all that can be done now.

        Args:
            draft: The ClusterAddon.
            seen: What was read; its control plane is initialized.
            workload: The workload cluster.
            recorded: The class whose addons the cluster has completely.
            inputs: Digest of what the addons depend on now.
        """
        opened = await self._open(draft, seen)
        if opened is None:
            return Waiting(Reason.CHART_MISSING, "a release is being downloaded again", RESYNC)
        with draft.failing_condition(AddonCondition.CHART_FOUND, Reason.CHART_MISSING):
            sources = sourcing(opened.pop(seen.release), opened, seen.wishes)
        releases = (sources.home, *sources.releases.values())
        _check_settings(draft, seen, {addon for release in releases for addon in release.addons()})
        adopts = seen.cluster.annotations.get(ADOPT_ANNOTATION, "")
        delivery = Delivery(workload, Recipient(seen.cluster.key, adopts))
        records = await _records(draft, delivery)
        delivering = Delivering(
            draft=draft,
            seen=seen,
            sources=sources,
            workload=workload,
            delivery=delivery,
            renderer=self.renderer.for_object(draft.key),
            metrics=self.metrics,
            records=records,
        )
        rollout = plan_rollout(
            sources.config,
            recorded=recorded,
            wanted=seen.cluster.class_name,
            changed=draft.status.get("observedInputs", "") != inputs,
            delivered=records,
            progress=read_progress(draft.status.get("target"), draft.status.get("stages")),
        )
        try:
            rollout, outcome = await self._run(rollout, delivering)
        finally:
            draft.status["resources"] = delivering.resources()
        if isinstance(outcome, Settled):
            await self._record(delivering, inputs="" if rollout.resumed else inputs)
            return Settled(CONFIRMATION) if rollout.resumed else outcome
        return outcome

    async def _open(self, draft: StatusPatch, seen: ClusterSnapshot) -> dict[ReleaseName, Release] | None:
        """Return the releases; None while one is being downloaded, as this machine's disk was lost."""
        opened: dict[ReleaseName, Release] = {}
        for name, manifest in seen.objects.items():
            release = await self._open_one(draft, name, manifest or {})
            if release is None:
                return None
            opened[name] = release
        return opened

    async def _open_one(self, draft: StatusPatch, name: ReleaseName, manifest: Manifest) -> Release | None:
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

    async def _run(self, rollout: RolloutPlan, delivering: Delivering) -> tuple[RolloutPlan, Outcome]:
        """Make one move after the other until there is something to wait for, or nothing left to do."""
        control_plane = delivering.seen.control_plane
        while True:
            match rollout.next_move(control_plane):
                case RunStage(index=index):
                    rollout, waiting = await self._stage(rollout, index, delivering)
                    if waiting is not None:
                        return rollout, waiting
                case WaitForUpgrade(message=message):
                    _save(delivering.draft, rollout)
                    return rollout, Waiting("WaitingForUpgrade", message, UPGRADE_RETRY)
                case Prune(keep=keep):
                    report = await self._prune(delivering, keep)
                    if not report.complete:
                        return rollout, delivering.undeleted(report)
                    rollout = rollout.after_prune()
                case Done():
                    return rollout, Settled(RESYNC)

    async def _stage(
        self, rollout: RolloutPlan, index: int, delivering: Delivering
    ) -> tuple[RolloutPlan, Outcome | None]:
        draft = delivering.draft
        stage = StageRun(rollout.steps[index], delivering)
        try:
            waiting = await stage.run()
        finally:
            rollout = rollout.reached(index, stage.phase)
            _save(draft, rollout)
            await self._tell_of_others(delivering)
        # A stage that had nothing to do is no progress worth a write: it is found done again for nothing. Before it
        # waits for the upgrade the reconcile ends, and writes the same progress.
        ends = isinstance(rollout.next_move(delivering.seen.control_plane), WaitForUpgrade)
        if waiting is None and delivering.touched(stage.step.stage) and not ends:
            draft.status["resources"] = delivering.resources()
            message = f"{index + 1} of {len(rollout.steps)} stages done, the last one was {stage.step.stage.addon}"
            await draft.checkpoint(Waiting("RollingOut", message))
        return rollout, waiting

    async def _tell_of_others(self, delivering: Delivering) -> None:
        """Name who else writes the addons' fields: they will set them again, and so shall we."""
        if delivering.taken_back:
            message = f"fields set by others were taken back: {'; '.join(delivering.taken_back)}"
            delivering.taken_back.clear()
            await self.events.record(delivering.draft.manifest, "Warning", "FieldsTakenBack", message)

    async def _prune(self, delivering: Delivering, keep: frozenset[str]) -> PruneReport:
        draft = delivering.draft
        with draft.failing_condition(AddonCondition.CHART_DELETED, Reason.FAILED_TO_DELETE_OBJECTS):
            report = await delivering.delivery.prune(keep)
        kept = [f"{one.id}: {one.departure.reason}" for one in report.removals if one.departure.fate is Fate.KEPT]
        if kept:
            message = f"no longer part of {delivering.sources.home.name}, but kept: {'; '.join(kept)}"
            await self.events.record(draft.manifest, "Normal", "ObjectsKept", message)
        if report.complete:
            draft.drop(AddonCondition.CHART_DELETED)
            delivering.forget_all_but(keep)
        return report

    async def _record(self, delivering: Delivering, *, inputs: str) -> None:
        """Note that the cluster has everything: in spec, which outlives status, then in status."""
        draft, sources = delivering.draft, delivering.sources
        counts = delivering.counts()
        origins = {addon: sources.release_of(addon) for addon in counts}
        if delivering.truncated:
            listed = ", ".join(sorted(delivering.truncated))
            message = (
                f"the manifests of {listed} do not fit into a Secret: their delivery record holds the inventory only"
            )
            draft.true(AddonCondition.CHART_APPLIED, "RecordTruncated", message)
        else:
            draft.true(AddonCondition.CHART_APPLIED)
        spec = {
            "clusterStack": delivering.seen.cluster.class_name,
            "version": sources.home.metadata.cluster_addon.dot,
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


def _check_settings(draft: StatusPatch, seen: ClusterSnapshot, addons: Collection[str]) -> None:
    """Report what the Cluster sets for addons that do not exist; everything else is delivered."""
    if unknown := unknown_settings(seen.cluster.raw, addons):
        draft.false(AddonCondition.SETTINGS_USED, Reason.UNKNOWN_SETTINGS, unknown)
    else:
        draft.drop(AddonCondition.SETTINGS_USED)


async def _records(draft: StatusPatch, delivery: Delivery) -> dict[str, DeliveryRecord]:
    """Read the records; those of another Cluster have a reason of their own, which tools can look for."""
    try:
        with draft.failing_condition(AddonCondition.CHART_APPLIED, Reason.FAILED_TO_APPLY_OBJECTS):
            return await delivery.records()
    except RecordOfAnotherCluster as error:
        draft.false(AddonCondition.CHART_APPLIED, error.code, error.message, Severity.ERROR)
        raise


def _version(release: Release, addon: str) -> str:
    """The version of an addon's software; empty where its release does not state it."""
    stated = release.compatibility
    components = stated.of_addon(addon) if stated is not None else ()
    return leading(addon, components).text if components else ""


def _save(draft: StatusPatch, rollout: RolloutPlan) -> None:
    draft.status["target"] = rollout.progress.target
    draft.status["stages"] = rollout.progress.documents()
