"""``csctl list``: list the releases in a repository."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import click

from clusterstacks.csctl.shared import output
from clusterstacks.csctl.shared.options import TEXT, form_option
from clusterstacks.csctl.shared.registry_options import ServerTrust, repository_or_environment, trust_options
from clusterstacks.csctl.shared.release_ref import sorted_releases
from clusterstacks.release.sources.source_kinds import LOCATION_FORMS, OCI, open_location, parse_location

if TYPE_CHECKING:
    from clusterstacks.model.names import ReleaseName
    from clusterstacks.release.sources.spec import SourceAddress


_HELP: Final = f"""List the releases in a repository, sorted by stack, Kubernetes minor and version.

REPO is {LOCATION_FORMS}.

The default is the repository of OCI_REGISTRY and OCI_REPOSITORY.
"""


@click.command(short_help="List the releases in a repository.", help=_HELP)
@click.argument("repository", metavar="[REPO]", required=False)
@trust_options
@form_option()
def list(trust: ServerTrust, repository: str | None, form: str) -> None:  # noqa: A001 - the verb
    """List the releases in a repository."""
    import asyncio
    import os

    from clusterstacks.net.http.errors import NotThere
    from clusterstacks.release.sources.spec import SourceAddress

    if repository:
        address = parse_location(repository, os.environ).address
    else:
        address = SourceAddress(OCI, repository_or_environment(None).place)
    place = repository or "the repository of OCI_REPOSITORY"
    try:
        names = asyncio.run(_list(address, trust))
    except NotThere:
        if not address.kind.made_by_publishing:
            raise
        # A registry creates a repository with the first push.
        names = ()
        registry, _, path = address.place.partition("/")
        output.note(f"{registry} has no repository {path} yet")
    releases, foreign = sorted_releases(names)
    if foreign:
        what = "entries are not releases and were" if foreign > 1 else "entry is not a release and was"
        output.note(f"{foreign} other {what} skipped")
    if form != TEXT:
        output.print_document([_document(release) for release in releases], form)
    elif not releases:
        output.note(f"no releases in {place}")
    else:
        header = ("RELEASE", "PROVIDER", "STACK", "KUBERNETES", "VERSION")
        output.print_table(header, [tuple(_document(release).values()) for release in releases])


async def _list(address: SourceAddress, trust: ServerTrust) -> tuple[str, ...]:
    import os

    async with trust.web() as web:
        source = await open_location(address, web, os.environ, plain_http=trust.plain_http)
        return await source.list()


def _document(release: ReleaseName) -> dict[str, str]:
    return {
        "release": release.release,
        "provider": release.provider,
        "stack": release.stack,
        "kubernetes": str(release.kubernetes),
        "version": release.version.dot,
    }
