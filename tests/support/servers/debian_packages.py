"""Programs out of Debian packages, without root: downloaded and checked by apt, unpacked beside the other binaries."""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from clusterstacks.devcluster.private_files import exclusive

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    Run = Callable[[Sequence[str], Path], str]

MINUTES = 5
"""How long one command of apt may take: reading the package lists of a slow mirror."""


class PackageUnavailable(Exception):
    """A package cannot be had here; the message says what to do instead."""


def program(package: str, path: str, cache: Path, run: Run | None = None) -> Path:
    """Return a program of a package, which is fetched into ``cache`` when no version of it is there.

    Two test runs at once are safe: the second waits for the first.

    Args:
        package: Its name.
        path: The program inside the package, e.g. ``usr/bin/docker-registry``.
        cache: Holds one directory for each package and version.
        run: Runs a command in a directory and returns what it prints.

    Raises:
        PackageUnavailable: There is no apt, or it does not find the package.
    """
    with exclusive(cache / f".{package}.lock", lambda: None):
        versions = sorted(cache.glob(f"{package}-*/{path}"), key=lambda found: found.stat().st_mtime)
        return versions[-1] if versions else _fetch(package, cache, run or run_command) / path


def run_command(command: Sequence[str], directory: Path) -> str:
    """Run a command in a directory and return what it prints.

    Raises:
        PackageUnavailable: It is not installed, fails, or takes too long.
    """
    try:
        done = subprocess.run(command, cwd=directory, capture_output=True, text=True, timeout=MINUTES * 60, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise PackageUnavailable(f"{command[0]}: {error}") from None
    if done.returncode:
        raise PackageUnavailable(f"{' '.join(command)}: {done.stderr.strip()}")
    return done.stdout


def _fetch(package: str, cache: Path, run: Run) -> Path:
    """Download and unpack; what a crash leaves behind is never taken for a package."""
    staging = Path(tempfile.mkdtemp(prefix=".fetching-", dir=cache))
    try:
        archive = _download(package, staging, run)
        version = run(("dpkg-deb", "--field", str(archive), "Version"), staging).strip()
        run(("dpkg-deb", "--extract", str(archive), str(staging / "unpacked")), staging)
        return (staging / "unpacked").rename(cache / f"{package}-{version}")
    finally:
        shutil.rmtree(staging)


def _download(package: str, staging: Path, run: Run) -> Path:
    """Let apt download and check it: with the package lists of the system, else with fresh ones of our own.

    A bare machine has no lists or old ones, and only root may renew the system's.
    """
    try:
        run(("apt-get", "download", package), staging)
    except PackageUnavailable:
        own = _own_lists(staging)
        run(("apt-get", *own, "update"), staging)
        run(("apt-get", *own, "download", package), staging)
    return next(staging.glob("*.deb"))


def _own_lists(staging: Path) -> tuple[str, ...]:
    for directory in ("state/lists/partial", "cache/archives/partial"):
        (staging / directory).mkdir(parents=True)
    # The user "_apt", to whom apt started by root steps down, may not write here.
    return ("-o", f"Dir::State={staging}/state", "-o", f"Dir::Cache={staging}/cache", "-o", "APT::Sandbox::User=root")
