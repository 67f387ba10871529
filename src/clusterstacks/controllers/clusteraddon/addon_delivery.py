"""Delivers single addons to a workload cluster, and runs the stages of clusteraddon.yaml around them."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from clusterstacks.api.names import AddonCondition, Reason
from clusterstacks.apply.delivery import Delivery, ReleaseAddons, Revision
from clusterstacks.apply.delivery_plan import DeliveryState, shares_objects
from clusterstacks.apply.messages import describe_conflicts
from clusterstacks.apply.prune_plan import PruneOutcome
from clusterstacks.apply.results import ObjectResult
from clusterstacks.controllers.resource_list import OBJECTS_SHOWN, describe_failures, entries
from clusterstacks.domain.addon_config import StageAction
from clusterstacks.domain.conditions import Severity
from clusterstacks.domain.documents import and_more
from clusterstacks.domain.errors import ClusterStacksError, DependencyError
from clusterstacks.domain.outcomes import Outcome, Waiting
from clusterstacks.render.renderer import ADDON_NAMESPACE

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence

    from clusterstacks.apply.delivery_plan import DeliveryRecord
    from clusterstacks.apply.results import PruneReport
    from clusterstacks.charts.chart import AddonChart
    from clusterstacks.controllers.clusteraddon.addon_inputs import AddonInputs
    from clusterstacks.controllers.status_reconciler import StatusPatch
    from clusterstacks.domain.addon_config import Stage
    from clusterstacks.domain.objects import Manifest
    from clusterstacks.runtime.metrics import Metrics


@dataclass(slots=True, kw_only=True)
class AddonDelivery:
    """Delivers and removes the addons of one cluster during one reconcile.

    Args:
        draft: The ClusterAddon.
        inputs: Renders the addons.
        delivery: The delivery records of the workload cluster.
        records: The records as they were at the beginning, by addon.
        metrics: Counts renders and objects.
    """

    draft: StatusPatch
    inputs: AddonInputs
    delivery: Delivery
    records: dict[str, DeliveryRecord]
    metrics: Metrics
    results: dict[str, tuple[ObjectResult, ...]] = field(default_factory=dict)
    overridden_fields: list[str] = field(default_factory=list)
    """Objects whose fields another manager had set to other values, with the managers."""
    truncated: set[str] = field(init=False)
    """Addons whose record holds the inventory only, because their manifests do not fit into a Secret."""

    def __post_init__(self) -> None:
        self.truncated = {addon for addon, record in self.records.items() if record.truncated}

    async def deliver_addon(self, addon: str) -> Outcome | None:
        """Deliver one addon; return None when all of its objects are in place.

        Raises:
            SpecError: Chart or values cannot be rendered, or an object can never be applied.
            DependencyError: The cluster or a render worker failed; a later attempt may succeed.
        """
        draft = self.draft
        with draft.failing_condition(AddonCondition.CHART_FOUND, Reason.CHART_MISSING):
            chart = self.inputs.chart(addon)
        draft.true(AddonCondition.CHART_FOUND)
        with draft.failing_condition(AddonCondition.CHART_TEMPLATED, Reason.TEMPLATE_NEW_OVERWRITE_FAILED):
            values = await self.inputs.values(chart)
        digest = self.inputs.digest(chart, values)
        if self._is_delivered(addon, digest):
            draft.true(AddonCondition.CHART_TEMPLATED)
            return None
        record = self.records.get(addon)
        manifests = await self.delivery.manifests(addon) if record is not None and record.inputs == digest else None
        if manifests is None:
            manifests = await self._render(chart, values)
        draft.true(AddonCondition.CHART_TEMPLATED)
        with self._failing_delivery():
            revision = Revision.of(manifests, digest)
            siblings = ReleaseAddons(self.inputs.addons_beside(addon), self._is_current)
            report = await self.delivery.install(addon, revision, default_namespace=ADDON_NAMESPACE, siblings=siblings)
        self.results[addon] = report.objects
        self.overridden_fields += [
            f"{one.id}: {describe_conflicts(one.conflicts)}" for one in report.objects if one.conflicts
        ]
        self.truncated = (self.truncated - {addon}) | ({addon} if report.truncated else set())
        changed = sum(one.changed for one in report.objects)
        failed = sum(not one.synced for one in report.objects)
        self.metrics.count_applied(changed=changed, unchanged=len(report.objects) - changed - failed, failed=failed)
        return None if report.synced else self._not_applied(addon, report.objects)

    async def remove_addon(self, addon: str) -> Outcome | None:
        """Delete all objects of one addon; return None when they are gone."""
        with self.draft.failing_condition(AddonCondition.CHART_DELETED, Reason.FAILED_TO_DELETE_OBJECTS):
            report = await self.delivery.remove(addon)
        self.results.pop(addon, None)
        self.records.pop(addon, None)
        return None if report.complete else self.not_deleted(report)

    def has_changed(self, stage: Stage) -> bool:
        """Return whether the stage, which is done, may have changed the cluster."""
        return stage.action is StageAction.DELETE or stage.addon in self.results

    def not_deleted(self, report: PruneReport) -> Outcome:
        """Report that objects are not gone yet, or that a record cannot be read."""
        pending = [str(one.id) for one in report.removals if one.result.outcome is PruneOutcome.PENDING]
        message = (
            f"waiting for {and_more(pending, OBJECTS_SHOWN)} to be deleted"
            if pending
            else and_more([*report.unreadable.values()], OBJECTS_SHOWN)
        )
        self.draft.false(AddonCondition.CHART_DELETED, Reason.FAILED_TO_DELETE_OBJECTS, message)
        return Waiting(Reason.FAILED_TO_DELETE_OBJECTS, message)

    def keep_records(self, addons: Collection[str]) -> None:
        """Drop the records of all other addons after a prune."""
        self.records = {addon: record for addon, record in self.records.items() if addon in addons}

    def counts(self) -> dict[str, int]:
        """Return the number of objects of each addon in the cluster."""
        return {
            addon: len(self.results[addon] if addon in self.results else self.records[addon].objects)
            for addon in sorted({*self.records, *self.results})
        }

    def resources(self) -> list[Manifest]:
        """Return ``status.resources``: the objects of all addons, from the record where no request was sent."""
        results: list[ObjectResult] = []
        for addon in sorted({*self.records, *self.results}):
            if addon in self.results:
                results += self.results[addon]
            else:
                results += [ObjectResult(known.id, known.version, synced=True) for known in self.records[addon].objects]
        return entries(results)

    def _is_delivered(self, addon: str, digest: str) -> bool:
        record = self.records.get(addon)
        if record is None or record.inputs != digest or record.state is DeliveryState.DELIVERING:
            return False
        return not shares_objects(addon, self.records)

    async def _is_current(self, record: DeliveryRecord) -> bool:
        """Return whether a record holds the revision of the release; False for an addon that cannot be rendered."""
        try:
            chart = self.inputs.chart(record.addon)
            values = await self.inputs.values(chart)
        except ClusterStacksError:
            return False
        return record.inputs == self.inputs.digest(chart, values)

    async def _render(self, chart: AddonChart, values: str) -> list[Manifest]:
        with (
            self.draft.failing_condition(AddonCondition.CHART_TEMPLATED, Reason.TEMPLATE_NEW_FAILED),
            self.metrics.render_seconds.time(),
        ):
            return await self.inputs.render(chart, values)

    @contextmanager
    def _failing_delivery(self) -> Iterator[None]:
        """Set HelmChartApplied to False on an error; some causes have their own reason, which tools can match."""
        try:
            yield
        except ClusterStacksError as error:
            own = error.code in {Reason.OBJECT_IN_TWO_ADDONS, Reason.WEBHOOK_FAILED}
            severity = Severity.WARNING if isinstance(error, DependencyError) else Severity.ERROR
            reason = error.code if own else Reason.FAILED_TO_APPLY_OBJECTS
            self.draft.false(AddonCondition.CHART_APPLIED, reason, error.message, severity)
            raise

    def _not_applied(self, addon: str, results: Sequence[ObjectResult]) -> Outcome:
        failed = sum(not result.synced for result in results)
        failures = describe_failures(results)
        message = f"{self.inputs.label(addon)}: {failed} of {len(results)} objects not applied: {failures}"
        blocked = any(result.webhook for result in results)
        reason = Reason.WEBHOOK_FAILED if blocked else Reason.OBJECTS_APPLYING_ONGOING
        self.draft.false(AddonCondition.CHART_APPLIED, reason, message)
        return Waiting(reason, message)
