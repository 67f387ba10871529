from __future__ import annotations

import asyncio
import logging
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import TYPE_CHECKING

import pytest

from clusterstacks.model.errors import DependencyError, SpecError
from clusterstacks.model.objects import ObjectKey
from clusterstacks.model.outcomes import Stalled
from clusterstacks.runtime.controller import RECONCILE_DEADLINE, SPEC_RECHECK, STOP_DEADLINE, Controller
from clusterstacks.runtime.log_format import JsonFormatter
from clusterstacks.runtime.metrics import Metrics
from tests.support.virtual_time import VirtualClock, in_virtual_time

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from clusterstacks.runtime.controller import Reconcile

ONE, TWO = ObjectKey("ns", "one"), ObjectKey("ns", "two")


def host_of(reconcile: Reconcile, workers: int = 2, metrics: Metrics | None = None) -> Controller:
    return Controller("widget", reconcile, workers=workers, metrics=metrics or Metrics(), clock=VirtualClock())


@asynccontextmanager
async def running(host: Controller) -> AsyncIterator[asyncio.Task[None]]:
    task = asyncio.create_task(host.run())
    try:
        yield task
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


class Reconciler:
    """Notes when it was called; raises or returns what it is told, then succeeds."""

    def __init__(self, *answers: timedelta | Stalled | BaseException | None) -> None:
        self.answers = list(answers)
        self.calls: list[tuple[str, int]] = []

    async def __call__(self, key: ObjectKey) -> timedelta | Stalled | None:
        self.calls.append((key.name, int(asyncio.get_running_loop().time())))
        answer = self.answers.pop(0) if self.answers else None
        if isinstance(answer, BaseException):
            raise answer
        return answer


@in_virtual_time
async def test_object_is_reconciled_again_after_the_returned_time() -> None:
    reconcile = Reconciler(timedelta(seconds=30), timedelta(minutes=10))
    host = host_of(reconcile)
    host.enqueue(ONE)
    async with running(host):
        await asyncio.sleep(3600)

    assert reconcile.calls == [("one", 0), ("one", 30), ("one", 630)]


@pytest.mark.regression("LIVE-M1")
@in_virtual_time
async def test_a_stalled_object_is_counted_as_such_and_logged_once_for_each_reason(
    caplog: pytest.LogCaptureFixture,
) -> None:
    metrics = Metrics()
    first, second = Stalled("RecordUnreadable", "the record is damaged"), Stalled("TemplateFailed", "no value")
    reconcile = Reconciler(first, first, first, second, None)
    host = host_of(reconcile, metrics=metrics)
    host.enqueue(ONE)
    async with running(host):
        await asyncio.sleep(SPEC_RECHECK.total_seconds() * 3 + 1)
        text = metrics.expose().decode()
        assert 'clusterstacks_reconcile_total{controller="widget",result="stalled"} 4.0' in text
        assert 'clusterstacks_reconcile_total{controller="widget",result="success"} 0.0' in text
        assert 'clusterstacks_stalled_objects{controller="widget"} 1.0' in text
        await asyncio.sleep(SPEC_RECHECK.total_seconds())

    assert [record.getMessage() for record in caplog.records] == [
        "Stalled until a person acts: RecordUnreadable: the record is damaged",
        "Stalled until a person acts: TemplateFailed: no value",
    ]
    assert 'clusterstacks_stalled_objects{controller="widget"} 0.0' in metrics.expose().decode()


@in_virtual_time
async def test_a_bug_is_logged_with_its_trace_counted_and_retried_with_growing_pauses(
    caplog: pytest.LogCaptureFixture,
) -> None:
    metrics = Metrics()
    reconcile = Reconciler(*[ZeroDivisionError("oops")] * 4)
    host = host_of(reconcile, metrics=metrics)
    host.enqueue(ONE)
    async with running(host):
        await asyncio.sleep(60)

    pauses = [after - before for (_, before), (_, after) in zip(reconcile.calls, reconcile.calls[1:], strict=False)]
    assert [pause >= nominal for pause, nominal in zip(pauses, (1, 2, 4, 8), strict=True)] == [True] * 4
    assert caplog.text.count("ZeroDivisionError: oops") == 4
    assert value(metrics, "clusterstacks_reconcile_total", result="bug") == 4
    assert value(metrics, "clusterstacks_reconcile_total", result="success") == 1


