"""The cgroups of a node: one below the caller's in every hierarchy of cgroup v1, so that the caller's limits hold."""

from __future__ import annotations

import contextlib
import os
import time
from pathlib import Path
from typing import TYPE_CHECKING

from clusterstacks.model.errors import DependencyError
from tests.support.node.host_requirements import CGROUPS

if TYPE_CHECKING:
    from collections.abc import Iterable

NAMED = "systemd"
"""The hierarchy without a controller; runc uses it when it exists."""
INHERITED = ("cpuset.cpus", "cpuset.mems")
"""Settings without which a new cpuset accepts no process."""
TIMEOUT_SECONDS = 30.0
"""Timeout for killed processes to leave their cgroups; it takes less than a second."""
POLL_SECONDS = 0.05


def paths(name: str) -> list[Path]:
    """Return the cgroup ``name`` below the cgroup of this process in every hierarchy."""
    found = []
    for line in Path("/proc/self/cgroup").read_text().splitlines():
        _, controllers, own = line.split(":", 2)
        mounted = CGROUPS / controllers.removeprefix("name=")
        if controllers and mounted.is_dir():
            found.append(mounted / own.lstrip("/") / name)
    return found


def create(paths: Iterable[Path]) -> None:
    """Create cgroups.

    Raises:
        DependencyError: A hierarchy cannot be written, or does not contain the cgroup of this process.
    """
    for path in paths:
        try:
            path.mkdir(exist_ok=True)
            for setting in INHERITED:
                if (path / setting).exists():
                    (path / setting).write_text((path.parent / setting).read_text())
        except OSError as error:
            raise DependencyError(
                "CgroupFailed",
                f"cgroup {path} cannot be created: {error.strerror}; a node needs the cgroups of its caller below "
                f"{CGROUPS} (in a container: the host's cgroup namespace)",
            ) from error


def remove(paths: list[Path]) -> None:
    """Remove cgroups with those below them, once their processes have ended.

    Raises:
        DependencyError: A process does not end.
    """
    end = time.monotonic() + TIMEOUT_SECONDS
    while left := [path for path in paths if not _removed(path)]:
        if time.monotonic() > end:
            raise DependencyError("CgroupLeft", f"{left[0]} cannot be removed: a process of the node has not ended")
        time.sleep(POLL_SECONDS)


def remove_children(paths: Iterable[Path]) -> None:
    """Remove the cgroups below ``paths``; errors as ``remove``."""
    remove([child for path in paths for child in path.iterdir() if child.is_dir()])


def _removed(path: Path) -> bool:
    for directory, _, _ in os.walk(path, topdown=False):
        with contextlib.suppress(OSError):
            Path(directory).rmdir()
    return not path.exists()
