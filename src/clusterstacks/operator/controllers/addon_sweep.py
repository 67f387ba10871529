"""Sweeps the workload clusters: reads the delivered objects at an interval, and reports their health and drift.

Nothing is written to the management cluster while the state of a cluster does not change: the sweep enqueues the
ClusterAddon only if its report differs from the last one. A cluster is never swept during its rollout.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections import defaultdict
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING, Final, TypeAlias

from clusterstacks.deliver.apply.delivery import RECORD_NAMESPACE, Delivery, RecordOwner
from clusterstacks.deliver.apply.foreign_fields import nothing_ignored
from clusterstacks.deliver.apply.health import HealthReport, judge_health, members_selector, read_health
from clusterstacks.deliver.apply.health_expressions import HealthExpressions
from clusterstacks.deliver.apply.health_rules import has_state
from clusterstacks.deliver.apply.live_members import read_live_members
from clusterstacks.deliver.apply.record_store import ADDON_RECORD, RecordStore, record_name
from clusterstacks.deliver.apply.sweep import Sweep, SweepMemory, lost_records
from clusterstacks.model.drift_settings import DriftMode, DriftSettings
from clusterstacks.model.errors import ClusterStacksError, DependencyError
from clusterstacks.model.kinds.names import AddonCondition, Reason
from clusterstacks.model.objects import rfc3339
from clusterstacks.operator.controllers.addon_health import report_health, report_unread
from clusterstacks.operator.controllers.drift_report import Correction, DriftReport, report_drift
from clusterstacks.operator.controllers.repair_pauses import RepairPauses
from clusterstacks.operator.controllers.workload_clients import ClusterRests

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Mapping, Sequence

    from clusterstacks.deliver.apply.delivery_plan import DeliveryRecord
    from clusterstacks.deliver.apply.sweep import Drift, Render
    from clusterstacks.deliver.render.renderer import Renderer
    from clusterstacks.model.objects import Manifest, ObjectId, ObjectKey
    from clusterstacks.net.kube.client import Client
    from clusterstacks.operator.controllers.status_reconciler import StatusPatch
    from clusterstacks.operator.controllers.workload_clients import Workloads
    from clusterstacks.runtime.clock import Clock
    from clusterstacks.runtime.metrics import Metrics

INTERVAL: Final = timedelta(seconds=60)
"""Interval between two reads of a healthy cluster. Arbitrary: a read is one list per kind, mostly some ten."""

SOON_INTERVAL: Final = timedelta(seconds=15)
"""Interval between two reads of a cluster that is not healthy, so that its recovery is seen soon. Arbitrary."""

UNREACHABLE_LIMIT: Final = timedelta(minutes=5)
"""Longest interval between two probes of a cluster that does not respond; the interval doubles. Arbitrary."""

JITTER: Final = 0.1
"""Part of the interval by which reads are early, so that those of different clusters are spread. Arbitrary."""

RenderAgain: TypeAlias = "Callable[[ObjectKey, ObjectKey, DeliveryRecord], Awaitable[Sequence[Manifest] | None]]"
"""Renders an addon of a ClusterAddon and its Cluster as ``sweep.Render``."""

log = logging.getLogger(__name__)


@dataclass(slots=True)
class _Swept:
    """A cluster that is swept, with its last reports."""

    cluster: ObjectKey
    pauses: RepairPauses[ObjectId]
    expressions: HealthExpressions
    record: str = ""
    """The only record that is swept; empty for all of the cluster."""
    memory: SweepMemory | None = None
    """The delivered objects; None until the delivery records were read."""
    health: HealthReport | None = None
    """None before the first report, and after a failed read."""
    drift: DriftSettings | None = None
    """None while drift is not detected, as during a rollout."""
    request: str = ""
    """A request of a user that is not handled yet; empty for none."""
    handled: str = ""
    delivered: Sequence[Manifest] = ()
    """The addons that the ClusterAddon reports as delivered, as its status has them."""
    found: DriftReport | None = None
    """The last report of the drift; None before the first comparison."""
    failure: str = ""
    """Why the last read failed; empty when it did not."""
    failing_since: str = ""
    """Time of the first of the failures in a row (RFC 3339)."""
    failures: int = 0
    compared_at: float = float("-inf")
    """Time of the last comparison, of the monotonic clock."""
    delayed: bool = False
    """True if the first read after a restart was postponed."""

    @property
    def reported(self) -> tuple[object, ...]:
        """The reported values; the ClusterAddon is enqueued when they change."""
        return self.health, self.found, self.failure, self.handled

    @property
    def lost(self) -> tuple[str, ...]:
        """Why addons must be delivered again."""
        return self.found.lost if self.found is not None else ()

    @property
    def interval(self) -> timedelta:
        """The interval between two reads while the cluster is healthy."""
        drift = self.drift.interval if self.drift is not None else None
        return min(INTERVAL, drift or INTERVAL)

    def is_due(self, now: float) -> bool:
        """Return whether the objects are to be compared at this read, also because a user requested it."""
        if self.drift is None:
            return False
        if self.request:
            return True
        # A part of the interval is missing because reads are early.
        return self.drift.interval is not None and (
            now - self.compared_at >= self.drift.interval.total_seconds() * (1 - 2 * JITTER)
        )

    def time_to_read(self, now: float) -> timedelta:
        """Return the time to the next read; neither health nor comparison may be late."""
        is_healthy = self.health is not None and not self.health.unhealthy
        health = INTERVAL if is_healthy else SOON_INTERVAL
        if self.drift is None or self.drift.interval is None:
            return health
        wait = self.compared_at + self.drift.interval.total_seconds() - now
        return min(health, timedelta(seconds=max(0.0, wait)))


@dataclass(slots=True, kw_only=True)
class AddonSweep:
    """Reads the objects of the addons of all clusters, by ClusterAddon; or those of syncs, by their bindings.

    Args:
        locks: A lock for each cluster, by its key.
        kind: The kind of the records that are swept.
    """

    workloads: Workloads
    clock: Clock
    changed: Callable[[ObjectKey], None]
    """Called with a ClusterAddon whose health or drift differs from before."""
    poll: Callable[[ObjectKey], None]
    """Called with a ClusterAddon that is to be swept soon."""
    metrics: Metrics
    renderer: Renderer
    locks: dict[ObjectKey, asyncio.Lock] = field(default_factory=lambda: defaultdict(asyncio.Lock))
    kind: str = ADDON_RECORD
    at_once: bool = False
    """True if no read is put off: neither the first one, nor while another sweep of the cluster runs."""
    _swept: dict[ObjectKey, _Swept] = field(default_factory=dict, init=False)

    def watch(
        self,
        addon: ObjectKey,
        cluster: ObjectKey,
        objects: Mapping[ObjectId, str] | None = None,
        inputs: Mapping[str, str] | None = None,
        record: str = "",
    ) -> None:
        """Sweep a cluster from now on; ``objects`` (with their addons) are those delivered now, None if unchanged.

        ``inputs`` are the digests of the inputs of the addons that the records of this delivery have. ``record`` is the
        only record that is swept, as that of one sync; empty for all.
        """
        known = self._swept.get(addon)
        if known is None:
            expressions = HealthExpressions(self.renderer.for_object(addon))
            self._swept[addon] = known = _Swept(cluster, RepairPauses(self.clock), expressions, record)
        elif objects is None:
            return
        elif known.memory is not None and known.memory.objects == objects and known.lost == ():
            known.memory.inputs = inputs or {}
            return
        if objects is not None:
            known.memory = SweepMemory(objects, inputs=inputs or {})
            known.health = HealthReport((), 0) if not _stateful(objects) else None
            # The delivery has just compared and restored everything.
            known.found, known.compared_at = DriftReport(()), self.clock.monotonic()
        self.poll(addon)

    def configure(
        self,
        addon: ObjectKey,
        settings: DriftSettings | None,
        request: str = "",
        delivered: Sequence[Manifest] = (),
    ) -> None:
        """Set what is done about drift; None while the addons are rolled out. Unknown ClusterAddons are ignored.

        ``request`` is a user's request to compare all objects at once; empty for none. ``delivered`` are the addons
        that the cluster has completely, as the status of the ClusterAddon has them; each must have its delivery record.
        """
        known = self._swept.get(addon)
        if known is None:
            return
        known.delivered = delivered
        before, known.drift = known.drift, settings
        is_new = request not in ("", known.handled, known.request)
        if request != known.handled:
            known.request = request
        if settings is not None and settings.interval is None and settings != before:
            known.found = None
        is_changed = before is not None and settings not in (None, before)
        if is_changed:
            known.compared_at = float("-inf")
            if known.memory is not None:
                # A difference that was ignored may count now.
                known.memory.forget()
        if is_changed or is_new or (before is None and known.is_due(self.clock.monotonic())):
            self.poll(addon)

    def lost_records(self, addon: ObjectKey) -> tuple[str, ...]:
        """Return why the addons of a cluster must be delivered again, as the last sweep has found; mostly empty."""
        known = self._swept.get(addon)
        return known.lost if known is not None else ()

    def forget(self, addon: ObjectKey) -> None:
        """Stop to sweep a cluster that is deleted, or that must not be written to."""
        known = self._swept.pop(addon, None)
        if known is not None and known.cluster in self.locks and not self.locks[known.cluster].locked():
            del self.locks[known.cluster]

    @asynccontextmanager
    async def rollout(self, cluster: ObjectKey, patience: timedelta | None = None) -> AsyncIterator[None]:
        """Prevent sweeps and other rollouts of a cluster, after the end of a running one: all write records.

        Raises:
            DependencyError: Another one did not end within ``patience``; by default, its end is awaited.
        """
        lock = self.locks[cluster]
        try:
            async with asyncio.timeout(None if patience is None else patience.total_seconds()):
                await lock.acquire()
        except TimeoutError:
            why = f"another delivery to Cluster {cluster} is running, or its API server is slow; this one comes later"
            raise DependencyError(Reason.OBJECTS_APPLYING_ONGOING, why) from None
        try:
            yield
        finally:
            lock.release()

    def failure(self, addon: ObjectKey) -> str:
        """Return why the last sweep of a cluster failed; empty if none did."""
        known = self._swept.get(addon)
        return known.failure if known is not None else ""

    def uncompared(self, addon: ObjectKey) -> str | None:
        """Return why a cluster is not compared with its records; empty if it is, None if it is not swept."""
        known = self._swept.get(addon)
        if known is None or known.drift is None:
            return None
        return known.failure or ("" if known.health is not None else "its objects are not read yet")

    async def read_delivered(self, addon: ObjectKey, client: Client) -> None:
        """Read the health at the end of a rollout: the last report is about the objects before their change."""
        known = self._swept.get(addon)
        if known is None or known.memory is None:
            return
        try:
            stateful = _stateful(known.memory.objects)
            known.health = await read_health(client, stateful, self.clock.now(), known.expressions, self.kind)
        except ClusterStacksError as error:
            known.health = None
            self._failed(known, error)
        else:
            self._responded(known)

    def report(self, patch: StatusPatch) -> HealthReport | None:
        """Set the conditions Healthy and InSync to the last report; return the health, None while there is none."""
        known = self._swept.get(patch.key)
        if known is None:
            return None
        if known.failure:
            patch.unknown(AddonCondition.HEALTHY, Reason.HEALTH_UNKNOWN, known.failure)
        elif known.health is not None:
            report_health(patch, known.health)
        self.report_drift(patch)
        if known.handled:
            patch.status["lastHandledReconcileAt"] = known.handled
        return known.health

    def report_drift(self, patch: StatusPatch) -> None:
        """Set the condition InSync to the last report; while a rollout waits or fails, nothing is compared."""
        known = self._swept.get(patch.key)
        if known is None or known.drift is None:
            why = "objects are compared again when the delivery is complete"
            report_unread(patch, why, self.clock.now(), AddonCondition.IN_SYNC)
            return
        failure = f"not compared since {known.failing_since}: {known.failure}" if known.failure else ""
        report_drift(patch, known.drift, known.found, failure, self.clock.now())

    async def reconcile(self, addon: ObjectKey, render: RenderAgain | None = None) -> timedelta | None:
        """Sweep one cluster; return when to sweep it again.

        ``render`` renders an addon whose manifests are not in its delivery record; None reports its drift only.
        """
        known = self._swept.get(addon)
        if known is None or (known.memory is not None and not known.memory.objects):
            return None
        lock = self.locks[known.cluster]
        if lock.locked() and not self.at_once:
            return _spread(SOON_INTERVAL)
        if known.memory is None and not (known.delayed or known.request or self.at_once):
            # After a restart all clusters come at once, and their conditions are there.
            known.delayed = True
            return known.interval * random.uniform(0.5, 1.5)  # noqa: S311 - not a secret
        before = known.reported
        async with lock:
            try:
                await self._sweep(known, partial(render, addon, known.cluster) if render else None)
            except ClusterRests as error:
                return error.left
            except ClusterStacksError as error:
                self._failed(known, error)
            else:
                self._responded(known)
        if self._swept.get(addon) is known and known.reported != before:
            self.changed(addon)
        return self._next(known)

    def _failed(self, known: _Swept, error: ClusterStacksError) -> None:
        known.failures += 1
        if known.failures == 1:
            known.failing_since = rfc3339(self.clock.now())
            # The first message counts: later ones may contain times, and would be written each time.
            known.failure = error.message
            log.warning("Cluster %s cannot be swept: %s", known.cluster, error)
        if not isinstance(error, DependencyError):
            known.health = None

    def _responded(self, known: _Swept) -> None:
        if known.failures:
            log.info("Cluster %s responds again", known.cluster)
        known.failures, known.failure, known.failing_since = 0, "", ""

    def _next(self, known: _Swept) -> timedelta:
        if known.failures:
            return _spread(min(INTERVAL * 2 ** min(known.failures - 1, 10), UNREACHABLE_LIMIT))
        return _spread(known.time_to_read(self.clock.monotonic()))

    async def _sweep(self, known: _Swept, render: Render | None) -> None:
        # After a failure the kubeconfig may be another one, and the server is probed before anything is listed.
        connect = self.workloads.connect if known.failure else self.workloads.connect_again
        client = await connect(known.cluster)
        memory, settings = known.memory, known.drift
        ignored = settings.ignored_fields if settings is not None else nothing_ignored
        delivery = Delivery(
            client,
            RecordOwner(known.cluster),
            ignored=ignored,
            store=RecordStore(client, RECORD_NAMESPACE, str(known.cluster), kind=self.kind),
        )
        if memory is None:
            records = self._swept_records(known, await delivery.records())
            memory = SweepMemory({ref.id: name for name, record in records.items() for ref in record.objects})
            known.memory = memory
        stateful = _stateful(memory.objects)
        due = settings is not None and known.is_due(self.clock.monotonic())
        request = known.request if due else ""
        if request:
            memory.forget()
            known.pauses.clear()
        read = memory.objects if due else stateful
        lost = await self._lost_records(known, delivery) if due else []
        members = await read_live_members(
            client, read, labels=members_selector(read.values(), self.kind), whole=stateful, known=memory.settled
        )
        if settings is not None and due:
            sweep = Sweep(
                client=client,
                delivery=delivery,
                memory=memory,
                live=members.live,
                everything=bool(request),
                render=render,
            )
            if lost:
                # Nothing is corrected by a record that may be an older one.
                known.found = DriftReport((), known.found.corrections if known.found else (), lost=tuple(lost))
            else:
                await self._compare(known, settings, sweep, memory.suspects(members))
            if request:
                known.handled = request
                known.request = "" if known.request == request else known.request
        is_current = due and known.drift == settings
        if is_current:
            known.compared_at = self.clock.monotonic()
        known.health = await judge_health(client, stateful, members, self.clock.now(), known.expressions)
        if is_current:
            memory.settle(members, [*(ref.id for ref in known.health.unhealthy), *known.expressions.objects])

    async def _lost_records(self, known: _Swept, delivery: Delivery) -> list[str]:
        """Return why the delivery records are not those of the last delivery; they are read only if they changed."""
        memory = known.memory or SweepMemory({})
        required = {record_name(one["name"], self.kind) for one in known.delivered}
        if memory.records:
            versions = await delivery.versions()
            if versions == memory.records and required <= versions.keys():
                return []
        records = self._swept_records(known, await delivery.records())
        lost = lost_records(known.delivered, memory.inputs, records, delivery.unreadable, self.kind)
        if not lost:
            memory.records = delivery.versions_read
            memory.inputs = {addon: record.inputs for addon, record in records.items()}
        return lost

    @staticmethod
    def _swept_records(known: _Swept, records: Mapping[str, DeliveryRecord]) -> Mapping[str, DeliveryRecord]:
        return {name: record for name, record in records.items() if known.record in ("", name)}

    async def _compare(
        self, known: _Swept, settings: DriftSettings, sweep: Sweep, suspects: Collection[ObjectId]
    ) -> None:
        if not suspects:
            known.found = DriftReport((), known.found.corrections if known.found else ())
            return
        drifts = await sweep.find(suspects)
        known.found = await self._corrected(known, settings, sweep, drifts)

    async def _corrected(
        self, known: _Swept, settings: DriftSettings, sweep: Sweep, drifts: list[Drift]
    ) -> DriftReport:
        """Restore what may be restored now; return the report."""
        before = known.found or DriftReport(())
        reported = {drifted.id for drifted in before.open}
        self.metrics.count_drift(found=sum(drift.object.id not in reported for drift in drifts))
        due = [
            drift
            for drift in drifts
            if settings.mode is DriftMode.CORRECT and drift.step is not None and not known.pauses.pause(drift.object.id)
        ]
        restored = await sweep.restore(due) if due else []
        now = rfc3339(self.clock.now())
        corrections = [Correction(drifted, now) for drifted in restored if not drifted.error]
        for drifted in restored:
            known.pauses.repaired(drifted.id)
        self.metrics.count_drift(corrected=len(corrections), failed=len(restored) - len(corrections))
        failed = {drifted.id: drifted for drifted in restored if drifted.error}
        remaining = {drift.object.id: drift.object for drift in drifts} | failed
        contested = frozenset(identity for identity in remaining if known.pauses.is_contested(identity))
        corrected = {correction.object.id for correction in corrections} - contested
        return DriftReport(
            tuple(remaining[identity] for identity in sorted(remaining.keys() - corrected)),
            (*corrections, *before.corrections)[: DriftReport.REMEMBERED],
            contested,
        )


def _stateful(objects: Mapping[ObjectId, str]) -> dict[ObjectId, str]:
    return {identity: addon for identity, addon in objects.items() if has_state(identity.group, identity.kind)}


def _spread(interval: timedelta) -> timedelta:
    return interval * random.uniform(1 - JITTER, 1)  # noqa: S311 - not a secret
