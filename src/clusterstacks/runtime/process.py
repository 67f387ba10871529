"""The operating system process: its services, stop signals and memory limit."""

from __future__ import annotations

import asyncio
import logging
import signal
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Final, TypeAlias

Service: TypeAlias = Callable[[], Awaitable[None]]
"""A part of the process: runs until cancelled, and then cleans up."""

STOP_DEADLINE: Final = timedelta(seconds=25)
"""Below the default terminationGracePeriodSeconds (30 s), and above the stop deadline of a controller (20 s)."""

STOP_SIGNALS: Final = (signal.SIGTERM, signal.SIGINT)

log = logging.getLogger(__name__)


class ServiceEndedError(Exception):
    """A service ended that should run forever; its exception, if any, is the cause."""


async def run_until_signal(services: Mapping[str, Service], *, stop_deadline: timedelta = STOP_DEADLINE) -> None:
    """Run every service as a task until SIGTERM or SIGINT; then cancel all tasks and wait for their end.

    A second signal or the deadline ends the wait: tasks that still run are logged and abandoned. Call it in the main
    thread. A service that ends by itself stops the others and raises ServiceEndedError.
    """
    with _stop_signals() as signalled:
        tasks = [asyncio.create_task(_serve(service), name=name) for name, service in services.items()]
        stop = asyncio.create_task(signalled.wait(), name="stop signal")
        ended: set[asyncio.Task[None]] = set()
        try:
            done, _ = await asyncio.wait([stop, *tasks], return_when=asyncio.FIRST_COMPLETED)
            ended = {task for task in tasks if task in done}
        finally:
            stop.cancel()
            signalled.clear()
            await _stop([task for task in tasks if task not in ended], signalled, stop_deadline)
    for task in ended:
        cause = None if task.cancelled() else task.exception()
        raise ServiceEndedError(f"{task.get_name()} ended unexpectedly") from cause


async def _serve(service: Service) -> None:
    await service()


async def _stop(tasks: Sequence[asyncio.Task[None]], second_signal_event: asyncio.Event, deadline: timedelta) -> None:
    for task in tasks:
        task.cancel()
    second_signal = asyncio.create_task(second_signal_event.wait(), name="second stop signal")
    everything = asyncio.create_task(_wait_for_all(tasks), name="orderly stop")
    await asyncio.wait(
        [everything, second_signal], timeout=deadline.total_seconds(), return_when=asyncio.FIRST_COMPLETED
    )
    everything.cancel()
    second_signal.cancel()
    for task in tasks:
        if not task.done():
            log.error("%s did not end in time and is abandoned", task.get_name())
        elif not task.cancelled() and (error := task.exception()) is not None:
            log.error("%s failed while stopping", task.get_name(), exc_info=error)


async def _wait_for_all(tasks: Sequence[asyncio.Task[None]]) -> None:
    if tasks:
        await asyncio.wait(tasks)


@contextmanager
def _stop_signals() -> Iterator[asyncio.Event]:
    """Convert stop signals into an event while the block runs."""
    loop = asyncio.get_running_loop()
    arrived = asyncio.Event()
    for number in STOP_SIGNALS:
        loop.add_signal_handler(number, arrived.set)
    try:
        yield arrived
    finally:
        for number in STOP_SIGNALS:
            loop.remove_signal_handler(number)


def memory_limit(root: Path = Path("/")) -> int | None:
    """Return the lowest memory limit of the process's control group and its parents in bytes, or None.

    ``root`` contains ``proc`` and ``sys``. Source: cgroups(7), for both versions. In a container, the group's path may
    not be visible; its directory is then the mount point of the file system.
    """
    limits = [limit for file in _limit_files(root) if (limit := _read_limit(file)) is not None]
    return min(limits, default=None)


def _limit_files(root: Path) -> Iterator[Path]:
    try:
        lines = (root / "proc/self/cgroup").read_text().splitlines()
    except OSError:
        return
    for line in lines:
        _, controllers, path = line.split(":", 2)
        if not controllers:
            mount, name = root / "sys/fs/cgroup", "memory.max"
        elif "memory" in controllers.split(","):
            mount, name = root / "sys/fs/cgroup/memory", "memory.limit_in_bytes"
        else:
            continue
        parts = [part for part in path.split("/") if part not in ("", "..")]
        yield from (mount.joinpath(*parts[:count]) / name for count in range(len(parts) + 1))


def _read_limit(file: Path) -> int | None:
    try:
        limit = file.read_text().strip()
    except OSError:
        return None
    # Version 1 reports the largest number of pages if there is no limit.
    return int(limit) if limit.isdigit() and int(limit) < 1 << 60 else None
