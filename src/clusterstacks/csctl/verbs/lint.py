"""``csctl lint``: report problems of stack directories."""

from __future__ import annotations

from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import click

from clusterstacks.csctl.shared import output
from clusterstacks.csctl.shared.options import (
    FILE,
    JSON,
    TEXT,
    YAML,
    chart_dependencies,
    dependency_options,
    example_objects_option,
    form_option,
    minor_options,
)
from clusterstacks.csctl.shared.registry_options import ServerTrust, trust_options
from clusterstacks.csctl.shared.release_ref import DIRECTORY_OR_REF, open_release_directory
from clusterstacks.model.documents import counted

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping, Sequence
    from pathlib import Path

    from clusterstacks.csctl.authoring.findings import LintFinding
    from clusterstacks.csctl.authoring.linter import LintReport
    from clusterstacks.csctl.shared.release_ref import DirectoryOrRef
    from clusterstacks.model.versions import StackVersion
    from clusterstacks.net.kube.client import Client

COLOURS = {"error": "red", "warning": "yellow"}


@dataclass(frozen=True, slots=True, kw_only=True)
class LintOptions:
    """Options of the command line."""

    sources: tuple[DirectoryOrRef, ...]
    kubernetes: str
    all_minors: bool
    cluster: Path | None
    against: Path | None
    dependencies: str
    offline: bool
    trust: ServerTrust


@click.command(short_help="Report problems of a stack.")
@click.argument("sources", metavar="DIR|REF...", nargs=-1, type=DIRECTORY_OR_REF)
@minor_options
@form_option(TEXT, JSON, YAML, "sarif")
@example_objects_option
@click.option(
    "--against", type=FILE, metavar="KUBECONFIG", help="Dry-run the objects of the class on this management cluster."
)
@click.option("--rules", is_flag=True, help="Print the rules instead.")
@dependency_options
@trust_options
def lint(trust: ServerTrust, form: str, *, rules: bool, **arguments: Any) -> int:  # noqa: ANN401 - click passes the options above
    """Report problems of stacks with file, line, cause and remedy. Nothing is built or written.

    DIR is a stack directory, a directory with stacks below it, or a release directory. REF is a reference to a release
    as for 'csctl pull'; --ca and --plain-http are for its server. A release has no versions.yaml or stack.yaml, so
    problems of these files are not found in it. Like 'csctl create', lint checks the release of
    csctl.yaml, or with --kubernetes or --all-minors the releases of versions.yaml and stack.yaml. Values templates are
    rendered with the objects of --cluster, otherwise with example objects ('csctl template --sample' prints them).
    Exits with 0 if there are no errors (warnings are allowed), otherwise with 2.
    """
    if rules:
        return _print_rules(form)
    options = LintOptions(**arguments, trust=trust)
    if not options.sources:
        raise click.UsageError("DIR is missing (expected for example csctl lint .)")
    reports = output.run_counted(_reports(options))
    _print(reports, form)
    return 0 if all(report.clean for report in reports) else output.MUST_CHANGE


async def _reports(options: LintOptions) -> list[LintReport]:
    import asyncio
    from contextlib import AsyncExitStack

    from clusterstacks.csctl.authoring.example_objects import read_example_objects
    from clusterstacks.csctl.authoring.linter import Linter
    from clusterstacks.deliver.render.renderer import Renderer
    from clusterstacks.model.versions import KubernetesMinor

    minor = KubernetesMinor.parse(options.kubernetes.replace("-", ".")) if options.kubernetes else None
    async with AsyncExitStack() as resources:
        file = options.cluster
        examples = read_example_objects(await asyncio.to_thread(file.read_bytes), str(file)) if file else None
        renderer = Renderer()
        resources.push_async_callback(renderer.close)
        web = await resources.enter_async_context(ServerTrust().web())
        charts = chart_dependencies(web, options.dependencies, offline=options.offline)
        client = None if options.against is None else await resources.enter_async_context(_connected(options.against))
        linter = Linter(renderer, examples, charts, minor, client, options.all_minors)
        stacks = [
            stack
            for source in options.sources
            for stack in _stacks(
                await resources.enter_async_context(open_release_directory(source, options.trust)), source
            )
        ]
        return [await linter.lint(tree, label, version) for tree, label, version in stacks]


def _stacks(directory: Path, source: DirectoryOrRef) -> list[tuple[Mapping[str, bytes], str, StackVersion]]:
    """Return the files, the label and the version of the release or of each stack in a directory."""
    from clusterstacks.csctl.authoring.open_directory import is_release_directory
    from clusterstacks.csctl.authoring.stack import VERSION
    from clusterstacks.csctl.authoring.unpack_release import stack_tree
    from clusterstacks.csctl.building.discover import find_stacks
    from clusterstacks.csctl.building.source_tree import read_tree
    from clusterstacks.release.open import open_directory

    if is_release_directory(directory):
        release = open_directory(directory)
        return [(stack_tree(release), str(source), release.name.version)]
    return [(read_tree(stack), str(stack), VERSION) for stack in find_stacks(directory)]


@asynccontextmanager
async def _connected(kubeconfig: Path) -> AsyncIterator[Client]:
    from clusterstacks.net.kube.client import Client
    from clusterstacks.net.kube.kubeconfig import load_kubeconfig
    from clusterstacks.net.pool import Pool

    async with Pool() as pool:
        yield Client(load_kubeconfig([kubeconfig]), pool)


def _print_rules(form: str) -> int:
    from clusterstacks.csctl.authoring.linter import RULES

    if form == TEXT:
        rows = [(rule.id, rule.severity, rule.summary) for rule in RULES]
        output.print_table(("RULE", "SEVERITY", "REQUIREMENT"), rows)
    else:
        rules = [{"id": rule.id, "severity": rule.severity, "summary": rule.summary} for rule in RULES]
        output.print_document(rules, form)
    return 0


def _print(reports: Sequence[LintReport], form: str) -> None:
    from clusterstacks.csctl.authoring.linter import as_json, as_sarif

    if form == "sarif":
        output.print_json(as_sarif(reports))
    elif form != TEXT:
        output.print_document(as_json(reports), form)
    else:
        for report in reports:
            for finding in report.findings:
                _print_finding(report, finding)
        _print_summary(reports)


def _print_finding(report: LintReport, finding: LintFinding) -> None:
    from clusterstacks.csctl.authoring.linter import finding_path

    problem = finding.problem
    kind = click.style(f"{finding.severity.value}[{finding.rule}]", fg=COLOURS[finding.severity], bold=True)
    where, message = output.printable(finding_path(report, finding)), output.printable(problem.message)
    click.echo(f"{where}:{problem.line}: {kind} {message}")
    output.say(f"    {problem.remedy}")


def _print_summary(reports: Sequence[LintReport]) -> None:
    from clusterstacks.csctl.authoring.findings import LintSeverity

    errors, warnings = (
        sum(report.count(severity) for report in reports) for severity in (LintSeverity.ERROR, LintSeverity.WARNING)
    )
    stacks = f"{len(reports)} stacks" if len(reports) > 1 else reports[0].directory
    output.say(f"{stacks}: {_counted(errors, 'error')}, {_counted(warnings, 'warning')}")


def _counted(count: int, what: str) -> str:
    return counted(count, what) if count else f"no {what}s"
