"""Finds, fetches or builds the binaries of the environment.

Each program is taken from the first place that has a fitting version: the directory in ``CLUSTERSTACKS_ASSETS`` or
``KUBEBUILDER_ASSETS``; PATH; the cache; the published archive; a build from the Go modules.
"""

from __future__ import annotations

import os
import shutil
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from clusterstacks.dev import envtest_archives, go_build
from clusterstacks.dev.private_files import exclusive
from clusterstacks.dev.toolchain import ALWAYS, TOOLS, Tool, version_of
from clusterstacks.model.errors import SpecError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

ASSET_VARIABLES = ("CLUSTERSTACKS_ASSETS", "KUBEBUILDER_ASSETS")


@dataclass(frozen=True, slots=True)
class Binary:
    """A program that was found, with version and origin."""

    name: str
    version: str
    origin: str
    path: Path


def silent(_: str) -> None:
    """Report nothing."""


def cache_directory(environ: Mapping[str, str] = os.environ) -> Path:
    """The cache of binaries: ``$XDG_CACHE_HOME/cluster-stacks/bin``."""
    home = environ.get("XDG_CACHE_HOME") or Path(environ.get("HOME") or Path.home()) / ".cache"
    return Path(home) / "cluster-stacks" / "bin"


def resolve(
    names: Iterable[str] = ALWAYS,
    *,
    report: Callable[[str], None] = silent,
    environ: Mapping[str, str] = os.environ,
) -> dict[str, Binary]:
    """Find programs by their keys in ``TOOLS``; fetch or build missing ones into the cache.

    Two runs at once are safe: the second reports that it waits, and uses the result of the first. ``report`` is called
    with a line for every long step.
    """
    wanted = [TOOLS[name] for name in names]
    cache = cache_directory(environ)
    found = {tool.name: find(tool, environ, report) for tool in wanted}
    if None in found.values():
        waiting = f"waiting for another run that fetches or builds binaries in {cache}"
        with exclusive(cache / ".lock", lambda: report(waiting)):
            _obtain([tool for tool in wanted if not find(tool, environ)], cache, environ, report)
        found = {tool.name: find(tool, environ) for tool in wanted}
    return {name: binary for name, binary in found.items() if binary}


def find(tool: Tool, environ: Mapping[str, str], report: Callable[[str], None] = silent) -> Binary | None:
    """Find a program with a fitting version, without fetching or building it."""
    for origin, path in _candidates(tool, environ):
        version = version_of(tool, path)
        if tool.fits(version):
            return Binary(tool.name, version, origin, path)
        if origin in ASSET_VARIABLES:  # the user chose it; other programs on PATH are not reported
            shown = version or "an unknown version"
            report(f"{path} ({origin}) is {shown}, not {tool.version} or another patch of it: not used")
    return _cached(tool, cache_directory(environ))


def _candidates(tool: Tool, environ: Mapping[str, str]) -> Iterable[tuple[str, Path]]:
    for variable in ASSET_VARIABLES:
        if directory := environ.get(variable):
            if not Path(directory).is_dir():
                raise SpecError(
                    "NoDirectory", f"{variable} names {directory}, which is not a directory: correct or unset it"
                )
            path = Path(directory) / tool.name
            if os.access(path, os.X_OK):
                yield variable, path.absolute()
    on_path = shutil.which(tool.name, path=environ.get("PATH", ""))
    if on_path:
        yield "PATH", Path(on_path).absolute()


def _cached(tool: Tool, cache: Path) -> Binary | None:
    built = cache / f"{tool.name}-{tool.version}"
    if os.access(built, os.X_OK):
        return Binary(tool.name, tool.version, "cache", built)
    for path in sorted(cache.glob(f"{tool.name}-v*{envtest_archives.SUFFIX}"), reverse=True):
        version = path.name.removeprefix(f"{tool.name}-").removesuffix(envtest_archives.SUFFIX)
        if tool.fits(version):
            return Binary(tool.name, version, "published archive", path)
    return None


def _obtain(tools: list[Tool], cache: Path, environ: Mapping[str, str], report: Callable[[str], None]) -> None:
    if any(tool.name in envtest_archives.CONTAINED for tool in tools):
        envtest_archives.fetch_published(cache, report)
        tools = [tool for tool in tools if not find(tool, environ)]
    if not tools:
        return
    cache.mkdir(parents=True, exist_ok=True)
    go = go_build.find_go(cache, report)
    for number, tool in enumerate(tools, start=1):
        began = time.monotonic()
        report(f"building {tool.name} {tool.version} ({number} of {len(tools)}; minutes at the first time)")
        go.build(tool, cache / f"{tool.name}-{tool.version}")
        report(f"built {tool.name} {tool.version} in {time.monotonic() - began:.0f} s")
