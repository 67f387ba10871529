"""Render workers as the system sees them."""

from __future__ import annotations

import asyncio
import copy
import os
from pathlib import Path
from typing import TYPE_CHECKING

from clusterstacks.deliver.render.renderer import ChartRequest, Renderer, RenderLimits

if TYPE_CHECKING:
    from collections.abc import Callable


def chart_request(
    chart: bytes, *, values: str = "", include_crds: bool = False, label: str = "addon demo"
) -> ChartRequest:
    """Return a request with the settings tests do not care about."""
    return ChartRequest(
        chart=chart,
        label=label,
        release_name="cluster-addon",
        namespace="kube-system",
        values=values,
        kube_version="v1.35.4",
        include_crds=include_crds,
    )


_strangers: set[int] = set()


def forget_strangers() -> None:
    """Leave out zombies that other tests of this process left on purpose, e.g. detached supervisors."""
    _strangers.update(worker_ids())


def worker_ids() -> list[int]:
    """Return the process ids of this process's render workers, zombies too."""
    found = []
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            # "pid (name) state parent …"; a name may hold spaces.
            name, _, fields = (entry / "stat").read_text().partition("(")[2].rpartition(")")
            command = (entry / "cmdline").read_bytes()
        except (FileNotFoundError, ProcessLookupError):
            continue
        is_worker = b"clusterstacks.deliver.render.worker" in command
        is_zombie = not command and name.startswith("python")
        stranger = is_zombie and int(entry.name) in _strangers
        if int(fields.split()[1]) == os.getpid() and (is_worker or is_zombie) and not stranger:
            found.append(int(entry.name))
    return found


def with_limits(renderer: Renderer, limits: RenderLimits) -> Renderer:
    """Return a renderer with the same workers and other limits."""
    limited = copy.copy(renderer)
    limited._limits = limits
    return limited


async def until(condition: Callable[[], bool]) -> None:
    """Wait until it holds; the test's own timeout ends a wait in vain."""
    while not condition():  # noqa: ASYNC110 - the end of a process is no event of this loop
        await asyncio.sleep(0.01)
