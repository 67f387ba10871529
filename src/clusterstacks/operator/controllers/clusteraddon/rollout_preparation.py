"""Prepares the rollout of one cluster's addons: opens the releases, reads the delivery records and makes the plan."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING

from clusterstacks.deliver.apply.delivery import Delivery, RecordOwner
from clusterstacks.deliver.apply.messages import RecordOfAnotherCluster
from clusterstacks.deliver.apply.record_codec import RecordUnreadable
from clusterstacks.model.conditions import Severity
from clusterstacks.model.documents import mappings, text
from clusterstacks.model.errors import ClusterStacksError
from clusterstacks.model.files.addon_config import InvalidAddonConfig
from clusterstacks.model.kinds.names import ADOPT_ANNOTATION, AddonCondition, Reason
from clusterstacks.model.outcomes import Waiting
from clusterstacks.operator.controllers.clusteraddon.addon_inputs import AddonInputs, combine_releases, unknown_settings
from clusterstacks.operator.controllers.clusteraddon.addon_installer import AddonInstaller
from clusterstacks.operator.controllers.clusteraddon.rollout_journal import RolloutJournal
from clusterstacks.operator.controllers.clusteraddon.rollout_plan import (
    NO_TARGET,
    Occasion,
    RolloutProgress,
    Target,
    is_lost_in_upgrade,
    plan_rollout,
    read_progress,
)
from clusterstacks.operator.controllers.clusteraddon.upgrade_hold import is_upgraded

if TYPE_CHECKING:
    from clusterstacks.deliver.apply.delivery_plan import DeliveryRecord
    from clusterstacks.deliver.render.renderer import Renderer
    from clusterstacks.model.names import ReleaseName
    from clusterstacks.model.objects import Manifest
    from clusterstacks.net.kube.client import Client
    from clusterstacks.operator.controllers.clusteraddon.addon_inputs import AddonReleases
    from clusterstacks.operator.controllers.clusteraddon.snapshot import ClusterSnapshot
    from clusterstacks.operator.controllers.clusteraddon.sweep_settings import SweepSwitch
    from clusterstacks.operator.controllers.status_reconciler import StatusPatch
    from clusterstacks.release.release import Release
    from clusterstacks.release.sources.fetcher import ReleaseFetcher
    from clusterstacks.runtime.clock import Clock
    from clusterstacks.runtime.metrics import Metrics

log = logging.getLogger(__name__)

RESYNC = timedelta(minutes=5)
"""Interval that bounds a lost event of a download. Arbitrary."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RolloutPreparation:
    """Determines what a cluster has and what its addons need, without changing the cluster."""

    fetcher: ReleaseFetcher
    renderer: Renderer
    metrics: Metrics
    clock: Clock
    drift: SweepSwitch

    async def is_delivered(self, patch: StatusPatch, snapshot: ClusterSnapshot, wanted: Target) -> bool:
        """Return whether a refresh would deliver exactly what the status says is delivered; without a request.

        Cluster API changes the objects that the values come from several times in each installation and upgrade.
        """
        if snapshot.release_missing or not patch.status.get("observedInputs"):
            return False
        delivered = {text(one, "name"): text(one, "inputs") for one in mappings(patch.status, "addons")}
        try:
            opened = await self._open_releases(patch, snapshot)
            if opened is None:
                return False
            releases = combine_releases(opened.pop(snapshot.release), opened, snapshot.requested)
            plan = plan_rollout(
                releases.config,
                recorded=wanted,
                wanted=wanted,
                changed=True,
                delivered=delivered.keys(),
                progress=RolloutProgress(),
            )
            if {step.stage.addon for step in plan.steps} != delivered.keys():
                return False
            inputs = AddonInputs(snapshot, releases, self.renderer.for_object(patch.key))
            charts = [inputs.chart(addon) for addon in delivered]
            digests = [inputs.digest(chart, await inputs.values(chart)) for chart in charts]
        except ClusterStacksError:
            return False  # the rollout reports it
        _check_settings(patch, snapshot, releases)
        return digests == [*delivered.values()]

    async def prepare(
        self, patch: StatusPatch, snapshot: ClusterSnapshot, workload: Client, *, recorded: Target, inputs: str
    ) -> RolloutJournal | Waiting:
        """Return the rollout with its plan, or what it waits for.

        The control plane of the Cluster is initialized. ``recorded`` is the class and version whose addons the cluster
        has completely, as the ClusterAddon says; ``inputs`` the digest of what the addons depend on now.
        """
        opened = await self._open_releases(patch, snapshot)
        if opened is None:
            return Waiting(Reason.CHART_MISSING, "a release is being downloaded again", RESYNC)
        with patch.failing_condition(AddonCondition.CHART_FOUND, Reason.CHART_MISSING):
            releases = combine_releases(opened.pop(snapshot.release), opened, snapshot.requested)
        _check_settings(patch, snapshot, releases)
        adopts = snapshot.cluster.annotations.get(ADOPT_ANNOTATION, "")
        ignored = (await self.drift.settings(snapshot)).ignored_fields
        delivery = Delivery(workload, RecordOwner(snapshot.cluster.key, adopts), ignored=ignored)
        records = await _read_records(patch, delivery)
        installer = AddonInstaller(
            patch=patch,
            inputs=AddonInputs(snapshot, releases, self.renderer.for_object(patch.key)),
            delivery=delivery,
            records=records,
            metrics=self.metrics,
        )
        wanted = Target(snapshot.cluster.class_name, snapshot.upgrade.wanted.text)
        if recorded == NO_TARGET:
            recorded = _recorded_in_cluster(installer, wanted)
        plan = plan_rollout(
            releases.config,
            recorded=recorded,
            wanted=wanted,
            changed=patch.status.get("observedInputs", "") != inputs,
            delivered={*records, *(text(one, "name") for one in mappings(patch.status, "addons"))},
            progress=read_progress(patch.status),
        )
        if plan.occasion is Occasion.UPGRADE:
            patch.status["deliveredKubernetesVersion"] = recorded.version
        return RolloutJournal(installer, recorded, self.clock, plan)

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


