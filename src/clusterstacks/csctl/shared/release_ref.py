"""Releases on the command line: a directory, or a reference to a release in a source."""

from __future__ import annotations

import os
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, TypeAlias

import click
from click.shell_completion import CompletionItem

from clusterstacks.csctl.shared.transfer_bar import transfer_bar

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterable, Iterator

    from clusterstacks.csctl.shared.registry_options import ServerTrust
    from clusterstacks.model.names import ReleaseName
    from clusterstacks.release.contents import Contents
    from clusterstacks.release.release_source import Evidence, ReleaseSource
    from clusterstacks.release.sources.spec import Location, SourceAddress


@dataclass(frozen=True, slots=True)
class SignableRelease:
    """A release with its files, and its signatures as they were found."""

    contents: Contents
    evidence: Evidence


@dataclass(frozen=True, slots=True)
class ReleaseRef:
    """A reference to a release in a source; ``text`` is as the user wrote it."""

    text: str
    address: SourceAddress
    name: ReleaseName

    def __str__(self) -> str:
        return self.text


DirectoryOrRef: TypeAlias = Path | ReleaseRef


class DirectoryOrRefParam(click.ParamType[DirectoryOrRef]):
    """Parameter type of an existing directory, or of a reference to a release; an existing directory has precedence."""

    name = "DIR|REF"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> DirectoryOrRef:  # noqa: ANN401 - click's signature
        """Read a directory or reference."""
        from clusterstacks.model.errors import SpecError

        if isinstance(value, Path | ReleaseRef) or Path(value).is_dir():
            return value if isinstance(value, ReleaseRef) else Path(value)
        try:
            return read_ref(str(value))
        except SpecError as error:
            self.fail(error.message, param, ctx)

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:  # noqa: ARG002 - click's signature
        """Complete directories; references are not completed."""
        return [CompletionItem(incomplete, type="dir")]


DIRECTORY_OR_REF = DirectoryOrRefParam()


def read_ref(text: str) -> ReleaseRef:
    """Parse a text that is not the path of an existing directory; anything but a reference to a release is refused."""
    from clusterstacks.model.errors import SpecError
    from clusterstacks.release.sources.source_kinds import parse_location

    location = parse_location(text, os.environ)
    if location.release is not None:
        return ReleaseRef(text, location.address, location.release)
    if location.address.kind.is_remote:
        problem = f"{text} has no release name (expected {text}:<release name>): 'csctl list {text}' shows the releases"
        if "://" not in text:
            problem += "; if it is a path, correct it, because no directory has it"
        raise SpecError("ReleaseUnnamed", problem)
    what = "is a file" if Path(text).exists() else "does not exist"
    example = "registry.example.org/kaas/stacks:local-shop-1-35-v1"
    raise SpecError("NotARelease", f"{text} {what} (expected a directory, or a release such as {example})")


@asynccontextmanager
async def open_release_directory(source: DirectoryOrRef, trust: ServerTrust) -> AsyncIterator[Path]:
    """Yield a directory, or download and verify a release into a temporary directory for the time of the block.

    Raises:
        SpecError: The release is not valid.
        ReleaseNotFound: The source does not have the release.
    """
    if isinstance(source, Path):
        yield source
        return
    import asyncio

    from clusterstacks.release.open import open_directory
    from clusterstacks.release.sources.source_kinds import open_location

    with TemporaryDirectory(prefix="csctl-") as scratch:
        directory = Path(scratch, source.name.release)
        directory.mkdir()  # noqa: ASYNC240 - in a local directory that was just created
        async with trust.web() as web:
            opened = await open_location(
                source.address, web, os.environ, plain_http=trust.plain_http, progress=transfer_bar()
            )
            with _explained(source):
                await opened.fetch(source.name, directory)
        await asyncio.to_thread(open_directory, directory, source.name)
        yield directory


