"""``csctl init``: begin a stack."""

from __future__ import annotations

import shlex
from pathlib import Path

import click

from clusterstacks.cli.shared import output
from clusterstacks.cli.shared.output_option import JSON, form_option


@click.command(short_help="Begin a stack.")
@click.argument("name", metavar="PROVIDER/STACK/1-35")
@click.argument("directory", metavar="[DIR]", required=False, type=click.Path(file_okay=False, path_type=Path))
@click.option(
    "--kubernetes-version", metavar="v1.35.4", default="", help="The full version.  [default: the first patch]"
)
@form_option()
def init(name: str, directory: Path | None, kubernetes_version: str, form: str) -> None:
    """Write a small stack.

    DIR is providers/PROVIDER/STACK/1-35 unless it is given; a .gitignore is then written here as well, where there is
    none. No existing file is touched. A stack of provider local is complete and runs with 'csctl dev'. One of another
    provider has templates whose fields are to be filled in: 'csctl lint' names them, and 'csctl create' refuses to
    build until that is done.
    """
    from datetime import UTC, datetime

    from clusterstacks.authoring.scaffold import IGNORED, Beginning, write

    beginning = Beginning.parse(name, kubernetes_version)
    if doubt := beginning.doubt(datetime.now(UTC).date()):
        output.warn(doubt)
    place = directory or beginning.directory
    written = write(beginning.files(), place)
    if directory is None and not Path(".gitignore").exists():
        written += write({".gitignore": IGNORED}, Path())
    if form == JSON:
        output.print_json({"directory": str(place), "files": [str(path) for path in written]})
        return
    for path in written:
        output.say(str(path))
    output.note(f"next: {output.program()} lint {shlex.quote(str(place))}; {place / 'README.md'} says how to go on")
