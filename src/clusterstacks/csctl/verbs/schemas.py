"""``csctl schemas``: write the JSON schemas of the files of a stack and of our kinds."""

from __future__ import annotations

from pathlib import Path

import click

from clusterstacks.csctl.shared import output
from clusterstacks.csctl.shared.options import TEXT, form_option
from clusterstacks.runtime.files import replace_file


@click.command(short_help="Write JSON schemas for editors.")
@click.argument("directory", metavar="DIR", type=click.Path(file_okay=False, path_type=Path))
@form_option()
def schemas(directory: Path, form: str) -> None:
    """Write the JSON schemas of the files of a stack, and of the operator's kinds, below DIR.

    Editors with yaml-language-server complete and check files with them. The schemas of the kinds are in the layout
    that kubeconform reads. Existing files of the same names are replaced.
    """
    from clusterstacks.csctl.authoring.file_schemas import all_schemas, schema_text

    written = []
    for path, schema in all_schemas().items():
        place = directory / path
        place.parent.mkdir(parents=True, exist_ok=True)
        replace_file(place, schema_text(schema).encode(), durable=False)
        written.append(str(place))
    if form != TEXT:
        output.print_document({"files": written}, form)
    else:
        output.say_lines(*written)
