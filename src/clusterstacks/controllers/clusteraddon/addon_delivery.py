"""One addon from its chart into the cluster."""

from __future__ import annotations

import logging
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from clusterstacks.api.names import AddonCondition, Reason
from clusterstacks.apply.delivery import Delivery, Revision, Siblings
from clusterstacks.apply.delivery_plan import DeliveryState, is_taken
from clusterstacks.apply.messages import describe_conflicts
from clusterstacks.apply.prune_plan import Fate
from clusterstacks.apply.results import ObjectResult
from clusterstacks.controllers.clusteraddon.cluster_values import VARIABLE, own_values
from clusterstacks.controllers.clusteraddon.input_digest import input_digest
from clusterstacks.controllers.resource_list import COMPLAINTS_SHOWN, complaints, entries
from clusterstacks.domain.addon_config import StageAction
from clusterstacks.domain.conditions import Severity
from clusterstacks.domain.errors import ClusterStacksError, DependencyError
from clusterstacks.domain.outcomes import Outcome, Waiting
from clusterstacks.render.release_charts import ADDON_NAMESPACE, addon_request, addon_values

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence

    from clusterstacks.apply.delivery_plan import DeliveryRecord
    from clusterstacks.apply.results import PruneReport
    from clusterstacks.charts.chart import AddonChart
    from clusterstacks.controllers.clusteraddon.addon_releases import Sourcing
    from clusterstacks.controllers.clusteraddon.snapshot import ClusterSnapshot
    from clusterstacks.controllers.status_reconciler import StatusPatch
    from clusterstacks.domain.addon_config import Stage
    from clusterstacks.domain.objects import Manifest
    from clusterstacks.kube.client import Client
    from clusterstacks.render.renderer import Renderer
    from clusterstacks.runtime.metrics import Metrics

log = logging.getLogger(__name__)


