"""The remotes of ``csctl create``: sources that the newest release is read from and the next one published to."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

from clusterstacks.csctl.building.previous_release import Remote
from clusterstacks.net.oci.transfers import TransferProgress, silent
from clusterstacks.release.sources.directory import DirectorySource
from clusterstacks.release.sources.source_kinds import DIRECTORY, open_location

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping
    from pathlib import Path

    from clusterstacks.net.http.client import HTTPClient
    from clusterstacks.release.sources.spec import SourceKind


@dataclass(frozen=True, slots=True)
class Publisher:
    """A remote with its way to publish, which returns whether the remote did not have the release before."""

    remote: Remote
    publish: Callable[[Path], Awaitable[bool]]


def directory_remote(directory: Path, environ: Mapping[str, str], report: Callable[[str], None]) -> Publisher:
    """Open a directory of releases."""
    source = DirectorySource(directory)
    return Publisher(
        Remote(str(directory), source), partial(DIRECTORY.publish, source=source, environ=environ, report=report)
    )


async def open_remote(
    kind: SourceKind[Any],
    web: HTTPClient,
    environ: Mapping[str, str],
    report: Callable[[str], None],
    *,
    plain_http: bool = False,
    progress: TransferProgress = silent,
) -> Publisher:
    """Open the source that environment variables name, of a kind that csctl can publish to.

    ``report`` is called with a line about each step of a publication. Raises SpecError if a variable is missing or not
    valid, and DependencyError if a credential helper fails.
    """
    address = kind.publish_address(environ)
    source = await open_location(address, web, environ, plain_http=plain_http, progress=progress)
    remote = Remote(str(replace(address, api="")), source, made_by_publishing=kind.made_by_publishing)
    return Publisher(remote, partial(kind.publish, source=source, environ=environ, report=report))
