"""``csctl compat``: show which versions work together, and the sources of these facts."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from clusterstacks.cli.shared import output
from clusterstacks.cli.shared.cluster_options import (
    ClusterName,
    ManagementCluster,
    installed_facts_directory,
    management_options,
    read_cluster_outlook,
    upstream_facts,
)
from clusterstacks.cli.shared.options import DIRECTORY, FILE, form_option

if TYPE_CHECKING:
    from collections.abc import Sequence

    from clusterstacks.clusters.context import Outlook
    from clusterstacks.compat.constraints import Judges
    from clusterstacks.compat.world import Candidate
    from clusterstacks.domain.objects import ObjectKey
    from clusterstacks.domain.versions import KubernetesVersion


class SubjectParam(ClusterName):
    """Parameter type of ``DIR``, or of ``NAMESPACE/CLUSTER`` unless the directory exists."""

    name = "DIR|NAMESPACE/CLUSTER"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:  # noqa: ANN401 - click's signature
        """Read a directory or the name of a Cluster."""
        if isinstance(value, Path) or Path(value).is_dir():
            return Path(value)
        try:
            return super().convert(value, param, ctx)
        except click.BadParameter:
            self.fail(f"{value!r} is neither a directory nor a Cluster (expected for example team-a/prod)", param, ctx)


@dataclass(frozen=True, slots=True)
class CompatSubjects:
    """The arguments of ``check`` and ``matrix``: directories, or one Cluster of a management cluster."""

    directories: tuple[Path, ...]
    outlook: Outlook | None = None

    @classmethod
    def read(
        cls, named: Sequence[Path | ObjectKey], management: ManagementCluster, releases: Path | None
    ) -> CompatSubjects:
        """Read the arguments, and print the warnings of the outlook of a Cluster.

        Raises:
            ClusterStacksError: As :func:`~clusterstacks.cli.shared.cluster_options.read_cluster_outlook`.
        """
        directories = tuple(one for one in named if isinstance(one, Path))
        clusters = [one for one in named if not isinstance(one, Path)]
        if not clusters:
            if releases is not None or management != ManagementCluster():
                raise click.UsageError("--kubeconfig, --context and --releases require NAMESPACE/CLUSTER")
            return cls(directories)
        if directories or len(clusters) > 1:
            raise click.UsageError("expected either directories or one NAMESPACE/CLUSTER")
        outlook = asyncio.run(_read_live(management, clusters[0], releases))
        output.warn_all(outlook.notices)
        return cls((), outlook)

    def judges(self) -> Judges:
        """Return the facts and rules that apply in addition to the releases."""
        from clusterstacks.compat.constraints import Judges

        return self.outlook.judges() if self.outlook is not None else Judges(upstream=upstream_facts())

    def releases(self) -> list[tuple[str, Candidate]]:
        """Return the label and the statements of each release: in the directories, or of the Cluster's stack."""
        if self.outlook is None:
            from clusterstacks.authoring.read_compat import read_statements

            return [one for directory in self.directories for one in read_statements(directory)]
        return [(str(one.name), one) for one in sorted(self.outlook.world.candidates, key=lambda one: one.name)]

    def combinations(self) -> list[tuple[str, Candidate, KubernetesVersion]]:
        """Return the label, the versions and the Kubernetes version of each combination to check."""
        if self.outlook is None:
            return [(label, one, one.kubernetes) for label, one in self.releases()]
        cluster = self.outlook.cluster
        label = f"Cluster {cluster.view.key} of class {cluster.release.class_name}"
        return [(label, self.outlook.combination(), cluster.kubernetes)]


async def _read_live(management: ManagementCluster, cluster: ObjectKey, releases: Path | None) -> Outlook:
    async with management.connected() as client:
        return await read_cluster_outlook(client, cluster, releases)


subjects_argument = click.argument(
    "subjects", metavar="DIR... or NAMESPACE/CLUSTER", nargs=-1, required=True, type=SubjectParam()
)


@click.group(short_help="Show which versions work together.")
def compat() -> None:
    """Show which versions work together, by the facts of releases and of upstream projects.

    The built-in facts are statements of upstream projects up to the date that 'csctl compat show' prints, or of
    secondary sources if a project publishes none. Each fact names its source. 'csctl compat update' installs newer
    facts that override the built-in ones. Releases add facts in their compatibility.yaml; 'csctl compat infer' writes
    the first one of a stack.
    """