@in_virtual_time
async def test_a_failed_dependency_is_one_line_in_the_log_and_backs_off_from_its_own_wait(
    caplog: pytest.LogCaptureFixture,
) -> None:
    metrics = Metrics()
    reconcile = Reconciler(*[DependencyError("Unreachable", "cluster ns/one: no route")] * 2)
    host = host_of(reconcile, metrics=metrics)
    host.enqueue(ONE)
    async with running(host):
        await asyncio.sleep(100)

    times = [time for _, time in reconcile.calls]
    assert times[0] == 0
    assert 10 <= times[1] <= 12.5
    assert 20 <= times[2] - times[1] <= 25
    assert [record.exc_info for record in caplog.records] == [None, None]
    assert "cluster ns/one: no route" in caplog.text
    assert value(metrics, "clusterstacks_reconcile_total", result="error") == 2


@in_virtual_time
async def test_a_success_ends_the_back_off() -> None:
    reconcile = Reconciler(*[ValueError()] * 5, timedelta(seconds=100), ValueError())
    host = host_of(reconcile)
    host.enqueue(ONE)
    async with running(host):
        await asyncio.sleep(300)

    (_, failed), (_, retried) = reconcile.calls[-2:]
    assert retried - failed <= 2


@pytest.mark.parametrize("error", [ValueError("bug"), SpecError("Bad", "edit it"), asyncio.CancelledError()])
def test_a_failing_object_does_not_stop_the_others(error: BaseException) -> None:
    async def reconcile(key: ObjectKey) -> None:
        if key == ONE:
            raise error
        healthy.append(key)

    @in_virtual_time
    async def check() -> None:
        host = host_of(reconcile, workers=1)
        async with running(host) as task:
            for _ in range(5):
                host.enqueue(ONE)
                host.enqueue(TWO)
                await asyncio.sleep(200)
            assert not task.done()

    healthy: list[ObjectKey] = []
    check()
    assert healthy == [TWO] * 5


@in_virtual_time
async def test_a_slow_object_holds_one_worker_and_never_runs_twice_at_once() -> None:
    active = {ONE: 0, TWO: 0}
    finished: list[ObjectKey] = []

    async def reconcile(key: ObjectKey) -> None:
        active[key] += 1
        assert active[key] == 1
        await asyncio.sleep(100 if key == ONE else 1)
        active[key] -= 1
        finished.append(key)

    host = host_of(reconcile, workers=2)
    async with running(host):
        for _ in range(10):
            host.enqueue(ONE)
            host.enqueue(TWO)
            await asyncio.sleep(5)
        await asyncio.sleep(300)

    assert finished.count(TWO) == 10
    assert finished.count(ONE) == 2  # the nine wishes during the first run became one


@in_virtual_time
async def test_a_reconcile_that_hangs_is_ended_as_a_bug(caplog: pytest.LogCaptureFixture) -> None:
    async def reconcile(key: ObjectKey) -> None:
        if key == ONE:
            await asyncio.Event().wait()
        reached.append(key)

    reached: list[ObjectKey] = []
    host = host_of(reconcile, workers=1)
    host.enqueue(ONE)
    host.enqueue(TWO)
    async with running(host):
        await asyncio.sleep(RECONCILE_DEADLINE.total_seconds() + 0.5)

    assert reached == [TWO]
    assert "TimeoutError" in caplog.text


@in_virtual_time
async def test_stopping_lets_a_reconcile_end_and_begins_no_other() -> None:
    finished: list[ObjectKey] = []

    async def reconcile(key: ObjectKey) -> timedelta:
        await asyncio.sleep(10)
        finished.append(key)
        return timedelta(seconds=1)

    host = host_of(reconcile, workers=1)
    host.enqueue(ONE)
    host.enqueue(TWO)
    async with running(host) as task:
        await asyncio.sleep(1)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    assert finished == [ONE]
    assert asyncio.get_running_loop().time() == pytest.approx(10, abs=0.1)


