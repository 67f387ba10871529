"""``csctl pull``: download a release."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from clusterstacks.csctl.shared import output
from clusterstacks.csctl.shared.options import TEXT, form_and_directory, form_or_directory_options
from clusterstacks.csctl.shared.registry_options import ServerTrust, trust_options
from clusterstacks.csctl.shared.transfer_bar import transfer_bar
from clusterstacks.release.sources.source_kinds import LOCATION_FORMS, open_location, parse_location

if TYPE_CHECKING:
    from clusterstacks.model.names import ReleaseName
    from clusterstacks.release.sources.download_release import Pulled
    from clusterstacks.release.sources.spec import Location


_HELP: Final = f"""Download a release into DIR/<release name>/, complete or not at all, and its signatures next to it.

REF is PLACE:<release name>, with the PLACE of its releases: {LOCATION_FORMS}.

Digests are verified. Signatures are not: use 'csctl verify'. The files of its node images are not downloaded: use
'csctl copy', which copies a release with them.
"""


@click.command(short_help="Download a release.", help=_HELP)
@click.argument("reference", metavar="REF")
@form_or_directory_options(Path(), "the release directory")
@trust_options
def pull(trust: ServerTrust, reference: str, wanted: str, directory_given: Path | None) -> None:
    """Download a release."""
    import os

    form, directory = form_and_directory(wanted, directory_given, Path())
    location = parse_location(reference, os.environ)
    if location.release is None:
        raise click.UsageError("the release is missing (expected REF:<release name>): 'csctl list' shows the releases")
    pulled = output.run_counted(_pull(location, location.release, directory, trust))
    output.note_some("signature not read", pulled.problems)
    if form != TEXT:
        output.print_document(_document(pulled), form)
        return
    what = "pulled into" if pulled.new else "already exists with the same content:"
    output.say(f"{pulled.release.name} {what} {pulled.path}")
    output.say_digests(content=pulled.release.digest, manifest=pulled.manifest)
    if pulled.signed:
        output.say(f"verify its signatures: csctl verify {shlex.quote(str(pulled.path))} --key <public key>")


def _document(pulled: Pulled) -> dict[str, object]:
    return {
        "release": pulled.release.name.release,
        "directory": str(pulled.path.absolute()),
        "contentDigest": pulled.release.digest,
        "manifestDigest": pulled.manifest or None,
        "new": pulled.new,
        "signed": pulled.signed,
        "problems": pulled.problems,
    }


async def _pull(location: Location, name: ReleaseName, directory: Path, trust: ServerTrust) -> Pulled:
    import os

    from clusterstacks.release.sources import download_release

    async with trust.web() as web:
        source = await open_location(
            location.address, web, os.environ, plain_http=trust.plain_http, progress=transfer_bar()
        )
        return await download_release.pull(source, name, directory)
