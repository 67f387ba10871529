"""``csctl index``: write the index of releases for a plain web server."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from clusterstacks.csctl.shared import output
from clusterstacks.csctl.shared.options import DIRECTORY, TEXT, form_option

if TYPE_CHECKING:
    from pathlib import Path


@click.command(short_help="Write the index of a directory of releases.")
@click.argument("directory", metavar="DIR", type=DIRECTORY)
@form_option()
def index(directory: Path, form: str) -> None:
    """Write DIR/index.json, which lists the releases in DIR with the digests of their files and signatures.

    With this file, any web server that serves DIR is a source of releases. Write it again after each new release.
    """
    from clusterstacks.release.sources.http_index import INDEX, write_index

    write_index(directory)
    if form != TEXT:
        output.print_document({"index": str(directory / INDEX)}, form)
    else:
        output.say(str(directory / INDEX))
