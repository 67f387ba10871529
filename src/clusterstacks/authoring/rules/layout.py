"""Which files a stack consists of, and the tags in them."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from clusterstacks.authoring.findings import Fault, LintRule, LintSeverity
from clusterstacks.authoring.stack import TAGS
from clusterstacks.building.packaging import CLASS_DIRECTORY
from clusterstacks.building.pinning import ADDON_DIRECTORY
from clusterstacks.building.source_tree import fill_tags
from clusterstacks.charts.chart import CHART_FILE
from clusterstacks.releases.errors import SourceBroken
from clusterstacks.releases.release import ADDON_CONFIG, ADDON_VALUES

if TYPE_CHECKING:
    from collections.abc import Iterator

    from clusterstacks.authoring.stack import LintedStack

_TAG = re.compile(r"line (\d+): (<< \.\w+ >>)")
_MISSPELT = re.compile(rf"<<[ \t]*\.?(?:{'|'.join(TAGS)})\b[ \t]*(?:>>?)?".encode())
"""A known name behind ``<<`` that is written in another way than a tag, or not closed."""


def files(stack: LintedStack) -> Iterator[Fault]:
    """Everything a release is made of is there."""
    if stack.class_chart is None:
        path = f"{CLASS_DIRECTORY}{CHART_FILE}"
        yield Fault(path, 1, "is missing", "add the Helm chart of the cluster class; csctl init shows one")
    if stack.staged:
        return
    if ADDON_VALUES not in stack.tree:
        problem = f"is missing, and so is {ADDON_VALUES} of the single-chart layout"
        yield Fault(ADDON_CONFIG, 1, problem, "say in it in which stages the addons come; csctl init shows one")
    elif not stack.addons:
        path = f"{ADDON_DIRECTORY}{CHART_FILE}"
        way_out = f"add the one chart of all addons, or {ADDON_CONFIG} for a chart of each"
        yield Fault(path, 1, f"is missing, though there is {ADDON_VALUES}", way_out)


def names(stack: LintedStack) -> Iterator[Fault]:
    """Every file has a name that archives may hold."""
    for path in stack.tree:
        if "\\" in path or not path.isprintable():
            yield Fault(path, 1, "has a backslash or an invisible character in its name", "rename the file")


def stale_values(stack: LintedStack) -> Iterator[Fault]:
    """No values file of the single-chart layout is left where it has no effect."""
    if stack.staged and ADDON_VALUES in stack.tree:
        way_out = "move what is in it to overwrite.yaml of the addons, and remove it"
        yield Fault(ADDON_VALUES, 1, f"has no effect beside {ADDON_CONFIG}", way_out)


def tags(stack: LintedStack) -> Iterator[Fault]:
    """Every ``<< .Name >>`` is a tag that builds replace (INCUMBENT D47)."""
    known = ", ".join(f"<< .{tag} >>" for tag in TAGS)
    for path, content in stack.tree.items():
        for line, tag in (*_unknown_tags(path, content), *_misspelt_tags(content)):
            yield Fault(path, line, f"{tag} is no tag", f"write one of {known}")


def _misspelt_tags(content: bytes) -> Iterator[tuple[int, str]]:
    exact = {f"<< .{name} >>".encode() for name in TAGS}
    for found in _MISSPELT.finditer(content):
        if found[0] not in exact:
            yield content.count(b"\n", 0, found.start()) + 1, found[0].decode().rstrip()


def _unknown_tags(path: str, content: bytes) -> Iterator[tuple[int, str]]:
    while True:
        try:
            fill_tags({path: content}, TAGS)
        except SourceBroken as error:
            found = _TAG.search(error.message.removeprefix(path))
            if found is None:
                return
            yield int(found[1]), found[2]
            # As long as it was, so that nothing comes together to a new one.
            content = content.replace(found[2].encode(), b" " * len(found[2]), 1)
        else:
            return


RULES = (
    LintRule("files", LintSeverity.ERROR, "The charts and files a release is made of are there.", files),
    LintRule("file-names", LintSeverity.ERROR, "Names of files have no backslash and no invisible character.", names),
    LintRule(
        "stale-values", LintSeverity.WARNING, "No file of the single-chart layout lies beside stages.", stale_values
    ),
    LintRule("unknown-tag", LintSeverity.ERROR, "Every << .Name >> is one of the tags that a build replaces.", tags),
)
