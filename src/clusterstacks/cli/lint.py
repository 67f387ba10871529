"""``csctl lint``: what is wrong with a stack directory, before anybody builds it."""

from __future__ import annotations

from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import click

from clusterstacks.cli.shared import output
from clusterstacks.cli.shared.chart_options import chart_dependencies, dependency_options
from clusterstacks.cli.shared.minor_options import minor_options
from clusterstacks.cli.shared.output_option import form_option
from clusterstacks.cli.shared.paths import DIRECTORY, FILE
from clusterstacks.cli.shared.registry_options import ServerTrust

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence
    from pathlib import Path

    from clusterstacks.authoring.findings import LintFinding
    from clusterstacks.authoring.linter import Report
    from clusterstacks.kube.client import Client

COLOURS = {"error": "red", "warning": "yellow"}


@dataclass(frozen=True, slots=True, kw_only=True)
class LintOptions:
    """The command line."""

    directories: tuple[Path, ...]
    kubernetes: str
    all_minors: bool
    cluster: Path | None
    against: Path | None
    dependencies: str
    offline: bool


@click.command(short_help="Say what is wrong with a stack.")
@click.argument("directories", metavar="DIR...", nargs=-1, type=DIRECTORY)
@minor_options
@form_option("text", "json", "sarif")
@click.option("--cluster", type=FILE, help="YAML file with Cluster, control plane and infrastructure object.")
@click.option("--against", type=FILE, metavar="KUBECONFIG", help="Ask this management cluster what it would refuse.")
@click.option("--rules", is_flag=True, help="Print the rules instead.")
@dependency_options
def lint(form: str, *, rules: bool, **arguments: Any) -> int:  # noqa: ANN401 - click passes what the options above say
    """Say what is wrong with stacks: file, line, cause and way out; nothing is built or written.

    DIR is a stack directory, or one with stacks below it. As csctl create does, it takes the release that csctl.yaml
    names, or with --kubernetes or --all-minors those of versions.yaml and stack.yaml. Values templates are tried with
    the objects of --cluster, else with a sample ('csctl template --sample' prints it). Exits with 0 when there are no
    errors (warnings are allowed), with 2 when there are.
    """
    import asyncio

    if rules:
        return _print_rules(form)
    options = LintOptions(**arguments)
    if not options.directories:
        raise click.UsageError("name a stack directory, e.g. csctl lint .")
    reports = asyncio.run(_reports(options))
    _print(reports, form)
    return 0 if all(report.clean for report in reports) else output.MUST_CHANGE


async def _reports(options: LintOptions) -> list[Report]:
    import asyncio
    from contextlib import AsyncExitStack

    from clusterstacks.authoring.example_objects import read_roots
    from clusterstacks.authoring.linter import Linter
    from clusterstacks.authoring.render_check import Means
    from clusterstacks.building.discover_stacks import find_stacks
    from clusterstacks.building.source_tree import read_tree
    from clusterstacks.domain.versions import KubernetesMinor
    from clusterstacks.render.renderer import Renderer

    minor = KubernetesMinor.parse(options.kubernetes.replace("-", ".")) if options.kubernetes else None
    async with AsyncExitStack() as resources:
        file = options.cluster
        roots = read_roots(await asyncio.to_thread(file.read_bytes), str(file)) if file else None
        renderer = Renderer()
        resources.push_async_callback(renderer.close)
        web = await resources.enter_async_context(ServerTrust().web())
        charts = chart_dependencies(web, options.dependencies, offline=options.offline)
        client = None if options.against is None else await resources.enter_async_context(_connected(options.against))
        linter = Linter(Means(renderer, roots, charts), minor, client, options.all_minors)
        stacks = [stack for top in options.directories for stack in find_stacks(top)]
        return [await linter.lint(read_tree(stack), str(stack)) for stack in stacks]


@asynccontextmanager
async def _connected(kubeconfig: Path) -> AsyncIterator[Client]:
    from clusterstacks.kube.client import Client
    from clusterstacks.kube.kubeconfig import load_kubeconfig
    from clusterstacks.kube.transport import Pool

    async with Pool() as pool:
        yield Client(load_kubeconfig([kubeconfig]), pool)


def _print_rules(form: str) -> int:
    from clusterstacks.authoring.rule_registry import RULES

    if form == "text":
        rows = [(rule.id, rule.severity, rule.summary) for rule in RULES]
        output.print_table(("RULE", "SEVERITY", "WHAT IT ASKS"), rows)
    else:
        output.print_json([{"id": one.id, "severity": one.severity, "summary": one.summary} for one in RULES])
    return 0


def _print(reports: Sequence[Report], form: str) -> None:
    from clusterstacks.authoring.reports import as_json, as_sarif

    if form == "json":
        output.print_json(as_json(reports))
    elif form == "sarif":
        output.print_json(as_sarif(reports))
    else:
        for report in reports:
            for finding in report.findings:
                _print_finding(report, finding)
        _print_summary(reports)


def _print_finding(report: Report, finding: LintFinding) -> None:
    from clusterstacks.authoring.reports import place

    fault = finding.fault
    kind = click.style(f"{finding.severity.value}[{finding.rule}]", fg=COLOURS[finding.severity], bold=True)
    where, message = output.printable(place(report, finding)), output.printable(fault.message)
    click.echo(f"{where}:{fault.line}: {kind} {message}")
    output.say(f"    {fault.way_out}")


def _print_summary(reports: Sequence[Report]) -> None:
    from clusterstacks.authoring.findings import LintSeverity

    errors, warnings = (
        sum(report.count(one) for report in reports) for one in (LintSeverity.ERROR, LintSeverity.WARNING)
    )
    looked = f"{len(reports)} stacks" if len(reports) > 1 else reports[0].directory
    output.say(f"{looked}: {_counted(errors, 'error')}, {_counted(warnings, 'warning')}")


def _counted(count: int, what: str) -> str:
    return f"{count or 'no'} {what}{'' if count == 1 else 's'}"
