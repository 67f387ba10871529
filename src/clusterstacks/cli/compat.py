"""``csctl compat``: what works with what, and who says so."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from clusterstacks.cli.shared import output
from clusterstacks.cli.shared.cluster_options import Management, management_options
from clusterstacks.cli.shared.compat_subjects import Subjects, subjects_argument
from clusterstacks.cli.shared.output_option import form_option
from clusterstacks.cli.shared.paths import DIRECTORY, FILE
from clusterstacks.cli.shared.upstream_facts import facts_in_force, installed_facts

if TYPE_CHECKING:
    from pathlib import Path

    from clusterstacks.domain.objects import ObjectKey


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
@form_option()
def show(component: str | None, form: str) -> None:
    """List the components facts are known about, or show what is known about one."""
    from clusterstacks.cli.shared import upstream_tables

    known = facts_in_force().components
    if component is None:
        upstream_tables.print_list([known[name] for name in known], form)
    elif component in known:
        upstream_tables.print_sheet(known[component], form)
    else:
        raise click.UsageError(f"nothing is known about {component}: 'csctl compat show' lists the components")


@compat.command(short_help="Judge every component of a release or of a Cluster.")
@subjects_argument
@click.option(
    "--kubernetes", metavar="v1.36.1", default="", help="Judge with it.  [default: the release's own, or the Cluster's]"
)
@management_options
@form_option()
def check(
    subjects: tuple[Path | ObjectKey, ...], kubernetes: str, management: Management, releases: Path | None, form: str
) -> int:
    """Judge every component with a Kubernetes version, and name the facts that decide.

    DIR are releases or stacks: of a release only metadata.yaml and compatibility.yaml are read, of a stack also its
    settings. Contradictory statements about the same version of a component are reported.

    NAMESPACE/CLUSTER is a Cluster of the management cluster: its class and the addons that it asks for are judged, with
    the rules of the provider. Releases are found as by 'csctl plan'. A directory of that name comes first.

    Exits with 3 when something is incompatible, otherwise with 0: what is untested or unknown is not an error.
    """
    from clusterstacks.cli.shared.compat_tables import Checked, print_checked
    from clusterstacks.compat.combinations import contradictions, parts
    from clusterstacks.domain.versions import KubernetesVersion

    asked = KubernetesVersion.parse(kubernetes) if kubernetes else None
    found = Subjects.read(subjects, management, releases)
    judges, combinations = found.judges(), found.combinations()
    checked = []
    for label, candidate, own in combinations:
        version = asked or own
        checked.append(Checked(label, version, parts(candidate, version, judges)))
    print_checked(checked, contradictions([(label, candidate) for label, candidate, _ in combinations]), form)
    return output.NEGATIVE if any(one.broken for one in checked) else 0


@compat.command(short_help="Print which combinations work.")
@subjects_argument
@management_options
@form_option()
def matrix(subjects: tuple[Path | ObjectKey, ...], management: Management, releases: Path | None, form: str) -> None:
    """Print which releases, and which versions of their components, work with which Kubernetes minor.

    DIR are directories of releases or stacks. For a Cluster, the releases of its stack in the management cluster are
    shown. The first rows are releases with their own addons. The rows below are the versions of every component, as
    addons can be taken from another release.
    """
    from clusterstacks.cli.shared.compat_tables import print_matrix
    from clusterstacks.compat.kubernetes import known_minors
    from clusterstacks.compat.matrices import matrix as tabulate

    found = Subjects.read(subjects, management, releases)
    print_matrix(tabulate(found.releases(), known_minors(), found.judges()), form)


@compat.command(short_help="Install newer facts on a component.")
@click.argument("file", type=FILE)
def update(file: Path) -> None:
    """Check a facts file and install it for you; it replaces the built-in facts on its component.

    The file has the schema of the built-in ones. Removing the installed file, whose path is printed, brings the
    built-in facts back.
    """
    from datetime import UTC, datetime

    from clusterstacks.compat.install import install
    from clusterstacks.compat.library import facts

    found, built_in = install(file, installed_facts(), datetime.now(UTC).date()), facts().components
    output.say(f"{found.name}: facts of {found.read}, {found.origin}")
    if found.name in built_in and found.read < built_in[found.name].read:
        output.note(f"the built-in facts are newer, of {built_in[found.name].read}")


@compat.command(short_help="Begin the compatibility.yaml of a stack.")
@click.argument("directory", metavar="DIR", type=DIRECTORY)
@click.option("--force", is_flag=True, help="Write over a compatibility.yaml that is there.")
def infer(directory: Path, *, force: bool) -> None:
    """Write the compatibility.yaml of a stack from its charts and the facts; comments tell evidence from guesses."""
    from clusterstacks.authoring.infer_compat import infer_file
    from clusterstacks.compat.kubernetes import known_minors

    place = infer_file(directory, facts_in_force(), known_minors(), force=force)
    output.say(str(place))
    output.note(f"next: read its comments, then {output.program()} lint {directory}")
