"""``csctl index``: the list of releases for a plain web server."""

from __future__ import annotations

from pathlib import Path

import click

from clusterstacks.cli.shared import output
from clusterstacks.cli.shared.options import JSON, form_option


@click.command(short_help="Write the index of a directory of releases.")
@click.argument("directory", metavar="DIR", type=click.Path(exists=True, file_okay=False, path_type=Path))
@form_option()
def index(directory: Path, form: str) -> None:
    """Write DIR/index.json, which lists the releases in DIR with the digests of their files and signatures.

    With it any web server that serves DIR is a source of releases. Write it again after each new release.
    """
    from clusterstacks.sources.http_index import INDEX, write_index

    write_index(directory)
    if form == JSON:
        output.print_json({"index": str(directory / INDEX)})
    else:
        output.say(str(directory / INDEX))
