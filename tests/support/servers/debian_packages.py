"""Programs from Debian packages, without root: downloaded and checked by apt, and unpacked into the cache."""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from clusterstacks.dev.private_files import exclusive

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    Run = Callable[[Sequence[str], Path], str]

MINUTES = 5
"""How long one command of apt may take: reading the package lists of a slow mirror."""


class PackageUnavailable(Exception):
    """A package cannot be fetched; the message names the remedy."""


def program(package: str, path: str, cache: Path, run: Run | None = None, *, dependencies: bool = False) -> Path:
    """Return a program of a package, which is fetched into ``cache`` if no version of it exists.

    Two test runs at once are safe: the second waits for the first.

    Args:
        package: Its name.
        path: The program inside the package, e.g. ``usr/bin/docker-registry``.
        cache: Holds one directory for each package and version.
        run: Runs a command in a directory and returns what it prints.
        dependencies: Also fetch the packages it needs that are not installed, into the same directory.

    Raises:
        PackageUnavailable: There is no apt, or it does not find the package.
    """
    with exclusive(cache / f".{package}.lock", lambda: None):
        versions = sorted(cache.glob(f"{package}-*/{path}"), key=lambda found: found.stat().st_mtime)
        return versions[-1] if versions else _fetch(package, cache, run or run_command, dependencies) / path


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


def _fetch(package: str, cache: Path, run: Run, dependencies: bool) -> Path:  # noqa: FBT001 - of program()
    """Download and unpack; leftovers of a crash are never used."""
    staging = Path(tempfile.mkdtemp(prefix=".fetching-", dir=cache))
    try:
        _download(package, staging, run, dependencies)
        (archive,) = staging.glob(f"{package}_*.deb")
        version = run(("dpkg-deb", "--field", str(archive), "Version"), staging).strip()
        for one in sorted(staging.glob("*.deb")):
            run(("dpkg-deb", "--extract", str(one), str(staging / "unpacked")), staging)
        return (staging / "unpacked").rename(cache / f"{package}-{version}")
    finally:
        shutil.rmtree(staging)


def _download(package: str, staging: Path, run: Run, dependencies: bool) -> None:  # noqa: FBT001 - of program()
    """Download and check with apt: with the package lists of the system, or with fresh ones.

    A bare machine has no lists or old ones, and only root may renew the system's.
    """
    try:
        run(("apt-get", "download", *_packages(package, (), staging, run, dependencies)), staging)
    except PackageUnavailable:
        own = _own_lists(staging)
        run(("apt-get", *own, "update"), staging)
        run(("apt-get", *own, "download", *_packages(package, own, staging, run, dependencies)), staging)


def _packages(package: str, own: Sequence[str], staging: Path, run: Run, dependencies: bool) -> list[str]:  # noqa: FBT001
    if not dependencies:
        return [package]
    command = ("apt-get", *own, "install", "--simulate", "--no-install-recommends", package)
    found = [line.split()[1] for line in run(command, staging).splitlines() if line.startswith("Inst ")]
    return found if package in found else [*found, package]


def _own_lists(staging: Path) -> tuple[str, ...]:
    for directory in ("state/lists/partial", "cache/archives/partial"):
        (staging / directory).mkdir(parents=True)
    # The user "_apt", to whom apt started by root steps down, may not write here.
    return ("-o", f"Dir::State={staging}/state", "-o", f"Dir::Cache={staging}/cache", "-o", "APT::Sandbox::User=root")
