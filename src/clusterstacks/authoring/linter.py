"""Lint of a stack directory, from its files to a report."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from clusterstacks.authoring.dry_run import asked
from clusterstacks.authoring.findings import LintSeverity
from clusterstacks.authoring.load_stack import load
from clusterstacks.authoring.render_check import Means, examine
from clusterstacks.authoring.rule_registry import RULES
from clusterstacks.domain.errors import SpecError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from clusterstacks.authoring.findings import LintFinding, LintRule
    from clusterstacks.authoring.stack import LintedStack
    from clusterstacks.domain.versions import KubernetesMinor
    from clusterstacks.kube.client import Client


@dataclass(frozen=True, slots=True)
class Report:
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

    async def lint(self, tree: Mapping[str, bytes], directory: str) -> Report:
        """Lint the files of a stack; whatever they hold, what is wrong with them becomes findings.

        Raises:
            SpecError: The stack is not for the wanted minor.
            DependencyError: The management cluster does not answer, or a render worker cannot be started.
        """
        stacks = self._chosen(load(tree, directory, listed=self.listed or self.minor is not None))
        looked_at = [await self._examined(stack) for stack in stacks]
        return Report(directory, findings(looked_at))

    def _chosen(self, stacks: tuple[LintedStack, ...]) -> tuple[LintedStack, ...]:
        if self.minor is None:
            return stacks
        chosen = tuple(one for one in stacks if one.settings is None or one.settings.kubernetes.series == self.minor)
        if not chosen:
            there = ", ".join(str(one.settings.kubernetes.series) for one in stacks if one.settings)
            raise SpecError("MinorNotThere", f"{stacks[0].directory} is for Kubernetes {there}, not for {self.minor}")
        return chosen

    async def _examined(self, stack: LintedStack) -> LintedStack:
        stack = await examine(stack, self.means)
        return await asked(stack, self.client) if self.client is not None else stack


def findings(stacks: Iterable[LintedStack], rules: Iterable[LintRule] = RULES) -> tuple[LintFinding, ...]:
    """Apply rules to a stack, as it is for each of its Kubernetes versions."""
    rules = tuple(rules)
    return tuple(sorted({finding for stack in stacks for rule in rules for finding in rule.findings(stack)}))
