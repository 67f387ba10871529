"""Release references of ``csctl sign``, ``verify`` and ``push``: a release directory or a release in a source."""

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


@dataclass(frozen=True, slots=True)
class SignableRelease:
    """The files and signatures of a release.

    Args:
        contents: The files.
        evidence: The signatures.
    """

    contents: Contents
    evidence: Evidence


def parse_release_ref(text: str) -> tuple[Location, ReleaseName]:
    """Parse a reference to a release: its directory, or its source and name as for ``csctl pull``.

    Raises:
        SpecError: The text is not a valid reference.
    """
    from clusterstacks.sources.kinds import DIRECTORY, parse_location
    from clusterstacks.sources.spec import Location, SourceAddress

    if Path(text).is_dir():
        name = release_name_of(Path(text))
        return Location(SourceAddress(DIRECTORY, str(Path(text).resolve().parent)), name), name
    location = parse_location(text, os.environ)
    if location.release is None:
        raise click.UsageError(f"{text} is neither a directory nor a release (expected REF:<release name>)")
    return location, location.release


def release_name_of(directory: Path) -> ReleaseName:
    """Return the name of the release in a directory.

    Raises:
        SpecError: It is not a release directory, or its name is not a release name.
    """
    from clusterstacks.domain.errors import SpecError
    from clusterstacks.domain.names import parse_release, release_named
    from clusterstacks.releases.release import METADATA

    name = directory.resolve().name
    if release_named(name) is None and not (directory / METADATA).is_file():
        problem = f"{directory} is not a release directory: it has no {METADATA}"
        raise SpecError("NotARelease", f"{problem}; use one from 'csctl create' or 'csctl pull'")
    return parse_release(name)


@asynccontextmanager
async def open_release_files(
    location: Location, name: ReleaseName, trust: ServerTrust
) -> AsyncIterator[SignableRelease]:
    """Yield the files and signatures of a release in a directory or a source.

    Raises:
        SpecError: The release contains files that are not allowed.
        DependencyError: The source fails.
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
    """Read a release directory.

    Raises:
        SpecError: The release contains files that are not allowed.
        OSError: The directory cannot be read.
    """
    from clusterstacks.releases.contents import read_contents
    from clusterstacks.sources.directory import DirectorySource

    evidence = await DirectorySource(directory).evidence(name)
    return SignableRelease(read_contents(name, directory / name.release), evidence)


@asynccontextmanager
async def fetch_release_files(source: ReleaseSource, name: ReleaseName) -> AsyncIterator[SignableRelease]:
    """Download a release from a source into a temporary directory for the time of the block.

    Raises:
        SpecError: The release contains files that are not allowed.
        DependencyError: The source fails.
    """
    from clusterstacks.releases.contents import read_contents

    with TemporaryDirectory(prefix="csctl-") as directory:
        await source.fetch(name, Path(directory))
        yield SignableRelease(read_contents(name, Path(directory)), await source.evidence(name))
