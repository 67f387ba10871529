"""The memory limit of the container that the process runs in."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator


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
