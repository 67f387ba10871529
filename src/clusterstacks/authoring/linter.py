"""Every rule of lint, in the order of the list for people."""

from __future__ import annotations

from dataclasses import dataclass
from importlib.metadata import version
from pathlib import PurePath
from typing import TYPE_CHECKING, Final
from urllib.parse import quote

from clusterstacks.authoring.findings import LintSeverity
from clusterstacks.authoring.render_check import Means, dry_run_class, render_stack
from clusterstacks.authoring.rules import (
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
from clusterstacks.authoring.stack import load_stack
from clusterstacks.domain.errors import SpecError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from clusterstacks.authoring.findings import LintFinding, LintRule
    from clusterstacks.authoring.stack import LintedStack
    from clusterstacks.domain.objects import Manifest
    from clusterstacks.domain.versions import KubernetesMinor
    from clusterstacks.kube.client import Client

RULES: Final[tuple[LintRule, ...]] = (
    *naming.RULES,
    *layout.RULES,
    *source_files.RULES,
    *stages.RULES,
    *dependencies.RULES,
    *rendering.RULES,
    *classes.RULES,
    *rendered_objects.RULES,
    *data_files.RULES,
    classes.SERVER_RULE,
)

BEFORE_BUILD: Final[tuple[LintRule, ...]] = (*source_files.RULES, *stages.RULES)
"""Rules that ``csctl create`` applies as well: they need no rendering, and a build does not check the same itself."""

REFUSED: Final = frozenset({"placeholder", "file-size"})
"""Rules whose findings end ``csctl create``: nothing could use the release."""


@dataclass(frozen=True, slots=True)
class LintReport:
    """What lint found in one stack directory.

    Args:
        directory: As the author named it.
        findings: Sorted by file and line, each once however many Kubernetes versions show it.
    """

    directory: str
    findings: tuple[LintFinding, ...]

    def count(self, severity: LintSeverity) -> int:
        """Number of findings of a severity."""
        return sum(finding.severity is severity for finding in self.findings)

    @property
    def clean(self) -> bool:
        """Whether there is no error; warnings are allowed."""
        return not self.count(LintSeverity.ERROR)


@dataclass(frozen=True, slots=True)
class Linter:
    """Lints stacks.

    Args:
        means: What rendering takes.
        minor: Look at the stack for this Kubernetes minor only.
        listed: Look at every minor of stack.yaml and versions.yaml instead of the release csctl.yaml names.
        client: A management cluster to ask.
    """

    means: Means
    minor: KubernetesMinor | None = None
    client: Client | None = None
    listed: bool = False

    async def lint(self, tree: Mapping[str, bytes], directory: str) -> LintReport:
        """Lint the files of a stack; whatever they hold, what is wrong with them becomes findings.

        Raises:
            SpecError: The stack is not for the wanted minor.
            DependencyError: The management cluster does not answer, or a render worker cannot be started.
        """
        stacks = self._chosen(load_stack(tree, directory, listed=self.listed or self.minor is not None))
        looked_at = [await self._examined(stack) for stack in stacks]
        return LintReport(directory, apply_rules(looked_at))

    def _chosen(self, stacks: tuple[LintedStack, ...]) -> tuple[LintedStack, ...]:
        if self.minor is None:
            return stacks
        chosen = tuple(one for one in stacks if one.settings is None or one.settings.kubernetes.series == self.minor)
        if not chosen:
            there = ", ".join(str(one.settings.kubernetes.series) for one in stacks if one.settings)
            raise SpecError("MinorNotThere", f"{stacks[0].directory} is for Kubernetes {there}, not for {self.minor}")
        return chosen

    async def _examined(self, stack: LintedStack) -> LintedStack:
        stack = await render_stack(stack, self.means)
        return await dry_run_class(stack, self.client) if self.client is not None else stack


def apply_rules(stacks: Iterable[LintedStack], rules: Iterable[LintRule] = RULES) -> tuple[LintFinding, ...]:
    """Apply rules to a stack, as it is for each of its Kubernetes versions."""
    rules = tuple(rules)
    return tuple(sorted({finding for stack in stacks for rule in rules for finding in rule.findings(stack)}))


SCHEMA = "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"
_DISTRIBUTION = "cluster-stacks"


def finding_path(report: LintReport, finding: LintFinding) -> str:
    """Path of a finding's file as the author can open it from where lint was called."""
    return str(PurePath(report.directory, finding.problem.path))


def as_json(reports: Sequence[LintReport]) -> Manifest:
    """Write reports as one document: the findings and how many there are."""
    return {
        "findings": [
            {
                "rule": finding.rule,
                "severity": finding.severity.value,
                "path": finding_path(report, finding),
                "line": finding.problem.line,
                "message": finding.problem.message,
                "wayOut": finding.problem.remedy,
            }
            for report in reports
            for finding in report.findings
        ],
        "errors": sum(report.count(LintSeverity.ERROR) for report in reports),
        "warnings": sum(report.count(LintSeverity.WARNING) for report in reports),
    }


def as_sarif(reports: Sequence[LintReport]) -> Manifest:
    """Write reports as one SARIF run; every rule is listed, whether it found something or not."""
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
