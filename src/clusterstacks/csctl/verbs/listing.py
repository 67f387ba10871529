"""``csctl list``: list the releases in a repository."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import click

from clusterstacks.csctl.shared import output
from clusterstacks.csctl.shared.options import FILE, TEXT, form_option
from clusterstacks.csctl.shared.registry_options import ServerTrust, repository_or_environment, trust_options
from clusterstacks.csctl.shared.release_ref import sorted_releases
from clusterstacks.csctl.shared.stage_statements import current, described, read_public_keys, read_statements
from clusterstacks.release.sources.source_kinds import LOCATION_FORMS, OCI, open_location, parse_location

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from clusterstacks.model.kinds.clusterstackrelease import StageEvidence
    from clusterstacks.model.names import ReleaseName
    from clusterstacks.release.signing.keys import PublicKey
    from clusterstacks.release.sources.spec import SourceAddress


_HELP: Final = f"""List the releases in a repository, sorted by stack, Kubernetes minor and version.

REPO is {LOCATION_FORMS}.

The default is the repository of OCI_REGISTRY and OCI_REPOSITORY.

With --evidence, EVIDENCE is the newest statement of each stage about a release, signed by one of the keys.
"""


@click.command(short_help="List the releases in a repository.", help=_HELP)
@click.argument("repository", metavar="[REPO]", required=False)
@click.option("--evidence", is_flag=True, help="Show what stages state about each release; needs --key.")
@click.option("--key", "keys", type=FILE, multiple=True, help="Public keys of the stages (PEM); repeatable.")
@trust_options
@form_option()
def list(  # noqa: A001 - the verb
    trust: ServerTrust, repository: str | None, keys: tuple[Path, ...], form: str, *, evidence: bool
) -> None:
    """List the releases in a repository."""
    import asyncio
    import os

    from clusterstacks.net.http.errors import NotThere
    from clusterstacks.release.sources.spec import SourceAddress

    if evidence != bool(keys):
        raise click.UsageError("--evidence and --key belong together: statements count only by the keys of stages")
    if repository:
        address = parse_location(repository, os.environ).address
    else:
        address = SourceAddress(OCI, repository_or_environment(None).place)
    place = repository or "the repository of OCI_REPOSITORY"
    try:
        names, stated = asyncio.run(_list(address, trust, read_public_keys(keys) if keys else ()))
    except NotThere:
        if not address.kind.made_by_publishing:
            raise
        # A registry creates a repository with the first push.
        names, stated = (), {}
        registry, _, path = address.place.partition("/")
        output.note(f"{registry} has no repository {path} yet")
    releases, foreign = sorted_releases(names)
    if foreign:
        what = "entries are not releases and were" if foreign > 1 else "entry is not a release and was"
        output.note(f"{foreign} other {what} skipped")
    if form != TEXT:
        shown = {name: {"evidence": [one.document() for one in found]} for name, found in stated.items()}
        output.print_document([{**_document(release), **shown.get(release, {})} for release in releases], form)
    elif not releases:
        output.note(f"no releases in {place}")
    else:
        header: tuple[str, ...] = ("RELEASE", "PROVIDER", "STACK", "KUBERNETES", "VERSION")
        rows = [tuple(_document(release).values()) for release in releases]
        if evidence:
            header = (*header, "EVIDENCE")
            rows = [
                (*row, "; ".join(map(described, stated[release]))) for row, release in zip(rows, releases, strict=True)
            ]
        output.print_table(header, rows)


async def _list(
    address: SourceAddress, trust: ServerTrust, keys: Sequence[PublicKey]
) -> tuple[tuple[str, ...], dict[ReleaseName, Sequence[StageEvidence]]]:
    """Return the names in a repository, and for each release the newest statement of each stage if there are keys."""
    import os

    from clusterstacks.runtime.concurrency import gather

    async def statements(name: ReleaseName) -> tuple[ReleaseName, Sequence[StageEvidence]]:
        found, _ = await read_statements(source, name, keys)
        return name, current(found)

    async with trust.web() as web:
        source = await open_location(address, web, os.environ, plain_http=trust.plain_http)
        names = await source.list()
        releases, _ = sorted_releases(names) if keys else ([], 0)
        return names, dict(await gather(statements, releases, at_once=address.kind.reads_at_once))


def _document(release: ReleaseName) -> dict[str, str]:
    return {
        "release": release.release,
        "provider": release.provider,
        "stack": release.stack,
        "kubernetes": str(release.kubernetes),
        "version": release.version.dot,
    }