@dataclass(slots=True, kw_only=True)
class Delivering:
    """The deliveries of one reconcile.

    Args:
        draft: The ClusterAddon.
        seen: What was read.
        sources: The releases its addons come from.
        workload: The workload cluster.
        delivery: The workload cluster's records.
        renderer: Renders charts and values.
        metrics: Counts renders and objects.
        records: What the records said at the beginning.
    """

    draft: StatusPatch
    seen: ClusterSnapshot
    sources: Sourcing
    workload: Client
    delivery: Delivery
    renderer: Renderer
    metrics: Metrics
    records: dict[str, DeliveryRecord]
    results: dict[str, tuple[ObjectResult, ...]] = field(default_factory=dict)
    taken_back: list[str] = field(default_factory=list)
    """Objects whose fields somebody else had set otherwise, and who."""
    truncated: set[str] = field(init=False)
    """Addons whose record holds the inventory only, as their manifests do not fit into a Secret."""

    def __post_init__(self) -> None:
        self.truncated = {addon for addon, record in self.records.items() if record.truncated}

    def label(self, addon: str) -> str:
        """How messages call an addon."""
        return f"addon {addon} of {self.sources.release_of(addon).name}"

    async def apply(self, addon: str) -> Outcome | None:
        """Deliver one addon; None when everything of it is in place.

        Raises:
            SpecError: Chart or values cannot be rendered, or an object can never be applied.
            DependencyError: The cluster or a render worker failed; time may heal it.
        """
        with self.draft.failing_condition(AddonCondition.CHART_FOUND, Reason.CHART_MISSING):
            chart = self.sources.release_of(addon).addon(addon)
        self.draft.true(AddonCondition.CHART_FOUND)
        values = await self._values(chart)
        inputs = input_digest(str(self.seen.minor), chart.digest, values)
        record = self.records.get(addon)
        if self._holds(addon, inputs):
            self.draft.true(AddonCondition.CHART_TEMPLATED)
            return None
        manifests = await self.delivery.manifests(addon) if record is not None and record.inputs == inputs else None
        if manifests is None:
            manifests = await self._render(chart, values)
        self.draft.true(AddonCondition.CHART_TEMPLATED)
        with self._blaming_delivery():
            revision = Revision.of(manifests, inputs)
            siblings = Siblings(self._addons(addon), self._is_current)
            report = await self.delivery.deliver(addon, revision, default_namespace=ADDON_NAMESPACE, siblings=siblings)
        self.results[addon] = report.objects
        self.taken_back += [f"{one.id}: {describe_conflicts(one.contested)}" for one in report.objects if one.contested]
        self.truncated = (self.truncated - {addon}) | ({addon} if report.truncated else set())
        changed = sum(one.changed for one in report.objects)
        failed = sum(not one.synced for one in report.objects)
        self.metrics.count_applied(changed=changed, unchanged=len(report.objects) - changed - failed, failed=failed)
        return None if report.synced else self._failed(addon, report.objects)

    async def remove(self, addon: str) -> Outcome | None:
        """Delete everything of one addon; None when it is gone."""
        with self.draft.failing_condition(AddonCondition.CHART_DELETED, Reason.FAILED_TO_DELETE_OBJECTS):
            report = await self.delivery.remove(addon)
        self.results.pop(addon, None)
        self.records.pop(addon, None)
        return None if report.complete else self.undeleted(report)

    def touched(self, stage: Stage) -> bool:
        """Whether the stage, which is done, may have changed the cluster."""
        return stage.action is StageAction.DELETE or stage.addon in self.results

    def undeleted(self, report: PruneReport) -> Outcome:
        """Wait for objects that refuse to go, or for a record that cannot be read."""
        pending = [str(one.id) for one in report.removals if one.departure.fate is Fate.PENDING]
        message = f"waiting for {_shown(pending)} to be deleted" if pending else _shown([*report.unreadable.values()])
        self.draft.false(AddonCondition.CHART_DELETED, Reason.FAILED_TO_DELETE_OBJECTS, message)
        return Waiting(Reason.FAILED_TO_DELETE_OBJECTS, message)

    def forget_all_but(self, addons: Collection[str]) -> None:
        """Take note that the others were pruned."""
        self.records = {addon: record for addon, record in self.records.items() if addon in addons}

    def counts(self) -> dict[str, int]:
        """Number of objects the cluster has of each addon."""
        return {
            addon: len(self.results[addon] if addon in self.results else self.records[addon].objects)
            for addon in sorted({*self.records, *self.results})
        }

    def resources(self) -> list[Manifest]:
        """``status.resources``: every object of every addon, from the record where nothing was sent (D59)."""
        results: list[ObjectResult] = []
        for addon in sorted({*self.records, *self.results}):
            if addon in self.results:
                results += self.results[addon]
            else:
                results += [ObjectResult(known.id, known.version, synced=True) for known in self.records[addon].objects]
        return entries(results)

    def _addons(self, addon: str) -> Collection[str]:
        config = self.sources.config
        return {addon} if config is None else config.addons()

    async def _is_current(self, record: DeliveryRecord) -> bool:
        """Whether a record is of the revision that the release has; what cannot be rendered is not."""
        try:
            chart = self.sources.release_of(record.addon).addon(record.addon)
            values = await self._rendered_values(chart)
        except ClusterStacksError:
            return False
        return record.inputs == input_digest(str(self.seen.minor), chart.digest, values)

    @contextmanager
    def _blaming_delivery(self) -> Iterator[None]:
        """Set HelmChartApplied to False on an error; some causes have a reason of their own, for tools to look for."""
        try:
            yield
        except ClusterStacksError as error:
            own = error.code in {Reason.OBJECT_IN_TWO_ADDONS, Reason.WEBHOOK_FAILED}
            severity = Severity.WARNING if isinstance(error, DependencyError) else Severity.ERROR
            reason = error.code if own else Reason.FAILED_TO_APPLY_OBJECTS
            self.draft.false(AddonCondition.CHART_APPLIED, reason, error.message, severity)
            raise

    def _holds(self, addon: str, inputs: str) -> bool:
        record = self.records.get(addon)
        if record is None or record.inputs != inputs or record.state is DeliveryState.DELIVERING:
            return False
        return not is_taken(addon, self.records)

    async def _values(self, chart: AddonChart) -> str:
        with self.draft.failing_condition(AddonCondition.CHART_TEMPLATED, Reason.TEMPLATE_NEW_OVERWRITE_FAILED):
            return await self._rendered_values(chart)

    async def _rendered_values(self, chart: AddonChart) -> str:
        label = self.label(chart.name)
        own = own_values(chart.name, self.seen.cluster.raw)
        values = await addon_values(
            self.renderer, chart.values_template, self.seen.data, label=label, file=chart.values_name
        )
        if own is None:
            return values
        return await self.renderer.overlay(values, own, label=f"{label}: {VARIABLE}")

    async def _render(self, chart: AddonChart, values: str) -> list[Manifest]:
        label = self.label(chart.name)
        request = addon_request(chart.chart, label=label, values=values, kubernetes=self.seen.running)
        with (
            self.draft.failing_condition(AddonCondition.CHART_TEMPLATED, Reason.TEMPLATE_NEW_FAILED),
            self.metrics.render_seconds.time(),
        ):
            return await self.renderer.chart(request)

    def _failed(self, addon: str, results: Sequence[ObjectResult]) -> Outcome:
        failed = sum(not result.synced for result in results)
        message = f"{self.label(addon)}: {failed} of {len(results)} objects not applied: {complaints(results)}"
        blocked = any(result.webhook for result in results)
        reason = Reason.WEBHOOK_FAILED if blocked else Reason.OBJECTS_APPLYING_ONGOING
        self.draft.false(AddonCondition.CHART_APPLIED, reason, message)
        return Waiting(reason, message)


def _shown(names: list[str]) -> str:
    more = f", and {len(names) - COMPLAINTS_SHOWN} more" if len(names) > COMPLAINTS_SHOWN else ""
    return ", ".join(names[:COMPLAINTS_SHOWN]) + more
