from __future__ import annotations

import asyncio
from datetime import timedelta

import pytest

from clusterstacks.runtime.component_health import FAILURE_TOLERANCE, REPEAT_INTERVAL, ComponentHealth, Probes
from clusterstacks.runtime.metrics import Metrics
from tests.support.virtual_time import VirtualClock, in_virtual_time

START = VirtualClock.start.timestamp()


@in_virtual_time
async def test_a_part_that_was_never_used_has_no_problem() -> None:
    health = ComponentHealth(clock=VirtualClock())
    await asyncio.sleep(3600)

    assert health.problem() == ""
    assert not health.is_failing
    assert (health.failing_since, health.last_success) == (0, 0)


@pytest.mark.regression("SEC-14")
@in_virtual_time
async def test_a_failure_counts_once_it_has_lasted() -> None:
    health = ComponentHealth(clock=VirtualClock())
    health.failed("no route")
    await asyncio.sleep(FAILURE_TOLERANCE.total_seconds())
    health.failed("no route")

    assert health.problem() == ""
    await asyncio.sleep(1)
    assert health.problem() == "has failed for 181 s: no route"
    assert health.failing_since == START
    assert health.succeeded()
    assert health.problem() == ""
    assert (health.failing_since, health.last_success) == (0, START + 181)


@in_virtual_time
async def test_a_success_in_between_starts_the_count_again() -> None:
    health = ComponentHealth(clock=VirtualClock(), tolerance=timedelta(seconds=10))
    for _ in range(10):
        health.failed("no route")
        await asyncio.sleep(9)
        health.succeeded()

    assert not health.succeeded()
    health.failed("no route")
    assert health.problem() == ""


@pytest.mark.regression("SEC-14")
@in_virtual_time
async def test_the_same_failure_is_logged_again_later_and_another_immediately() -> None:
    health = ComponentHealth(clock=VirtualClock())
    due = []
    for _ in range(61):
        due.append(health.failed("no route"))
        await asyncio.sleep(REPEAT_INTERVAL.total_seconds() / 30)

    assert [number for number, one in enumerate(due) if one] == [0, 30, 60]
    assert health.failed("refused")
    assert not health.failed("refused")


@in_virtual_time
async def test_health_is_a_metric() -> None:
    metrics, health = Metrics(), ComponentHealth(clock=VirtualClock())
    metrics.watch_health("render workers", health)
    health.failed("no route")

    name = "clusterstacks_failing_since_timestamp_seconds"
    assert metrics.registry.get_sample_value(name, {"part": "render workers"}) == START
    assert b'clusterstacks_last_success_timestamp_seconds{part="render workers"} 0.0' in metrics.expose()


def test_a_process_without_checks_is_alive_and_ready() -> None:
    probes = Probes()

    assert probes.alive().passed
    assert probes.ready().passed


def test_each_check_has_its_line() -> None:
    probes = Probes()
    probes.add_ready("caches", lambda: "")
    probes.add_ready("leader", lambda: "another replica leads")

    assert probes.ready().text == "[+]caches ok\n[-]leader failed: another replica leads\ncheck failed\n"
    assert not probes.ready().passed
    assert probes.alive().passed


def test_a_check_that_fails_itself_counts_as_failed(caplog: pytest.LogCaptureFixture) -> None:
    def broken() -> str:
        raise ZeroDivisionError("secret")

    probes = Probes()
    probes.add_ready("odd", broken)

    assert not probes.ready().passed
    assert "secret" not in probes.ready().text
    assert "Check odd failed with an exception" in caplog.text