@compat.command(short_help="Show the facts about components.")
@click.argument("component", required=False)
@form_option()
def show(component: str | None, form: str) -> None:
    """List the components with known facts, or show the facts about one component."""
    from clusterstacks.cli.shared.compat_output import print_list, print_sheet

    known = upstream_facts().components
    if component is None:
        print_list([known[name] for name in known], form)
    elif component in known:
        print_sheet(known[component], form)
    else:
        raise click.UsageError(f"no facts about {component} are known: 'csctl compat show' lists the components")


@compat.command(short_help="Check every component of a release or of a Cluster.")
@subjects_argument
@click.option(
    "--kubernetes",
    metavar="v1.36.1",
    default="",
    help="Check with this version.  [default: the version of the release or Cluster]",
)
@management_options
@form_option()
def check(
    subjects: tuple[Path | ObjectKey, ...],
    kubernetes: str,
    management: ManagementCluster,
    releases: Path | None,
    form: str,
) -> int:
    """Check every component with a Kubernetes version, and print the facts that decide.

    DIR are releases or stacks. Only metadata.yaml and compatibility.yaml of a release are read, and the settings of a
    stack. Contradictory statements about the same version of a component are reported.

    NAMESPACE/CLUSTER is a Cluster of the management cluster. Its class and its addons are checked, also against the
    CompatibilityRules. Releases are found as with 'csctl plan'. If a directory has this name, it takes precedence.

    Exits with 3 if a component is incompatible, otherwise with 0: untested or unknown combinations are not an error.
    """
    from clusterstacks.cli.shared.compat_output import CheckedRelease, print_checked
    from clusterstacks.compat.matrices import contradictions, parts
    from clusterstacks.domain.versions import KubernetesVersion

    given = KubernetesVersion.parse(kubernetes) if kubernetes else None
    found = CompatSubjects.read(subjects, management, releases)
    judges, combinations = found.judges(), found.combinations()
    checked = []
    for label, candidate, own in combinations:
        version = given or own
        checked.append(CheckedRelease(label, version, parts(candidate, version, judges)))
    print_checked(checked, contradictions([(label, candidate) for label, candidate, _ in combinations]), form)
    return output.NEGATIVE if any(one.broken for one in checked) else 0


@compat.command(short_help="Print a table of compatible versions.")
@subjects_argument
@management_options
@form_option()
def matrix(
    subjects: tuple[Path | ObjectKey, ...], management: ManagementCluster, releases: Path | None, form: str
) -> None:
    """Print which releases and component versions work with which Kubernetes minor.

    DIR are directories of releases or stacks. For a Cluster, csctl prints the releases of its stack in the management
    cluster. The first rows are releases with their own addons. The rows below are component versions, because a
    Cluster can use an addon of another release.
    """
    from clusterstacks.cli.shared.compat_output import print_matrix
    from clusterstacks.compat.kubernetes import known_minors
    from clusterstacks.compat.matrices import matrix as tabulate

    found = CompatSubjects.read(subjects, management, releases)
    print_matrix(tabulate(found.releases(), known_minors(), found.judges()), form)


@compat.command(short_help="Install newer facts about a component.")
@click.argument("file", type=FILE)
def update(file: Path) -> None:
    """Check a facts file and install it for your user; it replaces the built-in facts about its component.

    The file has the schema of the built-in files. To return to the built-in facts, delete the installed file; its path
    is printed.
    """
    from datetime import UTC, datetime

    from clusterstacks.compat.library import facts, install

    found, built_in = install(file, installed_facts_directory(), datetime.now(UTC).date()), facts().components
    output.say(f"{found.name}: facts of {found.read}, {found.origin}")
    if found.name in built_in and found.read < built_in[found.name].read:
        output.note(f"the built-in facts are newer (of {built_in[found.name].read})")


@compat.command(short_help="Write the first compatibility.yaml of a stack.")
@click.argument("directory", metavar="DIR", type=DIRECTORY)
@click.option("--force", is_flag=True, help="Overwrite an existing compatibility.yaml.")
def infer(directory: Path, *, force: bool) -> None:
    """Write the compatibility.yaml of a stack from its charts and the facts; comments mark evidence and guesses."""
    from clusterstacks.authoring.infer_compat import infer_file
    from clusterstacks.compat.kubernetes import known_minors

    place = infer_file(directory, upstream_facts(), known_minors(), force=force)
    output.say(str(place))
    output.note(f"next: read its comments, then {output.program()} lint {directory}")
