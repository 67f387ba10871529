from __future__ import annotations

from datetime import timedelta
from itertools import pairwise
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import pytest

from clusterstacks.deliver.apply.delivery_plan import DeliveryRecord, DeliveryState
from clusterstacks.deliver.apply.live_members import LiveMembers
from clusterstacks.deliver.render.renderer import Renderer
from clusterstacks.model.drift_settings import DriftSettings
from clusterstacks.model.errors import DependencyError
from clusterstacks.model.objects import ObjectId, ObjectKey
from clusterstacks.operator.controllers import addon_sweep
from clusterstacks.operator.controllers.addon_sweep import (
    INTERVAL,
    JITTER,
    SOON_INTERVAL,
    UNREACHABLE_LIMIT,
    AddonSweep,
)
from clusterstacks.operator.controllers.status_reconciler import StatusPatch
from clusterstacks.operator.controllers.workload_clients import WorkloadNotReachable
from clusterstacks.runtime.metrics import Metrics
from tests.support.virtual_time import VirtualClock, in_virtual_time
from tests.unit.operator.controllers.test_addon_health import GOOD, ill, patch

if TYPE_CHECKING:
    from collections.abc import Mapping

    from clusterstacks.deliver.apply.health import HealthReport

ADDON, CLUSTER = ObjectKey("team", "cluster-addon-one"), ObjectKey("team", "one")
DNS = ObjectId("apps", "Deployment", "kube-system", "dns")
SETTINGS = ObjectId("", "ConfigMap", "kube-system", "settings")


class ScriptedWorkloads:
    """Counts the connections; a scripted failure is raised once."""

    def __init__(self) -> None:
        self.fresh = self.again = 0
        self.failures: list[Exception] = []

    async def connect(self, _: ObjectKey) -> None:
        self.fresh += 1
        self._fail()

    async def connect_again(self, _: ObjectKey) -> None:
        self.again += 1
        self._fail()

    def _fail(self) -> None:
        if self.failures:
            raise self.failures.pop()


