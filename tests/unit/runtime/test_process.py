from __future__ import annotations

import asyncio
import os
import signal
from datetime import timedelta
from typing import TYPE_CHECKING

import pytest

from clusterstacks.runtime.process import STOP_SIGNALS, ServiceEndedError, memory_limit, run_until_signal
from tests.support.virtual_time import in_virtual_time

if TYPE_CHECKING:
    from pathlib import Path


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
    with pytest.raises(ServiceEndedError, match="broken ended unexpectedly") as caught:
        await run_until_signal({"broken": failing, "other": other})

    assert isinstance(caught.value.__cause__, ZeroDivisionError)
    assert other.notes == ["started", "stopped"]


@in_virtual_time
async def test_a_service_that_just_returns_is_a_failure_too() -> None:
    with pytest.raises(ServiceEndedError, match="short ended unexpectedly"):
        await run_until_signal({"short": lambda: asyncio.sleep(1)})


@in_virtual_time
async def test_a_service_that_does_not_stop_in_time_is_abandoned(caplog: pytest.LogCaptureFixture) -> None:
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

    assert "clumsy failed while stopping" in caplog.text
    assert "ZeroDivisionError: while stopping" in caplog.text


@in_virtual_time
async def test_cancelling_it_stops_the_services_too() -> None:
    service = Recorder()
    task = asyncio.create_task(run_until_signal({"one": service}))
    await asyncio.sleep(1)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)

    assert service.notes == ["started", "stopped"]


V1_UNLIMITED = "9223372036854771712\n"


@pytest.mark.parametrize(
    ("cgroup", "files", "limit"),
    [
        ("0::/\n", {"memory.max": "262144000\n"}, 262144000),
        ("0::/kubepods/pod1/c\n", {"kubepods/pod1/memory.max": "100\n", "kubepods/pod1/c/memory.max": "max\n"}, 100),
        ("0::/../../c\n", {"c/memory.max": "100\n", "memory.max": "200\n"}, 100),
        ("0::/\n", {}, None),
        ("0::/\n", {"memory.max": "max\n"}, None),
        ("4:memory:/pod/c\n", {"memory/memory.limit_in_bytes": "300\n"}, 300),
        ("4:cpu,memory:/c\n", {"memory/c/memory.limit_in_bytes": V1_UNLIMITED}, None),
        ("1:cpu:/c\n", {"memory/c/memory.limit_in_bytes": "300\n"}, None),
    ],
)
def test_the_lowest_limit_counts(tmp_path: Path, cgroup: str, files: dict[str, str], limit: int | None) -> None:
    for name, text in {"proc/self/cgroup": cgroup, **{f"sys/fs/cgroup/{file}": files[file] for file in files}}.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)

    assert memory_limit(tmp_path) == limit


def test_memory_limit_is_unknown_without_cgroup_files(tmp_path: Path) -> None:
    assert memory_limit(tmp_path) is None
