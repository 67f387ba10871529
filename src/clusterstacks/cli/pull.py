"""``csctl pull``: fetch a release."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING

import click

from clusterstacks.cli import output
from clusterstacks.cli.connecting import Meter, Trust, trust_options

if TYPE_CHECKING:
    from clusterstacks.domain.names import ReleaseName
    from clusterstacks.releases.locations import Location
    from clusterstacks.releases.pulling import Pulled


@click.command(short_help="Fetch a release.")
@click.argument("reference", metavar="REF")
@click.option(
    "--output",
    "-o",
    "directory",
    type=click.Path(file_okay=False, path_type=Path),
    default=Path(),
    help="Where the release's directory goes; default: here.",
)
@trust_options
def pull(reference: str, directory: Path, ca: Path | None, *, plain_http: bool) -> None:
    """Fetch a release into DIR/<release name>/, verified, whole or not at all; its signatures go beside it.

    REF is registry/repository:release, github://owner/repository:release, https://host/path:release of a web server
    with an index, or directory:release. Nobody's signature is checked: 'csctl verify' does that.
    """
    import asyncio

    from clusterstacks.releases.locations import parse_location

    location = parse_location(reference)
    if location.release is None:
        raise click.UsageError("name a release: REF:<release name>; 'csctl list' shows what there is")
    pulled = asyncio.run(_pull(location, location.release, directory, Trust(ca, plain_http=plain_http)))
    what = "pulled into" if pulled.new else "is there already with the same content:"
    output.say(f"{pulled.release.name} {what} {pulled.path} ({pulled.release.digest})")
    output.note_some("signature not read", pulled.problems)
    if pulled.signed:
        output.say(f"verify who signed it: csctl verify {shlex.quote(str(pulled.path))} --key <public key>")


async def _pull(location: Location, name: ReleaseName, directory: Path, trust: Trust) -> Pulled:
    import os

    from clusterstacks.releases import pulling
    from clusterstacks.releases.locations import open_source

    async with trust.web() as web:
        source = await open_source(location, web, os.environ, plain_http=trust.plain_http, progress=Meter())
        return await pulling.pull(source, name, directory)