@contextmanager
def _explained(source: ReleaseRef) -> Iterator[None]:
    """Add to the errors of a source what to do: the reference may be a mistyped path or name."""
    from clusterstacks.model.errors import DependencyError
    from clusterstacks.net.http.errors import NotThere, SourceUnavailable
    from clusterstacks.release.errors import ReleaseNotFound

    place = source.text.rpartition(source.name.release)[0].rstrip(":")
    try:
        yield
    except ReleaseNotFound as error:
        raise DependencyError(error.code, f"{error.message} ('csctl list {place}' shows its releases)") from None
    except (SourceUnavailable, NotThere) as error:
        if "://" in source.text:
            raise
        problem = f"no directory has the path {source}, so it was read as a reference"
        raise DependencyError(error.code, f"{error.message} ({problem})") from None


def parse_release_ref(text: str) -> tuple[Location, ReleaseName]:
    """Parse a reference to a release: its directory, or its source and name as for ``csctl pull``."""
    from clusterstacks.release.sources.source_kinds import DIRECTORY
    from clusterstacks.release.sources.spec import Location, SourceAddress

    if Path(text).is_dir():
        name = release_name_of(Path(text))
        return Location(SourceAddress(DIRECTORY, str(Path(text).resolve().parent)), name), name
    ref = read_ref(text)
    return Location(ref.address, ref.name), ref.name


def sorted_releases(names: Iterable[str]) -> tuple[list[ReleaseName], int]:
    """Return the names that are release names, sorted by stack, Kubernetes minor and version; and how many are not."""
    from clusterstacks.model.names import release_named

    parsed = [release_named(name) for name in names]
    return sorted((name for name in parsed if name is not None), key=_order), parsed.count(None)


def _order(release: ReleaseName) -> tuple[object, ...]:
    """Return the sort key with the order v1, v2-beta.1, v2-beta.2, v2."""
    version = release.version
    series = (release.provider, release.stack, release.kubernetes)
    return (*series, version.major, not version.build, version)


def release_name_of(directory: Path) -> ReleaseName:
    """Return the name of the release in a directory, which must be a release directory with such a name."""
    from clusterstacks.model.errors import SpecError
    from clusterstacks.model.names import parse_release, release_named
    from clusterstacks.release.release import METADATA

    name = directory.resolve().name
    if release_named(name) is None and not (directory / METADATA).is_file():
        problem = f"{directory} is not a release directory: it has no {METADATA}"
        raise SpecError("NotARelease", f"{problem}; use one from 'csctl create' or 'csctl pull'")
    return parse_release(name)


@asynccontextmanager
async def open_release_files(
    location: Location, name: ReleaseName, trust: ServerTrust
) -> AsyncIterator[SignableRelease]:
    """Yield files and signatures of a release in a directory or a source; files that are not allowed are refused."""
    from clusterstacks.release.sources.source_kinds import open_location

    if not location.address.kind.is_remote:
        yield await read_release_directory(Path(location.address.place), name)
        return
    async with trust.web() as web:
        source = await open_location(
            location.address, web, os.environ, plain_http=trust.plain_http, progress=transfer_bar()
        )
        async with fetch_release_files(source, name) as release:
            yield release


async def read_release_directory(directory: Path, name: ReleaseName) -> SignableRelease:
    """Read the files and signatures of the release in ``directory/<name>``."""
    from clusterstacks.release.contents import read_contents
    from clusterstacks.release.sources.directory import DirectorySource

    evidence = await DirectorySource(directory).evidence(name)
    return SignableRelease(read_contents(name, directory / name.release), evidence)


@asynccontextmanager
async def fetch_release_files(source: ReleaseSource, name: ReleaseName) -> AsyncIterator[SignableRelease]:
    """Download a release from a source into a temporary directory for the time of the block."""
    from clusterstacks.release.contents import read_contents

    with TemporaryDirectory(prefix="csctl-") as directory:
        await source.fetch(name, Path(directory))
        yield SignableRelease(read_contents(name, Path(directory)), await source.evidence(name))
