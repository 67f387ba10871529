"""``csctl init``: write a new stack."""

from __future__ import annotations

import shlex
from pathlib import Path

import click

from clusterstacks.csctl.shared import output
from clusterstacks.csctl.shared.cluster_options import upstream_facts
from clusterstacks.csctl.shared.options import TEXT, form_option


@click.command(short_help="Write a new stack.")
@click.argument("name", metavar="PROVIDER/STACK/1-35")
@click.argument("directory", metavar="[DIR]", required=False, type=click.Path(file_okay=False, path_type=Path))
@click.option(
    "--kubernetes-version", metavar="v1.35.4", default="", help="Full Kubernetes version.  [default: the first patch]"
)
@form_option()
def init(name: str, directory: Path | None, kubernetes_version: str, form: str) -> None:
    """Write a small stack into DIR.

    The default of DIR is providers/PROVIDER/STACK/1-35. Without DIR, a .gitignore is also written in the current
    directory if it has none. Existing files are never changed. compatibility.yaml is as 'csctl compat infer' writes it.

    A stack of provider local is complete and runs with 'csctl dev'. A stack of another provider has templates with
    empty fields: 'csctl lint' names them, and 'csctl create' refuses to build the stack until you fill them in.
    """
    from datetime import UTC, datetime

    from clusterstacks.csctl.authoring.infer_compat import infer_file
    from clusterstacks.csctl.authoring.scaffold import IGNORED, NewStack, write_new_files
    from clusterstacks.plan.compat.kubernetes import known_minors

    stack = NewStack.parse(name, kubernetes_version)
    if warning := stack.version_warning(datetime.now(UTC).date()):
        output.warn(warning)
    place = directory or stack.directory
    written = write_new_files(stack.files(), place)
    written += (infer_file(place, upstream_facts(), known_minors(), force=False),)
    if directory is None and not Path(".gitignore").exists():
        written += write_new_files({".gitignore": IGNORED}, Path())
    if form != TEXT:
        output.print_document({"directory": str(place), "files": [str(path) for path in written]}, form)
        return
    for path in written:
        output.say(str(path))
    output.note(
        f"next: {output.program()} lint {shlex.quote(str(place))}; {place / 'README.md'} describes the next steps"
    )
