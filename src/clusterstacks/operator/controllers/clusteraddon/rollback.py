"""Keeps the last healthy revision of an addon, and returns to it when a newer one does not become healthy in time.

The delivery record names the abandoned revision before the first object is applied. So an interrupted rollback
continues, and the addon stays rolled back until its release or its values differ.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Final

from clusterstacks.deliver.apply.delivery import Revision
from clusterstacks.deliver.apply.delivery_plan import AbandonedRevision, DeliveryState
from clusterstacks.deliver.apply.health import read_health
from clusterstacks.deliver.apply.health_expressions import HealthExpressions
from clusterstacks.deliver.apply.live_fields import one_line
from clusterstacks.deliver.apply.messages import ObjectInTwoAddons
from clusterstacks.deliver.apply.prune_plan import MAX_KEPT
from clusterstacks.deliver.apply.record_codec import RecordUnreadable
from clusterstacks.model.documents import mappings, text
from clusterstacks.model.kinds.names import AddonCondition, Reason
from clusterstacks.model.outcomes import Outcome, Waiting

if TYPE_CHECKING:
    from datetime import datetime

    from clusterstacks.deliver.apply.delivery_plan import DeliveryRecord
    from clusterstacks.net.kube.client import Client
    from clusterstacks.operator.controllers.clusteraddon.addon_installer import AddonInstaller

RESYNC: Final = timedelta(minutes=5)
"""Interval that bounds the effect of a lost event while an addon is rolled back."""


class RollbackNotPossible(Exception):
    """An addon cannot return to a healthy revision; the text says why."""


@dataclass(frozen=True, slots=True)
class AddonRollback:
    """The last healthy revision of one addon, whose stage has ``rollback: OnFailure``."""

    addon: str
    installer: AddonInstaller
    workload: Client
    now: datetime

    async def resume(self) -> Outcome | None:
        """Stay rolled back, or finish an interrupted rollback; None if the addon of the release is to be delivered."""
        record = self._record
        if record is None or record.abandoned is None:
            return None
        if record.abandoned.inputs != await self.installer.wanted_inputs(self.addon):
            return None
        if record.state is DeliveryState.DELIVERING:
            manifests = await self.installer.delivery.manifests(self.addon)
            if manifests is None:
                return None
            return await self._return_to(Revision.of(manifests, record.inputs), record.abandoned)
        if record.state is DeliveryState.DELIVERED:
            return await self._prune(record.abandoned)
        return self._rolled_back(record.abandoned)

    async def keep_before_change(self) -> None:
        """Keep the revision that is about to be replaced, if its objects are healthy now.

        Most revisions were kept when their stage ended; those of releases without ``rollback`` were not.
        """
        record = self._record
        if record is None or record.state is DeliveryState.DELIVERING or record.truncated:
            return
        if record.inputs == await self.installer.wanted_inputs(self.addon) or await self._is_kept(record):
            return
        objects = self.installer.stateful_objects(self.addon)
        expressions = HealthExpressions(self.installer.inputs.renderer)
        report = await read_health(self.workload, objects, self.now, expressions)
        if not report.unhealthy:
            addons = mappings(self.installer.patch.manifest, "spec", "addons")
            release = next((text(entry, "release") for entry in addons if text(entry, "name") == self.addon), "")
            await self._keep(release or "an earlier release")

    async def is_unproven(self) -> bool:
        """Return whether the objects of the revision in place were never all healthy, as far as is known."""
        record = self._record
        return record is not None and not record.truncated and not await self._is_kept(record)

    async def keep(self) -> None:
        """Keep the revision of the release, whose objects are all healthy."""
        record = self._record
        if self.addon in self.installer.results or record is None or not await self._is_kept(record):
            await self._keep(self.installer.inputs.release_name(self.addon).release)

    async def roll_back(self, reason: str) -> Outcome:
        """Return to the last healthy revision; ``reason`` says why the current one is abandoned.

        Raises RollbackNotPossible if there is no such revision, or it cannot be delivered.
        """
        try:
            healthy = await self.installer.delivery.healthy(self.addon)
            record = self._record
            if healthy is None or record is None or healthy.revision.digest == record.digest:
                raise RollbackNotPossible("none of its earlier revisions is known to have been healthy")
            abandoned = AbandonedRevision(
                await self.installer.wanted_inputs(self.addon),
                self.installer.inputs.release_name(self.addon).release,
                healthy.revision.release,
                one_line(reason, MAX_KEPT),
            )
            revision = Revision.of(await healthy.manifests(), healthy.revision.inputs)
            return await self._return_to(revision, abandoned)
        except (ObjectInTwoAddons, RecordUnreadable) as error:
            raise RollbackNotPossible(error.message) from None

    @property
    def _record(self) -> DeliveryRecord | None:
        """The record as it was at the beginning of the reconcile."""
        return self.installer.records.get(self.addon)

    async def _is_kept(self, record: DeliveryRecord) -> bool:
        try:
            healthy = await self.installer.delivery.healthy(self.addon)
        except RecordUnreadable:
            return False
        return healthy is not None and healthy.revision.digest == record.digest

    async def _keep(self, release: str) -> None:
        with self.installer.patch.failing_condition(AddonCondition.CHART_APPLIED, Reason.FAILED_TO_APPLY_OBJECTS):
            await self.installer.delivery.keep_healthy(self.addon, release)

    async def _return_to(self, revision: Revision, abandoned: AbandonedRevision) -> Outcome:
        waiting = await self.installer.install_revision(self.addon, revision, abandoned)
        return waiting or await self._prune(abandoned)

    async def _prune(self, abandoned: AbandonedRevision) -> Outcome:
        """Delete what only the abandoned revision contains: it may be the cause."""
        with self.installer.patch.failing_condition(AddonCondition.CHART_DELETED, Reason.FAILED_TO_DELETE_OBJECTS):
            report = await self.installer.delivery.prune_addon(self.addon)
        self.installer.note_removals(report)
        return self._rolled_back(abandoned) if report.complete else self.installer.not_deleted(report)

    def _rolled_back(self, abandoned: AbandonedRevision) -> Outcome:
        message = (
            f"addon {self.addon} of {abandoned.release} was rolled back to its revision of {abandoned.returned_to}: "
            f"{abandoned.reason}; it stays there until the Cluster has another class, or other values for this addon"
        )
        return Waiting(Reason.ROLLED_BACK, message, RESYNC)