def _check_settings(patch: StatusPatch, snapshot: ClusterSnapshot, releases: AddonReleases) -> None:
    """Report settings of the Cluster for addons that do not exist; everything else is delivered."""
    all_releases = (releases.class_release, *releases.releases.values())
    addons = {addon for release in all_releases for addon in release.addons()}
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


def _recorded_in_cluster(installer: AddonInstaller, wanted: Target) -> Target:
    """Return what the cluster has if the ClusterAddon does not say it: nothing, or the addons of an unknown class.

    Raises RecordUnreadable, because such a record may be all that remains of an upgrade.
    """
    patch, snapshot = installer.patch, installer.inputs.snapshot
    progress, unreadable = read_progress(patch.status), installer.delivery.unreadable
    is_lost = is_lost_in_upgrade(
        progress,
        installer.records.values(),
        wanted,
        are_unreadable=bool(unreadable),
        is_upgraded=is_upgraded(snapshot.cluster, snapshot.data["ControlPlane"], snapshot.upgrade),
        are_others_delivered=installer.are_others_delivered(),
    )
    if is_lost:
        log.info("ClusterAddon %s was lost in an upgrade: the stages of the upgrade run from the first one", patch.key)
        return Target("", snapshot.reached(snapshot.running.text))
    if unreadable and progress == RolloutProgress():
        why = next(iter(unreadable.values()))
        with patch.failing_condition(AddonCondition.CHART_APPLIED, Reason.FAILED_TO_APPLY_OBJECTS):
            raise RecordUnreadable(f"nothing is delivered, because it is not known what is installed: {why}")
    return NO_TARGET
