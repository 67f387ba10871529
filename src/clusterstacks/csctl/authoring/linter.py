"""Linter for stack directories: the list of rules, their application, and reports as JSON and SARIF.

SARIF 2.1.0: https://docs.oasis-open.org/sarif/sarif/v2.1.0/sarif-v2.1.0.html
"""

from __future__ import annotations

from dataclasses import dataclass
from importlib.metadata import version
from pathlib import PurePath
from typing import TYPE_CHECKING, Final
from urllib.parse import quote

from clusterstacks.csctl.authoring.findings import LintSeverity
from clusterstacks.csctl.authoring.render_check import dry_run_class, render_stack
from clusterstacks.csctl.authoring.rules import (
    classes,
    data_files,
    dependencies,
    layout,
    naming,
    rendered_objects,
    rendering,
    source_files,
    stages,
)
from clusterstacks.csctl.authoring.stack import VERSION, load_stack
from clusterstacks.model.errors import SpecError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from clusterstacks.csctl.authoring.example_objects import ExampleObjects
    from clusterstacks.csctl.authoring.findings import LintFinding, LintRule
    from clusterstacks.csctl.authoring.stack import LintedStack
    from clusterstacks.deliver.render.renderer import Renderer
    from clusterstacks.model.objects import Manifest
    from clusterstacks.model.versions import KubernetesMinor, StackVersion
    from clusterstacks.net.kube.client import Client
    from clusterstacks.release.charts.vendor import ChartDependencies

RULES: Final[tuple[LintRule, ...]] = (
    *naming.RULES,
    *layout.RULES,
    *source_files.RULES,
    *stages.RULES,
    *dependencies.RULES,
    *rendering.RULES,
    *classes.RULES,
    *rendered_objects.RULES,
    stages.HEALTH_RULE,
    *data_files.RULES,
    classes.SERVER_RULE,
)

BEFORE_BUILD: Final[tuple[LintRule, ...]] = (*source_files.RULES, *stages.RULES)
"""Rules that ``csctl create`` applies too: they need no rendering, and the build has no such check of its own."""

REFUSED: Final = frozenset({"placeholder", "file-size"})
"""Rules whose findings end ``csctl create``, because the release would be useless."""


@dataclass(frozen=True, slots=True)
class LintReport:
    """Findings in one stack directory, as named on the command line."""

    directory: str
    findings: tuple[LintFinding, ...]
    """Sorted by file and line; each once, even if it applies to several Kubernetes versions."""

    def count(self, severity: LintSeverity) -> int:
        """Return the number of findings of a severity."""
        return sum(finding.severity is severity for finding in self.findings)

    @property
    def clean(self) -> bool:
        """True without errors; warnings are allowed."""
        return not self.count(LintSeverity.ERROR)


@dataclass(frozen=True, slots=True)
class Linter:
    """Loads and renders stacks, and applies the rules to them."""

    renderer: Renderer
    examples: ExampleObjects | None = None
    """Objects that values templates see; None for objects made for the class."""
    dependencies: ChartDependencies | None = None
    """Adds chart dependencies; None skips charts that lack one."""
    minor: KubernetesMinor | None = None
    """Lint only this Kubernetes minor."""
    client: Client | None = None
    """Management cluster for a dry run of the class; None for no dry run."""
    listed: bool = False
    """Lint every minor of stack.yaml and versions.yaml instead of the release of csctl.yaml."""

    async def lint(self, tree: Mapping[str, bytes], directory: str, version: StackVersion = VERSION) -> LintReport:
        """Lint the files of a stack, for a release with this version.

        Raises:
            SpecError: The stack does not support the requested minor.
            DependencyError: The management cluster does not answer, or a render worker cannot be started.
        """
        listed = self.listed or self.minor is not None
        stacks = self._chosen(load_stack(tree, directory, listed=listed, version=version))
        return LintReport(directory, apply_rules([await self._rendered(stack) for stack in stacks]))

    def _chosen(self, stacks: tuple[LintedStack, ...]) -> tuple[LintedStack, ...]:
        if self.minor is None:
            return stacks
        chosen = tuple(
            stack for stack in stacks if stack.settings is None or stack.settings.kubernetes.series == self.minor
        )
        if not chosen:
            minors = ", ".join(str(stack.settings.kubernetes.series) for stack in stacks if stack.settings)
            raise SpecError("MinorNotThere", f"{stacks[0].directory} is for Kubernetes {minors}, not for {self.minor}")
        return chosen

    async def _rendered(self, stack: LintedStack) -> LintedStack:
        stack = await render_stack(stack, self.renderer, self.examples, self.dependencies)
        return await dry_run_class(stack, self.client) if self.client is not None else stack


def apply_rules(stacks: Iterable[LintedStack], rules: Iterable[LintRule] = RULES) -> tuple[LintFinding, ...]:
    """Apply rules to a stack, loaded for each of its Kubernetes versions."""
    rules = tuple(rules)
    return tuple(sorted({finding for stack in stacks for rule in rules for finding in rule.findings(stack)}))


SCHEMA = "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"
_DISTRIBUTION = "cluster-stacks"


def finding_path(report: LintReport, finding: LintFinding) -> str:
    """Return the path of a finding's file, relative to the working directory."""
    return str(PurePath(report.directory, finding.problem.path))


def as_json(reports: Sequence[LintReport]) -> Manifest:
    """Return reports as one document with all findings and their number."""
    return {
        "findings": [
            {
                "rule": finding.rule,
                "severity": finding.severity.value,
                "path": finding_path(report, finding),
                "line": finding.problem.line,
                "message": finding.problem.message,
                "remedy": finding.problem.remedy,
            }
            for report in reports
            for finding in report.findings
        ],
        "errors": sum(report.count(LintSeverity.ERROR) for report in reports),
        "warnings": sum(report.count(LintSeverity.WARNING) for report in reports),
    }


def as_sarif(reports: Sequence[LintReport]) -> Manifest:
    """Return reports as one SARIF run, which code hosts show next to the changed lines; it lists every rule."""
    numbers = {rule.id: number for number, rule in enumerate(RULES)}
    driver = {
        "name": "csctl lint",
        "version": version(_DISTRIBUTION),
        "rules": [
            {
                "id": rule.id,
                "shortDescription": {"text": rule.summary},
                "defaultConfiguration": {"level": rule.severity.value},
            }
            for rule in RULES
        ],
    }
    results = [_result(report, finding, numbers) for report in reports for finding in report.findings]
    run = {"tool": {"driver": driver}, "columnKind": "unicodeCodePoints", "results": results}
    return {"$schema": SCHEMA, "version": "2.1.0", "runs": [run]}


def _result(report: LintReport, finding: LintFinding, numbers: dict[str, int]) -> Manifest:
    path = quote(PurePath(finding_path(report, finding)).as_posix(), errors="surrogateescape")
    return {
        "ruleId": finding.rule,
        "ruleIndex": numbers[finding.rule],
        "level": finding.severity.value,
        "message": {"text": f"{finding.problem.message}; {finding.problem.remedy}"},
        "locations": [
            {
                "physicalLocation": {
                    "artifactLocation": {"uri": path},
                    "region": {"startLine": finding.problem.line},
                }
            }
        ],
    }
