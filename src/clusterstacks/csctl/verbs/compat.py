"""``csctl compat``: show which versions work together, and the sources of these facts."""

from __future__ import annotations

import asyncio
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from clusterstacks.csctl.shared import output
from clusterstacks.csctl.shared.cluster_options import (
    ClusterName,
    ManagementCluster,
    cluster_options,
    installed_facts_directory,
    management_options,
    read_live,
    upstream_facts,
)
from clusterstacks.csctl.shared.options import DIRECTORY, FILE, form_option
from clusterstacks.csctl.shared.registry_options import ServerTrust, trust_options
from clusterstacks.csctl.shared.release_ref import DIRECTORY_OR_REF, DirectoryOrRef, ReleaseRef, open_release_directory

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from datetime import date

    from click.shell_completion import CompletionItem

    from clusterstacks.model.objects import Manifest, ObjectKey
    from clusterstacks.model.versions import KubernetesVersion
    from clusterstacks.plan.clusters.context import UpgradeContext
    from clusterstacks.plan.compat.constraints import Judges
    from clusterstacks.plan.compat.world import Candidate


class SubjectParam(ClusterName):
    """Parameter type of ``DIR``, ``REF``, or of ``CLUSTER`` unless the directory exists."""

    name = "DIR|REF|CLUSTER"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:  # noqa: ANN401 - click's signature
        """Read a directory, a reference or the name of a Cluster."""
        if isinstance(value, Path | ReleaseRef) or Path(value).is_dir() or ":" in str(value):
            return DIRECTORY_OR_REF.convert(value, param, ctx)
        try:
            return super().convert(value, param, ctx)
        except click.BadParameter:
            self.fail(
                f"{value!r} is not an existing directory, not a release (expected REF:<release name>), and not the "
                "name of a Cluster (expected NAME or NAMESPACE/NAME, for example team-a/prod)",
                param,
                ctx,
            )

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
        """Complete directories and Clusters."""
        return [
            *DIRECTORY_OR_REF.shell_complete(ctx, param, incomplete),
            *super().shell_complete(ctx, param, incomplete),
        ]


@dataclass(frozen=True, slots=True)
class CompatSubjects:
    """The arguments of ``check`` and ``matrix``: releases and stacks, or one Cluster of a management cluster."""

    stated: tuple[tuple[str, Candidate], ...]
    context: UpgradeContext | None = None

    @classmethod
    def read(
        cls,
        named: Sequence[DirectoryOrRef | ObjectKey],
        management: ManagementCluster,
        releases: Path | None,
        trust: ServerTrust,
    ) -> CompatSubjects:
        """Read the arguments, and print the warnings about a Cluster.

        Raises as :func:`~clusterstacks.csctl.shared.cluster_options.read_cluster_context`.
        """
        sources = [subject for subject in named if isinstance(subject, Path | ReleaseRef)]
        clusters = [subject for subject in named if not isinstance(subject, Path | ReleaseRef)]
        if not clusters:
            if releases is not None or management != ManagementCluster():
                raise click.UsageError("--kubeconfig, --context, --namespace and --releases require CLUSTER")
            return cls(asyncio.run(_statements(sources, trust)))
        if sources or len(clusters) > 1:
            raise click.UsageError("expected either directories and references or one CLUSTER")
        with _explained_as_cluster(clusters[0]):
            context = asyncio.run(read_live(management, management.full_key(clusters[0]), releases))
        output.warn_all(context.notices)
        return cls((), context)

    def judges(self) -> Judges:
        """Return the facts and rules that apply in addition to the releases."""
        from clusterstacks.plan.compat.constraints import Judges

        return self.context.judges() if self.context is not None else Judges(upstream=upstream_facts())

    def releases(self) -> list[tuple[str, Candidate]]:
        """Return the label and the statements of each release: of the arguments, or of the Cluster's stack."""
        if self.context is None:
            return [*self.stated]
        candidates = sorted(self.context.world.candidates, key=lambda candidate: candidate.name)
        return [(str(candidate.name), candidate) for candidate in candidates]

    def combinations(self) -> list[tuple[str, Candidate, KubernetesVersion]]:
        """Return the label, the versions and the Kubernetes version of each combination to check."""
        if self.context is None:
            return [(label, candidate, candidate.kubernetes) for label, candidate in self.releases()]
        cluster = self.context.cluster
        label = f"Cluster {cluster.view.key} of class {cluster.release.class_name}"
        return [(label, self.context.combination(), cluster.kubernetes)]


