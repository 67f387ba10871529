"""What ``csctl sign`` and ``csctl verify`` work on: a release on this machine or in a source, with its signatures."""

from __future__ import annotations

import os
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

import click

from clusterstacks.cli.shared.registry_options import ProgressPrinter

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from clusterstacks.cli.shared.registry_options import ServerTrust
    from clusterstacks.domain.names import ReleaseName
    from clusterstacks.releases.contents import Contents
    from clusterstacks.releases.release_source import Evidence, ReleaseSource
    from clusterstacks.sources.spec import Location

KEY_FILE = click.Path(exists=True, dir_okay=False, path_type=Path)


@dataclass(frozen=True, slots=True)
class SignableRelease:
    """A release whose files were all read.

    Args:
        contents: The files.
        evidence: What signatures lie beside them.
    """

    contents: Contents
    evidence: Evidence


def parse_release_ref(text: str) -> tuple[Location, ReleaseName]:
    """Read which release is meant: by its directory, or by its place and name as ``csctl pull`` reads them.

    Raises:
        SpecError: The text names no release.
    """
    from clusterstacks.sources.kinds import DIRECTORY, parse_location
    from clusterstacks.sources.spec import Location, SourceAddress

    if Path(text).is_dir():
        name = release_name_of(Path(text))
        return Location(SourceAddress(DIRECTORY, str(Path(text).resolve().parent)), name), name
    location = parse_location(text, os.environ)
    if location.release is None:
        raise click.UsageError(f"{text} is no directory and names no release: write REF:<release name>")
    return location, location.release


def release_name_of(directory: Path) -> ReleaseName:
    """Return the release whose directory this is.

    Raises:
        SpecError: It is not the directory of a release, or does not have the name of one.
    """
    from clusterstacks.domain.errors import SpecError
    from clusterstacks.domain.names import parse_release, release_named
    from clusterstacks.releases.release import METADATA

    name = directory.resolve().name
    if release_named(name) is None and not (directory / METADATA).is_file():
        problem = f"{directory} is not a release directory: it has no {METADATA}"
        raise SpecError("NotARelease", f"{problem}: name one that 'csctl create' built or 'csctl pull' fetched")
    return parse_release(name)


@asynccontextmanager
async def open_release_files(
    location: Location, name: ReleaseName, trust: ServerTrust
) -> AsyncIterator[SignableRelease]:
    """Give a release, wherever it is.

    Raises:
        SpecError: It holds what no release may hold.
        DependencyError: The place fails.
        OSError: The directory cannot be read.
    """
    from clusterstacks.sources.kinds import open_location

    if not location.address.kind.is_remote:
        yield await read_release_directory(Path(location.address.place), name)
        return
    async with trust.web() as web:
        source = await open_location(
            location.address, web, os.environ, plain_http=trust.plain_http, progress=ProgressPrinter()
        )
        async with fetch_release_files(source, name) as release:
            yield release


async def read_release_directory(directory: Path, name: ReleaseName) -> SignableRelease:
    """Read a release directory where it is.

    Raises:
        SpecError: It holds what no release may hold.
        OSError: It cannot be read.
    """
    from clusterstacks.releases.contents import read_contents
    from clusterstacks.sources.directory import DirectorySource

    evidence = await DirectorySource(directory).evidence(name)
    return SignableRelease(read_contents(name, directory / name.release), evidence)


@asynccontextmanager
async def fetch_release_files(source: ReleaseSource, name: ReleaseName) -> AsyncIterator[SignableRelease]:
    """Give a release out of a source, for as long as it is looked at.

    Raises:
        SpecError: It holds what no release may hold.
        DependencyError: The source fails.
    """
    from clusterstacks.releases.contents import read_contents

    with TemporaryDirectory(prefix="csctl-") as directory:
        await source.fetch(name, Path(directory))
        yield SignableRelease(read_contents(name, Path(directory)), await source.evidence(name))
