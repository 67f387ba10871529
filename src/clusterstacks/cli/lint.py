"""``csctl lint``: what is wrong with a stack directory, before anybody builds it."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING

import click

from clusterstacks.cli import output

if TYPE_CHECKING:
    from collections.abc import Sequence

    from clusterstacks.authoring.findings import Finding
    from clusterstacks.authoring.linting import Report
    from clusterstacks.authoring.sample import Roots

COLOURS = {"error": "red", "warning": "yellow"}
FILE = click.Path(exists=True, dir_okay=False, path_type=Path)


@click.command(short_help="Say what is wrong with a stack.")
@click.argument(
    "directories", metavar="DIR...", nargs=-1, type=click.Path(exists=True, file_okay=False, path_type=Path)
)
@click.option("--kubernetes", metavar="1-35", help="Only for this Kubernetes minor, where DIR is for several.")
@click.option("--output", "-o", "form", type=click.Choice(["text", "json", "sarif"]), default="text", show_default=True)
@click.option("--cluster", "roots", type=FILE, help="Cluster, control plane and infrastructure object for the values.")
@click.option("--against", type=FILE, metavar="KUBECONFIG", help="Ask this management cluster what it would refuse.")
@click.option("--rules", "list_rules", is_flag=True, help="Print the rules instead.")
def lint(
    directories: tuple[Path, ...],
    *,
    kubernetes: str | None,
    form: str,
    roots: Path | None,
    against: Path | None,
    list_rules: bool,
) -> int:
    """Say what is wrong with stacks: file, line, cause and way out; nothing is built or written.

    DIR is a stack directory or one with stacks below it. Exits with 0 when there are no errors (warnings are allowed),
    with 2 when there are.
    """
    if list_rules:
        return _print_rules(form)
    if not directories:
        raise click.UsageError("name a stack directory, e.g. csctl lint .")
    from clusterstacks.authoring.sample import read_roots

    made_up = read_roots(roots.read_bytes(), str(roots)) if roots else None
    reports = asyncio.run(_reports(directories, kubernetes, made_up, against))
    _print(reports, form)
    return 0 if all(report.clean for report in reports) else output.MUST_CHANGE


async def _reports(
    directories: Sequence[Path], kubernetes: str | None, roots: Roots | None, against: Path | None
) -> list[Report]:
    from contextlib import AsyncExitStack

    from clusterstacks.authoring.linting import Linter
    from clusterstacks.domain.versions import KubernetesMinor
    from clusterstacks.kube.client import Client
    from clusterstacks.kube.kubeconfig import load_kubeconfig
    from clusterstacks.kube.transport import Pool
    from clusterstacks.releases.building.discovery import find_stacks
    from clusterstacks.releases.building.sourcetree import read_tree
    from clusterstacks.render.renderer import Renderer

    async with AsyncExitStack() as resources:
        renderer = Renderer()
        resources.push_async_callback(renderer.close)
        client = None
        if against is not None:
            client = Client(load_kubeconfig([against]), await resources.enter_async_context(Pool()))
        linter = Linter(
            renderer,
            KubernetesMinor.parse(kubernetes.replace("-", ".")) if kubernetes else None,
            roots,
            client,
        )
        stacks = [stack for top in directories for stack in find_stacks(top)]
        return [await linter.lint(read_tree(stack), str(stack)) for stack in stacks]


def _print_rules(form: str) -> int:
    from clusterstacks.authoring.registry import RULES

    if form == "text":
        output.print_table(
            ("RULE", "SEVERITY", "WHAT IT ASKS"), [(rule.id, rule.severity, rule.summary) for rule in RULES]
        )
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


def _print_finding(report: Report, finding: Finding) -> None:
    from clusterstacks.authoring.reports import place

    fault = finding.fault
    kind = click.style(f"{finding.severity.value}[{finding.rule}]", fg=COLOURS[finding.severity], bold=True)
    output.say(f"{place(report, finding)}:{fault.line}: {kind} {fault.message}")
    output.say(f"    {fault.way_out}")


def _print_summary(reports: Sequence[Report]) -> None:
    from clusterstacks.authoring.findings import Severity

    errors, warnings = (sum(report.count(one) for report in reports) for one in (Severity.ERROR, Severity.WARNING))
    looked = f"{len(reports)} stacks" if len(reports) > 1 else reports[0].directory
    output.say(f"{looked}: {_counted(errors, 'error')}, {_counted(warnings, 'warning')}")


def _counted(count: int, what: str) -> str:
    return f"{count or 'no'} {what}{'' if count == 1 else 's'}"
