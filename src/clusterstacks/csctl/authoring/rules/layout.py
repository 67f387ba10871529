"""Rules for the files of a stack directory and for the tags in them."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from clusterstacks.csctl.authoring.findings import LintProblem, LintRule, LintSeverity
from clusterstacks.csctl.authoring.stack import TAGS
from clusterstacks.csctl.building.packaging import CLASS_DIRECTORY
from clusterstacks.csctl.building.pinning import ADDON_DIRECTORY
from clusterstacks.csctl.building.source_tree import fill_tags
from clusterstacks.release.charts.chart import CHART_FILE
from clusterstacks.release.errors import SourceBroken
from clusterstacks.release.release import ADDON_CONFIG, ADDON_VALUES

if TYPE_CHECKING:
    from collections.abc import Iterator

    from clusterstacks.csctl.authoring.stack import LintedStack

_TAG = re.compile(r"line (\d+): (<< \.\w+ >>)")
_MISSPELT = re.compile(rf"<<[ \t]*\.?(?:{'|'.join(TAGS)})\b[ \t]*(?:>>?)?".encode())
"""A known tag name after ``<<`` that is misspelled or not closed."""


def files(stack: LintedStack) -> Iterator[LintProblem]:
    """Report missing files that a release needs."""
    if stack.class_chart is None:
        path = f"{CLASS_DIRECTORY}{CHART_FILE}"
        yield LintProblem(
            path, 1, "is missing", "add the Helm chart of the cluster class; csctl init writes an example"
        )
    if stack.staged:
        return
    if ADDON_VALUES not in stack.tree:
        problem = f"is missing, and so is {ADDON_VALUES} of the single-chart layout"
        yield LintProblem(ADDON_CONFIG, 1, problem, "list the stages of the addons in it; csctl init writes an example")
    elif not stack.addons:
        path = f"{ADDON_DIRECTORY}{CHART_FILE}"
        remedy = f"add one chart for all addons, or {ADDON_CONFIG} and one chart for each"
        yield LintProblem(path, 1, f"is missing, but {ADDON_VALUES} exists", remedy)


def names(stack: LintedStack) -> Iterator[LintProblem]:
    """Report file names that are not allowed in an archive."""
    for path in stack.tree:
        if "\\" in path or not path.isprintable():
            yield LintProblem(path, 1, "has a backslash or an invisible character in its name", "rename the file")


def stale_values(stack: LintedStack) -> Iterator[LintProblem]:
    """Report a values file of the single-chart layout that has no effect."""
    if stack.staged and ADDON_VALUES in stack.tree:
        remedy = "move its content to overwrite.yaml of the addons, and delete it"
        yield LintProblem(ADDON_VALUES, 1, f"has no effect next to {ADDON_CONFIG}", remedy)


def tags(stack: LintedStack) -> Iterator[LintProblem]:
    """Report ``<< .Name >>`` that is not a tag, which a build would not replace."""
    known = ", ".join(f"<< .{tag} >>" for tag in TAGS)
    for path, content in stack.tree.items():
        for line, tag in (*_unknown_tags(path, content), *_misspelt_tags(content)):
            yield LintProblem(path, line, f"{tag} is not a tag", f"write one of {known}")


def _misspelt_tags(content: bytes) -> Iterator[tuple[int, str]]:
    exact = {f"<< .{name} >>".encode() for name in TAGS}
    for misspelt in _MISSPELT.finditer(content):
        if misspelt[0] not in exact:
            yield content.count(b"\n", 0, misspelt.start()) + 1, misspelt[0].decode().rstrip()


def _unknown_tags(path: str, content: bytes) -> Iterator[tuple[int, str]]:
    while True:
        try:
            fill_tags({path: content}, TAGS)
        except SourceBroken as error:
            unknown = _TAG.search(error.message.removeprefix(path))
            if unknown is None:
                return
            yield int(unknown[1]), unknown[2]
            # Blanks of the same length: the text around must not form a new tag.
            content = content.replace(unknown[2].encode(), b" " * len(unknown[2]), 1)
        else:
            return


RULES = (
    LintRule("files", LintSeverity.ERROR, "All charts and files that a release needs exist.", files),
    LintRule("file-names", LintSeverity.ERROR, "File names contain no backslash and no invisible character.", names),
    LintRule(
        "stale-values",
        LintSeverity.WARNING,
        "No values file of the single-chart layout is next to clusteraddon.yaml.",
        stale_values,
    ),
    LintRule("unknown-tag", LintSeverity.ERROR, "Every << .Name >> is a tag that a build replaces.", tags),
)
