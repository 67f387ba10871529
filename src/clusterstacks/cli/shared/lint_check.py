"""Lint of source files before ``csctl create`` builds releases, with the rules that need no rendering."""

from __future__ import annotations

from typing import TYPE_CHECKING

from clusterstacks.authoring.linter import BEFORE_BUILD, REFUSED, apply_rules
from clusterstacks.authoring.stack import load_stack
from clusterstacks.cli.shared import output
from clusterstacks.domain.errors import SpecError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from clusterstacks.authoring.findings import LintFinding


def check_sources(trees: Mapping[str, Mapping[str, bytes]], *, strict: bool) -> None:
    """Print the findings in the files of stacks.

    Args:
        trees: The files of each stack directory, by its name in messages.
        strict: Raise for every finding, not only for those that make a release useless.

    Raises:
        SpecError: A finding must be fixed before the build.
    """
    refused: list[str] = []
    for directory, tree in trees.items():
        for finding in apply_rules(load_stack(tree, directory), BEFORE_BUILD):
            if strict or finding.rule in REFUSED:
                refused.append(_line(directory, finding))
            else:
                output.warn(f"{_line(directory, finding)} ({finding.rule})")
    if refused:
        shown = refused[: output.NOTED]
        more = [f"{len(refused) - len(shown)} more; 'csctl lint' prints them"] if len(refused) > len(shown) else []
        raise SpecError("SourceRefused", "\n".join(["fix these problems before the build:", *shown, *more]))


def _line(directory: str, finding: LintFinding) -> str:
    problem = finding.problem
    return f"{directory}/{problem.path}:{problem.line}: {problem.message}: {problem.remedy}"
