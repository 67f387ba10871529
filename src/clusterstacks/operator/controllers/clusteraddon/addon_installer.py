"""Delivers single addons to a workload cluster, and prepares the next one in the meantime."""

from __future__ import annotations

import asyncio
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeVar

from clusterstacks.deliver.apply.delivery import Delivery, ReleaseAddons, Revision
from clusterstacks.deliver.apply.delivery_plan import DeliveryState, shares_objects
from clusterstacks.deliver.apply.health import stateful
from clusterstacks.deliver.apply.messages import describe_conflicts
from clusterstacks.deliver.apply.prune_plan import PruneOutcome
from clusterstacks.deliver.apply.results import ObjectResult
from clusterstacks.deliver.render.renderer import ADDON_NAMESPACE
from clusterstacks.model.conditions import Severity
from clusterstacks.model.errors import ClusterStacksError, DependencyError
from clusterstacks.model.files.addon_config import StageAction
from clusterstacks.model.kinds.names import AddonCondition, Reason
from clusterstacks.model.outcomes import Outcome, Waiting
from clusterstacks.operator.controllers.clusteraddon.delivery_history import (
    AddonChanges,
    applied_changes,
    merged,
    removals,
)
from clusterstacks.operator.controllers.resource_list import describe_failures, describe_remaining, entries
from clusterstacks.runtime.tracing import span

if TYPE_CHECKING:
    from collections.abc import Collection, Coroutine, Iterator, Sequence

    from clusterstacks.deliver.apply.delivery_plan import AbandonedRevision, DeliveryRecord
    from clusterstacks.deliver.apply.results import PruneReport
    from clusterstacks.model.files.addon_config import Stage
    from clusterstacks.model.objects import Manifest, ObjectId
    from clusterstacks.operator.controllers.clusteraddon.addon_inputs import AddonInputs
    from clusterstacks.operator.controllers.status_reconciler import StatusPatch
    from clusterstacks.release.charts.chart import AddonChart
    from clusterstacks.runtime.metrics import Metrics

T = TypeVar("T")


