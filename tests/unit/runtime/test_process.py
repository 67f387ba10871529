from __future__ import annotations

import asyncio
import os
import signal
from datetime import timedelta

import pytest

from clusterstacks.runtime.process import STOP_SIGNALS, ServiceEndedError, run_until_signal
from tests.support.virtual_time import in_virtual_time


class Recorder:
    """A service that notes how it lived and takes its time to stop."""

    def __init__(self, stop_seconds: float = 0) -> None:
        self.notes: list[str] = []
        self._stop_seconds = stop_seconds

    async def __call__(self) -> None:
        self.notes.append("started")
        try:
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(self._stop_seconds)
            self.notes.append("stopped")


def signal_after(seconds: float, number: int = signal.SIGTERM) -> None:
    asyncio.get_running_loop().call_later(seconds, os.kill, os.getpid(), number)


def now() -> float:
    return round(asyncio.get_running_loop().time(), 1)


@pytest.mark.parametrize("number", STOP_SIGNALS)
def test_a_signal_stops_every_service_in_order(number: int) -> None:
    @in_virtual_time
    async def check() -> None:
        signal_after(100, number)
        await run_until_signal({"one": services[0], "two": services[1]})

    services = [Recorder(stop_seconds=5), Recorder()]
    check()
    assert [service.notes for service in services] == [["started", "stopped"]] * 2


@in_virtual_time
async def test_the_handlers_are_gone_afterwards() -> None:
    signal_after(1)
    await run_until_signal({"one": Recorder()})

    assert not any(asyncio.get_running_loop().remove_signal_handler(number) for number in STOP_SIGNALS)


@in_virtual_time
async def test_a_service_that_fails_stops_the_others_and_is_named() -> None:
    async def failing() -> None:
        await asyncio.sleep(10)
        raise ZeroDivisionError("oops")

    other = Recorder()
    with pytest.raises(ServiceEndedError, match="broken ended by itself") as caught:
        await run_until_signal({"broken": failing, "other": other})

    assert isinstance(caught.value.__cause__, ZeroDivisionError)
    assert other.notes == ["started", "stopped"]


@in_virtual_time
async def test_a_service_that_just_returns_is_a_failure_too() -> None:
    with pytest.raises(ServiceEndedError, match="short ended by itself"):
        await run_until_signal({"short": lambda: asyncio.sleep(1)})


@in_virtual_time
async def test_a_service_that_does_not_stop_in_time_is_left_behind(caplog: pytest.LogCaptureFixture) -> None:
    signal_after(1)
    await run_until_signal({"slow": Recorder(stop_seconds=500)}, stop_deadline=timedelta(seconds=20))

    assert now() == 21
    assert "slow did not end in time" in caplog.text


@in_virtual_time
async def test_a_second_signal_ends_the_waiting() -> None:
    signal_after(1)
    signal_after(3)
    await run_until_signal({"slow": Recorder(stop_seconds=500)})

    assert now() == 3


@in_virtual_time
async def test_a_failure_while_stopping_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    async def clumsy() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            raise ZeroDivisionError("while stopping")

    signal_after(1)
    await run_until_signal({"clumsy": clumsy})

    assert "clumsy failed while it stopped" in caplog.text
    assert "ZeroDivisionError: while stopping" in caplog.text


@in_virtual_time
async def test_cancelling_it_stops_the_services_too() -> None:
    service = Recorder()
    task = asyncio.create_task(run_until_signal({"one": service}))
    await asyncio.sleep(1)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)

    assert service.notes == ["started", "stopped"]
