"""Runs the parts of the process side by side until it is told to stop or one of them ends."""

from __future__ import annotations

import asyncio
import logging
import signal
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Iterator

Service: TypeAlias = Callable[[], Awaitable[None]]
"""A part of the process: runs until cancelled, and cleans up after itself then."""

STOP_DEADLINE: Final = timedelta(seconds=25)
"""Source: a pod has 30 s for its end by default (terminationGracePeriodSeconds), a reconciler host takes up to 20."""

STOP_SIGNALS: Final = (signal.SIGTERM, signal.SIGINT)

log = logging.getLogger(__name__)


class ServiceEndedError(Exception):
    """A part that should run for ever ended; what it raised, if anything, is the cause."""


async def run_until_signal(services: Mapping[str, Service], *, stop_deadline: timedelta = STOP_DEADLINE) -> None:
    """Run every service as a task of its name until SIGTERM or SIGINT; then cancel them all and wait for their ends.

    A second signal or the deadline ends the waiting: what has not ended by then is named in the log and left behind.
    Needs the main thread.

    Raises:
        ServiceEndedError: A service ended by itself; the others were stopped in order first.
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
        raise ServiceEndedError(f"{task.get_name()} ended by itself, which it never should") from cause


async def _serve(service: Service) -> None:
    await service()


async def _stop(tasks: Sequence[asyncio.Task[None]], hurry: asyncio.Event, deadline: timedelta) -> None:
    for task in tasks:
        task.cancel()
    second_signal = asyncio.create_task(hurry.wait(), name="second stop signal")
    everything = asyncio.create_task(_ends_of(tasks), name="orderly stop")
    await asyncio.wait(
        [everything, second_signal], timeout=deadline.total_seconds(), return_when=asyncio.FIRST_COMPLETED
    )
    everything.cancel()
    second_signal.cancel()
    for task in tasks:
        if not task.done():
            log.error("%s did not end in time and is left behind", task.get_name())
        elif not task.cancelled() and (error := task.exception()) is not None:
            log.error("%s failed while it stopped", task.get_name(), exc_info=error)


async def _ends_of(tasks: Sequence[asyncio.Task[None]]) -> None:
    if tasks:
        await asyncio.wait(tasks)


@contextmanager
def _stop_signals() -> Iterator[asyncio.Event]:
    """Turn the stop signals into an event for as long as the block runs."""
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
    """Return the lowest memory limit of the process's control group and those above it, in bytes; None without one.

    Source: cgroups(7), for both versions. In a container the group's own path may not be visible; its directory is then
    where the file system is mounted.

    Args:
        root: Where ``proc`` and ``sys`` are.
    """
    limits = [limit for file in _files(root) if (limit := _read(file)) is not None]
    return min(limits, default=None)


def _files(root: Path) -> Iterator[Path]:
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


def _read(file: Path) -> int | None:
    try:
        limit = file.read_text().strip()
    except OSError:
        return None
    # Version 1 writes the largest number of pages where there is no limit.
    return int(limit) if limit.isdigit() and int(limit) < 1 << 60 else None