@dataclass(slots=True, kw_only=True)
class AddonInstaller:
    """Delivers and removes the addons of one cluster during one reconcile.

    ``records`` are the delivery records by addon, as they were at the beginning.
    """

    patch: StatusPatch
    inputs: AddonInputs
    delivery: Delivery
    records: dict[str, DeliveryRecord]
    metrics: Metrics
    results: dict[str, tuple[ObjectResult, ...]] = field(default_factory=dict)
    overridden_fields: list[str] = field(default_factory=list)
    """Objects whose fields another manager had set to other values, with the managers."""
    kept: list[str] = field(default_factory=list)
    """Objects that were intentionally not deleted, with the reasons."""
    changes: dict[str, AddonChanges] = field(init=False, default_factory=dict)
    """Objects that this reconcile has created, changed and removed, by addon."""
    truncated: set[str] = field(init=False)
    """Addons whose record holds the inventory only, because their manifests do not fit into a Secret."""
    _ahead: dict[str, asyncio.Task[None]] = field(init=False, default_factory=dict)
    _values: dict[str, asyncio.Task[str]] = field(init=False, default_factory=dict)
    _renders: dict[str, asyncio.Task[Revision]] = field(init=False, default_factory=dict)

    def __post_init__(self) -> None:
        self.truncated = {addon for addon, record in self.records.items() if record.truncated}

    async def install_addon(self, addon: str) -> Outcome | None:
        """Deliver one addon; return None when all of its objects are in place."""
        chart, values = await self._chart_with_values(addon)
        digest = self.inputs.digest(chart, values)
        if self._is_delivered(addon, digest):
            self.patch.true(AddonCondition.CHART_TEMPLATED)
            return None
        manifests = await self.delivery.manifests(addon) if self._is_recorded(addon, digest) else None
        if manifests is None:
            with self.patch.failing_condition(AddonCondition.CHART_TEMPLATED, Reason.TEMPLATE_NEW_FAILED):
                revision = await self._rendered_revision(chart, values)
            del self._renders[addon]
        else:
            revision = Revision.of(manifests, digest, self.inputs.basis(addon))
        self.patch.true(AddonCondition.CHART_TEMPLATED)
        if addon in self._ahead:
            await self._ahead.pop(addon)
        return await self.install_revision(addon, revision)

    async def install_revision(
        self, addon: str, revision: Revision, abandoned: AbandonedRevision | None = None
    ) -> Outcome | None:
        """Deliver a revision of an addon; return None when all of its objects are in place.

        With ``abandoned`` the revision is an older one that replaces it.
        """
        with self._failing_delivery(), span("apply", addon=addon):
            report = await self.delivery.install(
                addon,
                revision,
                default_namespace=ADDON_NAMESPACE,
                siblings=ReleaseAddons(self.inputs.addons_beside(addon), self._is_current),
                abandoned=abandoned,
            )
        self.changes = merged(self.changes, {addon: applied_changes(self.records.get(addon), report.objects)})
        self.results[addon] = report.objects
        self.overridden_fields += [
            f"{result.id}: {describe_conflicts(result.conflicts)}" for result in report.objects if result.conflicts
        ]
        self.truncated = (self.truncated - {addon}) | ({addon} if report.truncated else set())
        changed = sum(result.changed for result in report.objects)
        failed = sum(not result.synced for result in report.objects)
        self.metrics.count_applied(changed=changed, unchanged=len(report.objects) - changed - failed, failed=failed)
        return None if report.synced else self._not_applied(addon, report.objects)

    async def wanted_inputs(self, addon: str) -> str:
        """Return the digest of all inputs of an addon of the release."""
        return self.inputs.digest(*await self._chart_with_values(addon))

    async def _chart_with_values(self, addon: str) -> tuple[AddonChart, str]:
        patch = self.patch
        with patch.failing_condition(AddonCondition.CHART_FOUND, Reason.CHART_MISSING):
            chart = self.inputs.chart(addon)
        patch.true(AddonCondition.CHART_FOUND)
        with patch.failing_condition(AddonCondition.CHART_TEMPLATED, Reason.TEMPLATE_NEW_OVERWRITE_FAILED):
            return chart, await self._rendered_values(chart)

    def begin_preparation(self, stage: Stage) -> None:
        """Render the addon of a stage and survey the cluster before its turn; ``install_addon`` reports the errors."""
        if stage.action is StageAction.APPLY:
            self._ahead[stage.addon] = asyncio.create_task(self._prepare(stage.addon))

    async def close(self) -> None:
        """Cancel the preparations that no delivery awaits any longer."""
        tasks = [*self._ahead.values(), *self._values.values(), *self._renders.values()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def remove_addon(self, addon: str) -> Outcome | None:
        """Delete all objects of one addon; return None when they are gone."""
        with self.patch.failing_condition(AddonCondition.CHART_DELETED, Reason.FAILED_TO_DELETE_OBJECTS):
            report = await self.delivery.remove(addon)
        self.note_removals(report)
        self.results.pop(addon, None)
        self.records.pop(addon, None)
        return None if report.complete else self.not_deleted(report)

    async def is_current(self) -> bool:
        """Return whether earlier reconciles delivered the same as this one would deliver."""
        earlier = [record for addon, record in self.records.items() if addon not in self.results]
        return all([await self._is_current(record) for record in earlier])

    def are_others_delivered(self) -> bool:
        """Return whether the cluster has an addon, or a chart, that the release does not have for its Kubernetes minor.

        A record without a basis is ignored.
        """
        delivered = {addon: record.basis for addon, record in self.records.items() if record.digest}
        wanted = {addon: self.inputs.basis(addon) for addon in delivered}
        return any(not wanted[addon] or basis not in {"", wanted[addon]} for addon, basis in delivered.items())

    def has_changed(self, stage: Stage) -> bool:
        """Return whether a stage, which is done, may have changed the cluster."""
        results = self.results.get(stage.addon, ())
        return stage.action is StageAction.DELETE or any(result.changed for result in results)

    def not_deleted(self, report: PruneReport) -> Outcome:
        """Report that objects are not deleted yet, or that a record cannot be read."""
        message = describe_remaining(report)
        self.patch.false(AddonCondition.CHART_DELETED, Reason.FAILED_TO_DELETE_OBJECTS, message)
        return Waiting(Reason.FAILED_TO_DELETE_OBJECTS, message)

    def note_removals(self, report: PruneReport) -> None:
        """Note the objects that a prune has deleted or kept, for the history and the event."""
        for removal in report.removals:
            if removal.result.outcome is PruneOutcome.KEPT:
                self.kept.append(f"{removal.id}: {removal.result.reason}")
        self.changes = merged(self.changes, removals(report))

    def keep_records(self, addons: Collection[str]) -> None:
        """Drop the records of all other addons after a prune."""
        self.records = {addon: record for addon, record in self.records.items() if addon in addons}

    def stateful_objects(self, addon: str) -> dict[ObjectId, str]:
        """Return the delivered objects of one addon that can be unhealthy."""
        if addon in self.results:
            return stateful(addon, self.results[addon])
        return stateful(addon, self.records[addon].objects) if addon in self.records else {}

    def all_objects(self) -> dict[ObjectId, str]:
        """Return the objects in the cluster, with their addons."""
        return {
            known.id: addon
            for addon in sorted({*self.records, *self.results})
            for known in (self.results[addon] if addon in self.results else self.records[addon].objects)
        }

    def counts(self) -> dict[str, int]:
        """Return the number of objects of each addon in the cluster."""
        return {
            addon: len(self.results[addon] if addon in self.results else self.records[addon].objects)
            for addon in sorted({*self.records, *self.results})
        }

    def resources(self) -> list[Manifest]:
        """Return ``status.resources``; for an addon without requests, from its record."""
        results: list[ObjectResult] = []
        for addon in sorted({*self.records, *self.results}):
            if addon in self.results:
                results += self.results[addon]
            else:
                results += [ObjectResult(known.id, known.version, synced=True) for known in self.records[addon].objects]
        return entries(results)

    def _is_recorded(self, addon: str, digest: str) -> bool:
        record = self.records.get(addon)
        return record is not None and record.inputs == digest

    def _is_delivered(self, addon: str, digest: str) -> bool:
        if not self._is_recorded(addon, digest) or self.records[addon].state is DeliveryState.DELIVERING:
            return False
        return self.records[addon].abandoned is None and not shares_objects(addon, self.records)

    async def _is_current(self, record: DeliveryRecord) -> bool:
        """Return whether a record holds the revision of the release; False if its addon cannot be rendered."""
        try:
            chart = self.inputs.chart(record.addon)
            values = await self._rendered_values(chart)
        except ClusterStacksError:
            return False
        return record.inputs == self.inputs.digest(chart, values)

    async def _prepare(self, addon: str) -> None:
        with suppress(ClusterStacksError):
            chart = self.inputs.chart(addon)
            values = await self._rendered_values(chart)
            if not self._is_recorded(addon, self.inputs.digest(chart, values)):
                revision = await self._rendered_revision(chart, values)
                await self.delivery.survey(addon, revision, default_namespace=ADDON_NAMESPACE)

    async def _rendered_values(self, chart: AddonChart) -> str:
        return await _once(self._values, chart.name, self.inputs.values(chart))

    async def _rendered_revision(self, chart: AddonChart, values: str) -> Revision:
        return await _once(self._renders, chart.name, self._render(chart, values))

    async def _render(self, chart: AddonChart, values: str) -> Revision:
        with self.metrics.render_seconds.time():
            manifests = await self.inputs.render(chart, values)
        return Revision.of(manifests, self.inputs.digest(chart, values), self.inputs.basis(chart.name))

    @contextmanager
    def _failing_delivery(self) -> Iterator[None]:
        """Set HelmChartApplied to False on an error; some causes have their own reason, which tools can match."""
        try:
            yield
        except ClusterStacksError as error:
            is_specific = error.code in {
                Reason.OBJECT_IN_TWO_ADDONS,
                Reason.OBJECT_CLAIMED_TWICE,
                Reason.WEBHOOK_FAILED,
            }
            severity = Severity.WARNING if isinstance(error, DependencyError) else Severity.ERROR
            reason = error.code if is_specific else Reason.FAILED_TO_APPLY_OBJECTS
            self.patch.false(AddonCondition.CHART_APPLIED, reason, error.message, severity)
            raise

    def _not_applied(self, addon: str, results: Sequence[ObjectResult]) -> Outcome:
        failed = sum(not result.synced for result in results)
        failures = describe_failures(results)
        message = f"{self.inputs.label(addon)}: {failed} of {len(results)} objects not applied: {failures}"
        blocked = any(result.webhook for result in results)
        reason = Reason.WEBHOOK_FAILED if blocked else Reason.OBJECTS_APPLYING_ONGOING
        self.patch.false(AddonCondition.CHART_APPLIED, reason, message)
        return Waiting(reason, message)


async def _once(tasks: dict[str, asyncio.Task[T]], addon: str, work: Coroutine[None, None, T]) -> T:
    if addon in tasks:
        work.close()
    else:
        tasks[addon] = asyncio.create_task(work)
    return await tasks[addon]
