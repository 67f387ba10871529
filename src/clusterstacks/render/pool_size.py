"""How many render workers fit into the memory of a container."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from clusterstacks.render.renderer import MEMORY_BYTES
from clusterstacks.render.worker_processes import SMALLEST_MEMORY

MIB: Final = 1024**2

ONE_WORKER_BELOW: Final = 512 * MIB
"""Limit below which one worker is used. The operator has 70 to 100 MB, a worker 70 to 90 MB with Helm loaded, and about
40 MiB more while it renders a large chart."""

LEAST: Final = 224 * MIB
"""Least limit that is enough for the operator and one worker, by the same figures. The Go operator has 250Mi."""

_OPERATOR: Final = 128 * MIB


@dataclass(frozen=True, slots=True)
class Sizing:
    """Workers for a memory limit.

    Args:
        workers: How many processes.
        memory_bytes: Writable memory of each.
        shortage: Says that the limit is too low, and what to do; empty otherwise.
    """

    workers: int
    memory_bytes: int
    shortage: str = ""


def sizing(limit: int | None) -> Sizing:
    """Choose workers for a container's memory limit in bytes; None for no limit."""
    if limit is None:
        return Sizing(2, MEMORY_BYTES)
    workers = 1 if limit < ONE_WORKER_BELOW else 2
    memory = min(MEMORY_BYTES, max(SMALLEST_MEMORY, (limit - _OPERATOR) // workers))
    shortage = (
        f"The memory limit of this container is {limit // MIB}Mi, and Helm charts need {LEAST // MIB}Mi to render: "
        "raise resources.limits.memory, or renders fail and the container is killed"
    )
    return Sizing(workers, memory, shortage if limit < LEAST else "")
