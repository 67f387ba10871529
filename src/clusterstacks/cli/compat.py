"""``csctl compat``: what works with what, and who says so."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from clusterstacks.cli import output
from clusterstacks.cli.upstream import facts_in_force, installed_facts

if TYPE_CHECKING:
    from clusterstacks.domain.planning.world import Candidate

FILE = click.Path(exists=True, dir_okay=False, path_type=Path)
DIRECTORY = click.Path(exists=True, file_okay=False, path_type=Path)

directories_argument = click.argument("directories", metavar="DIR...", nargs=-1, required=True, type=DIRECTORY)
form_option = click.option(
    "--output", "-o", "form", type=click.Choice(["text", "json"]), default="text", show_default=True
)


@click.group(short_help="Say which versions work together.")
def compat() -> None:
    """Say which versions work together, by the facts of releases and of upstream projects.

    Built-in facts are what upstream projects published up to the day that 'csctl compat show' names, and where they
    publish nothing what secondary sources say; each fact names its source. 'csctl compat update' installs newer facts
    that override the built-in ones. A release says more in its compatibility.yaml; 'csctl compat infer' writes a first
    one.
    """


@compat.command(short_help="Show the facts on components.")
@click.argument("component", required=False)
@form_option
def show(component: str | None, form: str) -> None:
    """List the components facts are known about, or show what is known about one."""
    from clusterstacks.cli import factsheets

    known = facts_in_force().components
    if component is None:
        factsheets.print_list([known[name] for name in known], form)
    elif component in known:
        factsheets.print_sheet(known[component], form)
    else:
        raise click.UsageError(f"nothing is known about {component}: 'csctl compat show' lists the components")


@compat.command(short_help="Judge every component of a release.")
@directories_argument
@click.option("--kubernetes", metavar="v1.36.1", default="", help="Of the cluster.  [default: the release's own]")
@form_option
def check(directories: tuple[Path, ...], kubernetes: str, form: str) -> int:
    """Judge every component of releases or stacks with a Kubernetes version, and name the facts that decide.

    Of a release only metadata.yaml and compatibility.yaml are read, of a stack also its settings. Where several DIR are
    given, contradictory statements about the same version of a component are reported. Exits with 3 when something is
    incompatible, otherwise with 0: what is untested or unknown is not an error.
    """
    from clusterstacks.cli.verdicts import Checked, print_checked
    from clusterstacks.domain.combinations import contradictions, parts
    from clusterstacks.domain.versions import KubernetesVersion

    wanted = KubernetesVersion.parse(kubernetes) if kubernetes else None
    upstream, labelled = facts_in_force(), _labelled(directories)
    checked = []
    for label, candidate in labelled:
        version = wanted or candidate.kubernetes
        checked.append(Checked(label, version, parts(candidate, version, upstream)))
    print_checked(checked, contradictions(labelled), form)
    return output.NEGATIVE if any(one.broken for one in checked) else 0


@compat.command(short_help="Print which combinations work.")
@directories_argument
@form_option
def matrix(directories: tuple[Path, ...], form: str) -> None:
    """Print which releases, and which versions of their components, work with which Kubernetes minor.

    DIR are directories of releases or stacks. The first rows are releases with their own addons; below them stands
    every version of every component, as addons can be taken from another release.
    """
    from clusterstacks.api.compatibility.kubernetes import known_minors
    from clusterstacks.cli.verdicts import print_matrix
    from clusterstacks.domain.matrices import matrix as tabulate

    print_matrix(tabulate(_labelled(directories), known_minors(), facts_in_force()), form)


@compat.command(short_help="Install newer facts on a component.")
@click.argument("file", type=FILE)
def update(file: Path) -> None:
    """Check a facts file and install it for you; it replaces the built-in facts on its component.

    The file has the schema of the built-in ones. Removing the installed file, whose path is printed, brings the
    built-in facts back.
    """
    from datetime import UTC, datetime

    from clusterstacks.api.compatibility.installing import install
    from clusterstacks.api.compatibility.library import facts

    found, built_in = install(file, installed_facts(), datetime.now(UTC).date()), facts().components
    output.say(f"{found.name}: facts of {found.read}, {found.origin}")
    if found.name in built_in and found.read < built_in[found.name].read:
        output.note(f"the built-in facts are newer, of {built_in[found.name].read}")


@compat.command(short_help="Begin the compatibility.yaml of a stack.")
@click.argument("directory", metavar="DIR", type=DIRECTORY)
@click.option("--force", is_flag=True, help="Write over a compatibility.yaml that is there.")
def infer(directory: Path, *, force: bool) -> None:
    """Write the compatibility.yaml of a stack from its charts and the facts; comments tell evidence from guesses."""
    from clusterstacks.api.compatibility.kubernetes import known_minors
    from clusterstacks.authoring.inferring import infer_file

    place = infer_file(directory, facts_in_force(), known_minors(), force=force)
    output.say(str(place))
    output.note(f"next: read its comments, then {output.program()} lint {directory}")


def _labelled(directories: tuple[Path, ...]) -> list[tuple[str, Candidate]]:
    from clusterstacks.authoring.stating import stated_by

    return [one for directory in directories for one in stated_by(directory)]