class Poll:
    """An AddonSweep whose reads are scripted, and what it enqueued."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.changed: list[ObjectKey] = []
        self.polled: list[ObjectKey] = []
        self.reports: list[HealthReport] = []
        self.read: list[set[ObjectId]] = []
        self.workloads = ScriptedWorkloads()
        self.clock = VirtualClock()
        scripted: Any = self.workloads
        self.sweep = AddonSweep(
            workloads=scripted,
            clock=self.clock,
            changed=self.changed.append,
            poll=self.polled.append,
            metrics=Metrics(),
            renderer=Renderer(),
        )

        async def judge(*_: object) -> HealthReport:
            return self.reports.pop(0) if self.reports else GOOD

        async def members(_: object, objects: Any, **__: object) -> LiveMembers:
            self.read.append(set(objects))
            return LiveMembers({one: {"metadata": {"uid": str(one), "generation": 1}} for one in objects}, {})

        class Records:
            unreadable: Mapping[str, str] = MappingProxyType({})
            versions_read: Mapping[str, str] = MappingProxyType({})

            def __init__(self, *_: object, **__: object) -> None:
                pass

            async def records(self) -> dict[str, DeliveryRecord]:
                return {}

            async def versions(self) -> dict[str, str]:
                return {}

        monkeypatch.setattr(addon_sweep, "judge_health", judge)
        monkeypatch.setattr(addon_sweep, "read_live_members", members)
        monkeypatch.setattr(addon_sweep, "Delivery", Records)
        monkeypatch.setattr("clusterstacks.deliver.apply.sweep.Sweep.find", self.find)
        self.compared: list[set[ObjectId]] = []

    async def find(self, suspects: dict[ObjectId, bytes]) -> list[object]:
        self.compared.append(set(suspects))
        return []

    async def reconcile(self) -> timedelta:
        delay = await self.sweep.reconcile(ADDON)
        assert delay is not None
        return delay


@pytest.fixture
def poll(monkeypatch: pytest.MonkeyPatch) -> Poll:
    return Poll(monkeypatch)


def near(delay: timedelta, interval: timedelta) -> bool:
    return 1 - JITTER <= delay / interval <= 1


async def test_only_a_changed_report_enqueues_the_cluster_addon(poll: Poll) -> None:
    poll.sweep.watch(ADDON, CLUSTER, {DNS: "dns"})
    assert poll.polled == [ADDON]
    poll.reports = [GOOD, GOOD, ill(), ill(), GOOD]

    numbers = []
    for _ in range(5):
        await poll.reconcile()
        numbers.append(len(poll.changed))

    assert numbers == [1, 1, 2, 2, 3]


async def test_a_healthy_cluster_is_read_less_often(poll: Poll) -> None:
    poll.sweep.watch(ADDON, CLUSTER, {DNS: "dns"})
    poll.reports = [GOOD, ill()]

    assert near(await poll.reconcile(), INTERVAL)
    assert near(await poll.reconcile(), SOON_INTERVAL)


@pytest.mark.regression("LIVE-LV-5")
async def test_live_lv_5_a_cluster_is_not_in_sync_while_a_delivery_waits_or_fails(poll: Poll) -> None:
    since = "2026-01-02T03:04:05Z"
    poll.sweep.watch(ADDON, CLUSTER, {SETTINGS: "dns"})
    poll.sweep.configure(ADDON, DriftSettings(timedelta(minutes=5)))
    compared, waiting = patch(type="InSync"), patch(type="InSync")
    later = patch(type="InSync", status="Unknown", lastTransitionTime=since)
    poll.sweep.report_drift(compared)
    assert compared.holds("InSync")

    poll.sweep.configure(ADDON, None)
    for one in (waiting, later):
        poll.sweep.report_drift(one)
    condition = waiting.condition("InSync")

    assert condition is not None
    assert (condition.status, condition.reason) == ("Unknown", "DriftUnknown")
    assert condition.message.startswith("not compared since 20")
    condition = later.condition("InSync")
    assert condition is not None
    assert condition.message.startswith(f"not compared since {since}: ")

    absent = patch()
    poll.sweep.report_drift(absent)
    assert absent.condition("InSync") is None


@in_virtual_time
async def test_health_and_drift_share_one_read_and_keep_their_intervals(poll: Poll) -> None:
    poll.sweep.watch(ADDON, CLUSTER, {DNS: "dns", SETTINGS: "dns"})
    poll.sweep.configure(ADDON, DriftSettings(timedelta(minutes=5)))

    for _ in range(11):
        await poll.clock.sleep((await poll.reconcile()).total_seconds())

    both = [one == {DNS, SETTINGS} for one in poll.read]
    assert not both[0]
    assert sum(both) == 2
    assert {DNS} in poll.read


@pytest.mark.parametrize("health", [GOOD, ill()], ids=["healthy", "not healthy"])
@pytest.mark.parametrize("seconds", [10, 20, 45, 60, 61, 70, 90, 300, 3600])
@in_virtual_time
async def test_drift_is_looked_for_once_within_each_interval(poll: Poll, seconds: int, health: HealthReport) -> None:
    poll.sweep.watch(ADDON, CLUSTER, {DNS: "dns", SETTINGS: "dns"})
    poll.sweep.configure(ADDON, DriftSettings(timedelta(seconds=seconds)))
    poll.reports = [health] * 2000
    compared = [poll.clock.monotonic()]

    while len(compared) < 6:
        delay = await poll.reconcile()
        if SETTINGS in poll.read[-1]:
            compared.append(poll.clock.monotonic())
        await poll.clock.sleep(delay.total_seconds())

    gaps = [later - earlier for earlier, later in pairwise(compared)]
    assert (1 - 2 * JITTER) * seconds <= min(gaps)
    assert max(gaps) == pytest.approx(seconds) or max(gaps) < seconds


async def test_without_settings_and_with_the_interval_off_only_the_health_is_read(poll: Poll) -> None:
    poll.sweep.watch(ADDON, CLUSTER, {DNS: "dns", SETTINGS: "dns"})
    await poll.reconcile()
    poll.sweep.configure(ADDON, DriftSettings(None))
    await poll.reconcile()
    assert poll.read == [{DNS}, {DNS}]
    assert poll.compared == []


async def test_a_request_compares_all_objects_once_also_with_the_interval_off(poll: Poll) -> None:
    poll.sweep.watch(ADDON, CLUSTER, {DNS: "dns", SETTINGS: "dns"})
    poll.sweep.configure(ADDON, DriftSettings(None), "now")
    for _ in range(2):
        await poll.reconcile()

    assert poll.compared == [{DNS, SETTINGS}]
    reported = patch()
    poll.sweep.report(reported)
    assert reported.status["lastHandledReconcileAt"] == "now"

    poll.sweep.configure(ADDON, DriftSettings(None), "now")
    await poll.reconcile()
    assert len(poll.compared) == 1


async def test_a_cluster_is_not_read_during_its_rollout_nor_after_its_end(poll: Poll) -> None:
    poll.sweep.watch(ADDON, CLUSTER, {DNS: "dns"})
    async with poll.sweep.rollout(CLUSTER):
        await poll.reconcile()
    assert poll.workloads.again == 0

    poll.sweep.forget(ADDON)
    assert await poll.sweep.reconcile(ADDON) is None


async def test_the_same_objects_are_not_read_anew_and_others_are(poll: Poll) -> None:
    poll.sweep.watch(ADDON, CLUSTER, {DNS: "dns"})
    poll.sweep.watch(ADDON, CLUSTER)
    poll.sweep.watch(ADDON, CLUSTER, {DNS: "dns"})
    assert poll.polled == [ADDON]

    poll.sweep.watch(ADDON, CLUSTER, {DNS: "other"})
    assert poll.polled == [ADDON, ADDON]


async def test_addons_without_objects_that_can_be_unhealthy_are_healthy_without_a_read(poll: Poll) -> None:
    poll.sweep.watch(ADDON, CLUSTER, {})

    assert await poll.sweep.reconcile(ADDON) is None
    delivered = patch()
    poll.sweep.report(delivered)
    assert delivered.holds("Healthy")
    assert not poll.changed


async def test_the_first_reads_after_a_restart_are_spread_over_a_minute(
    poll: Poll, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def records(_: object) -> dict[str, DeliveryRecord]:
        return {"dns": DeliveryRecord("dns", "", "", DeliveryState.PRUNED)}

    monkeypatch.setattr("clusterstacks.operator.controllers.addon_sweep.Delivery.records", records)
    poll.sweep.watch(ADDON, CLUSTER)

    delay = await poll.reconcile()
    assert INTERVAL / 2 <= delay <= INTERVAL * 1.5
    assert poll.workloads.again == 0

    await poll.reconcile()
    assert poll.workloads.again == 1
    assert poll.changed == [ADDON]


async def test_a_failure_is_reported_once_and_the_next_read_connects_anew(poll: Poll) -> None:
    poll.sweep.watch(ADDON, CLUSTER, {DNS: "dns"})
    poll.sweep.configure(ADDON, DriftSettings())
    await poll.reconcile()
    poll.workloads.failures = [WorkloadNotReachable("in 3 s"), WorkloadNotReachable("in 4 s")]
    for _ in range(2):
        await poll.reconcile()
    assert len(poll.changed) == 2
    failing = patch()
    assert poll.sweep.report(failing) == GOOD
    conditions = {kind: failing.condition(kind) for kind in ("Healthy", "InSync")}
    assert {kind: (one.status, one.reason) for kind, one in conditions.items() if one} == {
        "Healthy": ("Unknown", "HealthUnknown"),
        "InSync": ("Unknown", "DriftUnknown"),
    }
    assert conditions["InSync"] is not None
    assert conditions["InSync"].message.startswith("not compared since 20")

    await poll.reconcile()

    assert len(poll.changed) == 3
    assert (poll.workloads.again, poll.workloads.fresh) == (2, 2)
    recovered = patch()
    poll.sweep.report(recovered)
    assert recovered.holds("Healthy")
    assert recovered.holds("InSync")


async def test_a_cluster_that_does_not_respond_is_probed_at_growing_intervals_with_one_log_line(
    poll: Poll, caplog: pytest.LogCaptureFixture
) -> None:
    poll.sweep.watch(ADDON, CLUSTER, {DNS: "dns"})
    poll.workloads.failures = [WorkloadNotReachable("connection refused") for _ in range(6)]

    delays = [await poll.reconcile() for _ in range(6)]

    assert near(delays[0], INTERVAL)
    assert near(delays[1], 2 * INTERVAL)
    assert near(delays[5], UNREACHABLE_LIMIT)
    assert [one.levelname for one in caplog.records] == ["WARNING"]
    assert poll.read == []


def test_a_report_of_an_unknown_cluster_changes_nothing(poll: Poll) -> None:
    unknown = StatusPatch({"metadata": {"namespace": "team", "name": "other"}})

    assert poll.sweep.report(unknown) is None
    poll.sweep.configure(ObjectKey("team", "other"), DriftSettings())
    assert poll.polled == []


@in_virtual_time
async def test_rollout_with_patience_leaves_a_cluster_that_another_one_holds(poll: Poll) -> None:
    patience = timedelta(seconds=2)
    entered = []
    async with poll.sweep.rollout(CLUSTER):
        for _ in range(2):
            with pytest.raises(DependencyError, match="another delivery to Cluster team/one is running"):
                async with poll.sweep.rollout(CLUSTER, patience):
                    entered.append(CLUSTER)
        async with poll.sweep.rollout(ObjectKey("team", "two"), patience):
            entered.append(ObjectKey("team", "two"))
    async with poll.sweep.rollout(CLUSTER, patience):
        entered.append(CLUSTER)

    assert entered == [ObjectKey("team", "two"), CLUSTER]
