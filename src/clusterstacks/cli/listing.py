"""``csctl list``: list the releases in a repository."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from clusterstacks.cli.shared import output
from clusterstacks.cli.shared.options import form_option
from clusterstacks.cli.shared.registry_options import ServerTrust, repository_or_environment, trust_options

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from pathlib import Path

    from clusterstacks.domain.names import ReleaseName
    from clusterstacks.sources.spec import SourceAddress


@click.command(short_help="List the releases in a repository.")
@click.argument("repository", metavar="[REPO]", required=False)
@trust_options
@form_option("table", "json")
def list(repository: str | None, ca: Path | None, form: str, *, plain_http: bool) -> None:  # noqa: A001 - the verb
    """List the releases in a repository, sorted by stack, Kubernetes minor and version.

    REPO is registry/repository, github://owner/repository, https://host/path of a web server with an index, or a
    directory. The default is the repository of OCI_REGISTRY and OCI_REPOSITORY.
    """
    import asyncio
    import os

    from clusterstacks.http.errors import NotThere
    from clusterstacks.sources.kinds import OCI, parse_location
    from clusterstacks.sources.spec import SourceAddress

    if repository:
        address = parse_location(repository, os.environ).address
    else:
        address = SourceAddress(OCI, repository_or_environment(None).place)
    place = repository or "the repository of OCI_REPOSITORY"
    try:
        names = asyncio.run(_list(address, ServerTrust(ca, plain_http=plain_http)))
    except NotThere:
        if not address.kind.made_by_publishing:
            raise
        # A registry creates a repository with the first push.
        names = ()
        registry, _, path = address.place.partition("/")
        output.note(f"{registry} has no repository {path} yet")
    releases, foreign = _sorted_releases(names)
    if foreign:
        what = "entries are not releases and were" if foreign > 1 else "entry is not a release and was"
        output.note(f"{foreign} other {what} skipped")
    if form == "json":
        output.print_json([_document(release) for release in releases])
    elif not releases:
        output.note(f"no releases in {place}")
    else:
        header = ("RELEASE", "PROVIDER", "STACK", "KUBERNETES", "VERSION")
        output.print_table(header, [tuple(_document(release).values()) for release in releases])


async def _list(address: SourceAddress, trust: ServerTrust) -> tuple[str, ...]:
    import os

    from clusterstacks.sources.kinds import open_location

    async with trust.web() as web:
        source = await open_location(address, web, os.environ, plain_http=trust.plain_http)
        return await source.list()


def _sorted_releases(names: Iterable[str]) -> tuple[Sequence[ReleaseName], int]:
    """Return the sorted releases, and the number of other names."""
    from clusterstacks.domain.names import release_named

    found = [release_named(name) for name in names]
    return sorted((name for name in found if name is not None), key=_order), found.count(None)


def _order(release: ReleaseName) -> tuple[object, ...]:
    """Return the sort key with the order v1, v2-beta.1, v2-beta.2, v2."""
    version = release.version
    series = (release.provider, release.stack, release.kubernetes)
    return (*series, version.major, not version.build, version)


def _document(release: ReleaseName) -> dict[str, str]:
    return {
        "release": release.release,
        "provider": release.provider,
        "stack": release.stack,
        "kubernetes": str(release.kubernetes),
        "version": release.version.dot,
    }