@in_virtual_time
async def test_a_reconcile_that_does_not_end_in_time_is_cancelled(caplog: pytest.LogCaptureFixture) -> None:
    cancelled: list[ObjectKey] = []

    async def reconcile(key: ObjectKey) -> None:
        try:
            await asyncio.sleep(300)
        except asyncio.CancelledError:
            cancelled.append(key)
            raise

    host = host_of(reconcile)
    host.enqueue(ONE)
    async with running(host) as task:
        await asyncio.sleep(1)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)

    assert cancelled == [ONE]
    assert asyncio.get_running_loop().time() == pytest.approx(1 + STOP_DEADLINE.total_seconds(), abs=0.1)
    assert "1 reconciles did not end" in caplog.text


@in_virtual_time
async def test_a_second_cancellation_ends_the_waiting() -> None:
    host = host_of(lambda _: asyncio.sleep(300))
    host.enqueue(ONE)
    async with running(host) as task:
        for _ in range(2):
            await asyncio.sleep(1)
            task.cancel()
        await asyncio.gather(task, return_exceptions=True)

    assert asyncio.get_running_loop().time() == pytest.approx(2, abs=0.1)


@in_virtual_time
async def test_keys_from_before_the_start_are_kept() -> None:
    reconcile = Reconciler()
    host = host_of(reconcile)
    host.enqueue(ONE)
    host.queue.add_after(TWO, timedelta(seconds=5))
    await asyncio.sleep(60)
    async with running(host):
        await asyncio.sleep(1)

    assert reconcile.calls == [("one", 60), ("two", 60)]


@in_virtual_time
async def test_lines_logged_by_a_reconcile_name_controller_and_object() -> None:
    lines: list[str] = []

    async def reconcile(key: ObjectKey) -> None:  # noqa: ARG001
        lines.append(JsonFormatter().format(logging.makeLogRecord({"msg": "hello", "levelname": "INFO"})))

    host = host_of(reconcile)
    host.enqueue(ONE)
    async with running(host):
        await asyncio.sleep(1)

    assert '"controller":"widget","object":"ns/one"' in lines[0]


@in_virtual_time
async def test_queue_depth_busy_workers_and_durations_are_measured() -> None:
    metrics = Metrics()
    host = host_of(lambda _: asyncio.sleep(10), workers=1, metrics=metrics)
    host.enqueue(ONE)
    host.enqueue(TWO)
    async with running(host):
        await asyncio.sleep(5)
        assert value(metrics, "clusterstacks_queue_depth") == 1
        assert value(metrics, "clusterstacks_workers_busy") == 1
        assert value(metrics, "clusterstacks_max_concurrent_reconciles") == 1
        metrics.measure()
        assert value(metrics, "clusterstacks_longest_running_reconcile_seconds") == pytest.approx(5, abs=0.1)
        assert value(metrics, "clusterstacks_running_reconciles_seconds") == pytest.approx(5, abs=0.1)
        assert value(metrics, "clusterstacks_queue_oldest_wait_seconds") == pytest.approx(5, abs=0.1)
        await asyncio.sleep(20)
        metrics.measure()
        assert value(metrics, "clusterstacks_longest_running_reconcile_seconds") == 0
        assert value(metrics, "clusterstacks_queue_oldest_wait_seconds") == 0
        assert value(metrics, "clusterstacks_queue_added_total") == 2
        assert value(metrics, "clusterstacks_queue_wait_seconds_sum") == pytest.approx(10, abs=0.1)
        assert value(metrics, "clusterstacks_queue_depth") == 0
        assert value(metrics, "clusterstacks_workers_busy") == 0
        assert value(metrics, "clusterstacks_reconcile_seconds_sum") == pytest.approx(20, abs=0.1)


def value(metrics: Metrics, name: str, **labels: str) -> float | None:
    return metrics.registry.get_sample_value(name, {"controller": "widget", **labels})


@in_virtual_time
async def test_spec_error_is_not_a_bug_and_is_reconciled_again(caplog: pytest.LogCaptureFixture) -> None:
    metrics = Metrics()
    reconcile = Reconciler(SpecError("Bad", "edit it"))
    host = host_of(reconcile, metrics=metrics)
    host.enqueue(ONE)
    async with running(host):
        await asyncio.sleep(3600)

    assert reconcile.calls == [("one", 0), ("one", 300)]
    assert [record.message for record in caplog.records] == ["edit it"]
    assert value(metrics, "clusterstacks_reconcile_total", result="error") == 1
    assert value(metrics, "clusterstacks_reconcile_total", result="bug") == 0