async def _statements(sources: Sequence[DirectoryOrRef], trust: ServerTrust) -> tuple[tuple[str, Candidate], ...]:
    from clusterstacks.csctl.authoring.read_compat import read_statements

    statements: list[tuple[str, Candidate]] = []
    for source in sources:
        async with open_release_directory(source, trust) as directory:
            statements += await asyncio.to_thread(read_statements, directory)
    return tuple(statements)


@contextmanager
def _explained_as_cluster(name: ObjectKey) -> Iterator[None]:
    """Add to errors that the argument was read as a Cluster: it may be a mistyped path."""
    from clusterstacks.model.errors import ClusterStacksError, DependencyError, SpecError

    try:
        yield
    except ClusterStacksError as error:
        kind = DependencyError if isinstance(error, DependencyError) else SpecError
        problem = f"no directory has the path {name}, so it was read as the name of a Cluster; correct it for files"
        raise kind(error.code, f"{error.message} ({problem})") from None


subjects_argument = click.argument(
    "subjects", metavar="DIR|REF... or CLUSTER", nargs=-1, required=True, type=SubjectParam()
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
    from clusterstacks.csctl.shared.compat_output import print_list, print_sheet

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
@trust_options
@form_option()
def check(
    trust: ServerTrust,
    subjects: tuple[DirectoryOrRef | ObjectKey, ...],
    *,
    kubernetes: str,
    management: ManagementCluster,
    releases: Path | None,
    form: str,
) -> int:
    """Check every component with a Kubernetes version, and print the facts that decide.

    DIR are releases or stacks. Only metadata.yaml and compatibility.yaml of a release are read, and the settings of a
    stack. REF is a reference to a release as for 'csctl pull'; --ca and --plain-http are for its server. Contradictory
    statements about the same version of a component are reported.

    CLUSTER is a Cluster of the management cluster. Its class and its addons are checked, also against the
    CompatibilityRules. Releases are found as with 'csctl plan'. If a directory has this name, it takes precedence.

    Exits with 3 if a component is incompatible, otherwise with 0: untested or unknown combinations are not an error.
    """
    from clusterstacks.csctl.shared.compat_output import CheckedRelease, print_checked
    from clusterstacks.model.versions import KubernetesVersion
    from clusterstacks.plan.compat.matrices import contradictions, parts

    given = KubernetesVersion.parse(kubernetes) if kubernetes else None
    compared = CompatSubjects.read(subjects, management, releases, trust)
    judges, combinations = compared.judges(), compared.combinations()
    checked = []
    for label, candidate, own in combinations:
        version = given or own
        checked.append(CheckedRelease(label, version, parts(candidate, version, judges)))
    print_checked(checked, contradictions([(label, candidate) for label, candidate, _ in combinations]), form)
    return output.NEGATIVE if any(release.broken for release in checked) else 0


@compat.command(short_help="Print a table of compatible versions.")
@subjects_argument
@management_options
@trust_options
@form_option()
def matrix(
    trust: ServerTrust,
    subjects: tuple[DirectoryOrRef | ObjectKey, ...],
    *,
    management: ManagementCluster,
    releases: Path | None,
    form: str,
) -> None:
    """Print which releases and component versions work with which Kubernetes minor.

    DIR are directories of releases or stacks, REF references to releases as for 'csctl pull'. For a Cluster, csctl
    prints the releases of its stack in the management cluster. The first rows are releases with their own addons. The
    rows below are component versions, because a Cluster can use an addon of another release. On a terminal that is too
    narrow, marks replace the words, and the table is printed in parts.
    """
    from clusterstacks.csctl.shared.compat_output import print_matrix
    from clusterstacks.plan.compat.kubernetes import known_minors
    from clusterstacks.plan.compat.matrices import matrix as tabulate

    compared = CompatSubjects.read(subjects, management, releases, trust)
    print_matrix(tabulate(compared.releases(), known_minors(), compared.judges()), form)


@compat.command(name="calendar", short_help="Show when versions in use leave support.")
@click.argument("subject", metavar="[CLUSTER|DIR|REF]", required=False, type=SubjectParam())
@cluster_options
@trust_options
@form_option()
def calendar_verb(
    trust: ServerTrust, subject: DirectoryOrRef | ObjectKey | None, management: ManagementCluster, form: str
) -> None:
    """Print when the Kubernetes minors and addons in use leave the support of their projects, the first one first.

    Without argument these are the versions of all Clusters of cluster stacks in the management cluster, with
    CLUSTER those of one. For a Kubernetes minor that leaves support within 60 days, or has left it, the
    output has the number of steps to the nearest minor that stays supported longer, for one Cluster of each class and
    version. DIR are releases or stacks, REF is a reference as for 'csctl pull': then csctl needs no cluster.

    Each date has its source. The dates are as old as the facts: 'csctl compat update' installs newer ones of addons;
    those of Kubernetes come with csctl. Versions of addons are known as far as releases state them.
    """
    from datetime import UTC, datetime

    from clusterstacks.csctl.shared.support_calendar import print_calendar, read_calendar
    from clusterstacks.plan.compat.support import Uses, calendar
    from clusterstacks.plan.compat.support_facts import support_ends

    today = datetime.now(UTC).date()
    if isinstance(subject, Path | ReleaseRef):
        if management != ManagementCluster():
            raise click.UsageError("--kubeconfig, --context and --namespace require CLUSTER, or no argument")
        uses = [
            Uses(label, one.kubernetes.series, one.compatibility.components if one.compatibility else ())
            for label, one in asyncio.run(_statements([subject], trust))
        ]
        print_calendar(calendar(uses, support_ends(), upstream_facts().support_end), {}, today, form, "release")
        return
    uses, ways = asyncio.run(read_calendar(management, subject, today))
    print_calendar(calendar(uses, support_ends(), upstream_facts().support_end), ways, today, form, "Cluster")


@compat.command(short_help="Install newer facts about a component.")
@click.argument("file", type=FILE)
def update(file: Path) -> None:
    """Check a facts file and install it for your user; it replaces the built-in facts about its component.

    The file has the schema of the built-in files. To return to the built-in facts, delete the installed file; its path
    is printed.
    """
    from datetime import UTC, datetime

    from clusterstacks.plan.compat.library import facts, install

    installed, built_in = install(file, installed_facts_directory(), datetime.now(UTC).date()), facts().components
    output.say(f"{installed.name}: facts of {installed.read}, {installed.origin}")
    if installed.name in built_in and installed.read < built_in[installed.name].read:
        output.note(f"the built-in facts are newer (of {built_in[installed.name].read})")


@compat.group(name="import", short_help="Install facts of a community data set.")
def import_group() -> None:
    """Install facts of a community data set for your user, about components without built-in facts.

    Most of their rows name no source, so these facts never make a combination incompatible: outside of them it is
    untested. csctl downloads nothing: fetch the data first, and respect its licence.
    """


@import_group.command(short_help="Import the compatibility files of Plural.")
@click.argument("directory", metavar="DIR", type=DIRECTORY)
def plural(directory: Path) -> None:
    """Import the directory static/compatibilities of the repository pluralsh/console."""
    from datetime import UTC, datetime

    from clusterstacks.model import yaml
    from clusterstacks.plan.compat.community_facts import facts_of_plural

    today = datetime.now(UTC).date()
    files = sorted(directory.glob("*.yaml"))
    if not files:
        raise click.UsageError(f"{directory} has no file NAME.yaml: name the directory static/compatibilities")
    for file in files:
        _install_community(
            file.stem, facts_of_plural(file.stem, yaml.load(file.read_bytes(), name=str(file)), today), today
        )


@import_group.command(short_help="Import a product of endoflife.date.")
@click.argument("file", type=FILE)
def endoflife(file: Path) -> None:
    """Import a file products/NAME.md of the repository endoflife-date/endoflife.date, mostly for its days."""
    from datetime import UTC, datetime

    from clusterstacks.plan.compat.community_facts import facts_of_endoflife

    today = datetime.now(UTC).date()
    _install_community(file.stem, facts_of_endoflife(file.stem, file.read_text("utf-8"), today), today)


def _install_community(component: str, document: Manifest | None, today: date) -> None:
    """Install a facts file, unless there are built-in facts or it has no usable row (None); print what happened."""
    from clusterstacks.model import yaml
    from clusterstacks.plan.compat.library import OWN_SHAPE, facts, install_content

    if component in facts().components or component in OWN_SHAPE:
        output.note(f"{component}: skipped, the built-in facts name their sources")
        return
    if document is None:
        output.note(f"{component}: skipped, no row names Kubernetes versions or an end of support")
        return
    installed = install_content(yaml.dump(document).encode(), component, installed_facts_directory(), today)
    output.say(f"{component}: {len(document['versions'])} statements, {installed.origin}")


@compat.command(short_help="Write the first compatibility.yaml of a stack.")
@click.argument("directory", metavar="DIR", type=DIRECTORY)
@click.option("--force", is_flag=True, help="Overwrite an existing compatibility.yaml.")
def infer(directory: Path, *, force: bool) -> None:
    """Write the compatibility.yaml of a stack from its charts and the facts; comments mark evidence and guesses."""
    from clusterstacks.csctl.authoring.infer_compat import infer_file
    from clusterstacks.plan.compat.kubernetes import known_minors

    place = infer_file(directory, upstream_facts(), known_minors(), force=force)
    output.say(str(place))
    output.note(f"next: read its comments, then {output.program()} lint {directory}")
