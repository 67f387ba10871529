"""The remotes of ``csctl create``: where the newest release is looked up and the next one published."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from clusterstacks.building.previous_release import Remote
from clusterstacks.building.publish_directory import publish_to_directory
from clusterstacks.domain.errors import SpecError
from clusterstacks.domain.names import parse_release
from clusterstacks.oci import credentials
from clusterstacks.oci.reference import Reference
from clusterstacks.oci.registry import Registry
from clusterstacks.oci.transfers import TransferProgress, silent
from clusterstacks.sources.directory import DirectorySource
from clusterstacks.sources.github.environment_variables import from_environment
from clusterstacks.sources.github.publish import publish as publish_to_github
from clusterstacks.sources.oci_artifact import created_at
from clusterstacks.sources.oci_publish import publish as publish_to_registry
from clusterstacks.sources.oci_repository import OCISource
from clusterstacks.sources.oci_signatures import attach

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping
    from pathlib import Path

    from clusterstacks.http.client import Web


@dataclass(frozen=True, slots=True)
class Publisher:
    """A remote and how to publish there.

    Args:
        remote: It.
        publish: Publishes a release directory; tells whether it was not there before.
    """

    remote: Remote
    publish: Callable[[Path], Awaitable[bool]]


def directory_remote(directory: Path) -> Publisher:
    """Take a directory of releases."""

    async def publish(release: Path) -> bool:
        return await asyncio.to_thread(publish_to_directory, parse_release(release.name), release, directory)

    return Publisher(Remote(str(directory), DirectorySource(directory)), publish)


def github_remote(web: Web, environ: Mapping[str, str], report: Callable[[str], None]) -> Publisher:
    """Take the GitHub repository that ``GIT_PROVIDER``, ``GIT_ORG_NAME`` and ``GIT_REPOSITORY_NAME`` name.

    Raises:
        SpecError: A variable is missing or wrong.
    """
    if not environ.get("GIT_PROVIDER"):
        raise SpecError(
            "RemoteUnnamed",
            "no GitHub repository is named: set GIT_PROVIDER=github, GIT_ORG_NAME and GIT_REPOSITORY_NAME, "
            "or choose --remote oci, directory or none",
        )
    source = from_environment(environ, web)
    place = f"github://{environ['GIT_ORG_NAME']}/{environ['GIT_REPOSITORY_NAME']}"
    return Publisher(Remote(place, source), partial(publish_to_github, source=source, report=report))


async def oci_remote(
    web: Web, environ: Mapping[str, str], *, plain_http: bool = False, progress: TransferProgress = silent
) -> Publisher:
    """Take the repository that ``OCI_REGISTRY`` and ``OCI_REPOSITORY`` name.

    Args:
        web: What carries requests.
        environ: The variables.
        plain_http: Whether the registry speaks plain HTTP.
        progress: Told how far the transfer of a large file is.

    Raises:
        SpecError: They name none, or credentials cannot be read.
        DependencyError: A credential helper fails.
    """
    reference = Reference.from_environ(environ)
    if reference is None:
        raise SpecError(
            "RemoteUnnamed",
            "no repository is named: set OCI_REGISTRY and OCI_REPOSITORY, or choose --remote github, directory or none",
        )
    found = await credentials.find(reference, environ)
    registry = Registry(web, reference, found, plain_http=plain_http, progress=progress)

    async def publish(release: Path) -> bool:
        published = await publish_to_registry(release, registry, created_at(environ))
        evidence = await DirectorySource(release.parent).evidence(parse_release(release.name))
        for envelope in evidence.envelopes:
            await attach(registry, published.reference.digest, envelope)
        return published.new

    return Publisher(Remote(f"oci://{reference.place}", OCISource(registry), made_by_publishing=True), publish)
