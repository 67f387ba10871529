"""``csctl index``: the list of releases for a plain web server."""

from __future__ import annotations

from pathlib import Path

import click

from clusterstacks.cli import output


@click.command(short_help="Write the index of a directory of releases.")
@click.argument("directory", metavar="DIR", type=click.Path(exists=True, file_okay=False, path_type=Path))
def index(directory: Path) -> None:
    """Write DIR/index.json, which lists the releases in DIR with the digests of their files and signatures.

    With it any web server that serves DIR is a source of releases. Write it again after each new release.
    """
    from clusterstacks.releases.webindex import INDEX, write_index

    write_index(directory)
    output.say(str(directory / INDEX))
