"""Rules for clusteraddon.yaml: stages, the charts that they name, and CEL expressions of conditions and health."""

from __future__ import annotations

from difflib import get_close_matches
from typing import TYPE_CHECKING

from clusterstacks.csctl.authoring.findings import (
    LintProblem,
    LintRule,
    LintSeverity,
    line_of_field,
    line_of_text,
    problems_of_error,
)
from clusterstacks.model import yaml
from clusterstacks.model.documents import at, mappings, text
from clusterstacks.model.errors import SpecError
from clusterstacks.model.files.addon_config import LifecycleHook, StageAction, parse_addon_config
from clusterstacks.model.objects import object_id
from clusterstacks.release.charts.chart import CHART_FILE
from clusterstacks.release.release import ADDON_CONFIG

if TYPE_CHECKING:
    from collections.abc import Iterator

    from clusterstacks.csctl.authoring.stack import LintedStack


def readable(stack: LintedStack) -> Iterator[LintProblem]:
    """Report stages that are not valid."""
    if not stack.staged:
        return
    try:
        parse_addon_config(yaml.load(stack.content(ADDON_CONFIG), name=ADDON_CONFIG))
    except SpecError as error:
        yield from problems_of_error(stack, error, ADDON_CONFIG, "correct the stage")


def hooks(stack: LintedStack) -> Iterator[LintProblem]:
    """Report keys of addonStages that are not hooks of the operator."""
    known = [hook.value for hook in LifecycleHook]
    for key in _mapping(at(stack.document(ADDON_CONFIG), "addonStages")):
        if key not in known:
            line = line_of_field(stack.content(ADDON_CONFIG), ("addonStages", key))
            close = get_close_matches(str(key), known, n=1)
            meant = f"did you mean {close[0]}? " if close else ""
            problem = f"{key} is not a hook, so its stages never run"
            yield LintProblem(ADDON_CONFIG, line, problem, f"{meant}known are {', '.join(known)}")


def charts_of_stages(stack: LintedStack) -> Iterator[LintProblem]:
    """Report addons that a stage applies, but that have no chart."""
    addons = {chart.addon for chart in stack.addons}
    for hook, index, stage in _stages(stack.document(ADDON_CONFIG)):
        addon = text(stage, "name")
        if stack.staged and addon and text(stage, "action") == StageAction.APPLY and addon not in addons:
            line = line_of_field(stack.content(ADDON_CONFIG), ("addonStages", hook, index, "name"))
            choice = ", ".join(sorted(addons)) or "none"
            remedy = f"add cluster-addon/{addon}/{CHART_FILE}, or correct the name (existing addons: {choice})"
            yield LintProblem(ADDON_CONFIG, line, f"stage {addon} of {hook} has no chart", remedy)


def contrary_stages(stack: LintedStack) -> Iterator[LintProblem]:
    """Report addons that one hook applies and deletes."""
    applied: dict[tuple[str, str], str] = {}
    for hook, index, stage in _stages(stack.document(ADDON_CONFIG)):
        addon, action = text(stage, "name"), text(stage, "action")
        if applied.setdefault((hook, addon), action) != action:
            line = line_of_field(stack.content(ADDON_CONFIG), ("addonStages", hook, index, "action"))
            problem = f"{hook} has a stage that applies {addon} and one that deletes it"
            yield LintProblem(ADDON_CONFIG, line, problem, "remove one of the stages, or move it to another hook")


def health_kinds(stack: LintedStack) -> Iterator[LintProblem]:
    """Report rules for the health of kinds that no chart renders."""
    if not all(chart.rendered for chart in stack.addons):
        return  # ``chart-renders`` or ``dependency-unvendored`` reports it
    identities = [object_id(document.manifest) for chart in stack.addons for document in chart.documents]
    rendered = {(identity.group, identity.kind) for identity in identities}
    for index, rule in enumerate(mappings(_mapping(stack.document(ADDON_CONFIG)), "health")):
        kind, _, group = text(rule, "kind").partition(".")
        if kind and (group, kind) not in rendered:
            line = line_of_field(stack.content(ADDON_CONFIG), ("health", index, "kind"))
            problem = f"no addon renders an object of kind {text(rule, 'kind')}, so its rule for health has no effect"
            yield LintProblem(ADDON_CONFIG, line, problem, "correct kind and API group, or remove the rule")


def stages_of_charts(stack: LintedStack) -> Iterator[LintProblem]:
    """Report charts that no stage applies to new clusters."""
    if not stack.staged or not isinstance(stack.document(ADDON_CONFIG), dict):
        return  # ``stages`` reports it
    stages = list(_stages(stack.document(ADDON_CONFIG)))
    named = {text(stage, "name") for _, _, stage in stages}
    first = {text(stage, "name") for hook, _, stage in stages if hook == LifecycleHook.AFTER_CONTROL_PLANE_INITIALIZED}
    known = [hook.value for hook in LifecycleHook]
    lost = {text(stage, "name") for hook, _, stage in stages if hook not in known}  # unknown-hook reports these
    for chart in stack.addons:
        if chart.addon not in first | lost:
            which = "new clusters do not get it" if chart.addon in named else "it is never delivered"
            hook = LifecycleHook.AFTER_CONTROL_PLANE_INITIALIZED
            remedy = f"add a stage with name: {chart.addon} to {hook} of {ADDON_CONFIG}"
            yield LintProblem(
                chart.chart_file, 1, f"no stage applies {chart.addon} to new clusters, so {which}", remedy
            )


def conditions(stack: LintedStack) -> Iterator[LintProblem]:
    """Report conditions that are not CEL expressions or do not compile with the keys of their objects."""
    for broken in stack.conditions:
        line = line_of_field(stack.content(ADDON_CONFIG), broken.path)
        yield _uncompiled(ADDON_CONFIG, line, broken.problem)
    for chart in stack.addons:
        for annotation in chart.annotations:
            path = chart.place(annotation.document.path)
            yield _uncompiled(path, line_of_text(stack.content(path), annotation.annotation), annotation.problem)


def _uncompiled(path: str, line: int, message: str) -> LintProblem:
    said = message.removeprefix(f"{ADDON_CONFIG}, ")
    problem, _, advice = said.rpartition("; ")  # as clusterstacks.deliver.render.cel has it
    return LintProblem(path, line, problem or said, advice if problem else "correct the condition")


def _stages(document: object) -> Iterator[tuple[str, int, dict[str, object]]]:
    for hook, listed in _mapping(at(document, "addonStages")).items():
        for index, stage in enumerate(listed if isinstance(listed, list) else ()):
            yield hook, index, stage if isinstance(stage, dict) else {}


def _mapping(value: object) -> dict[str, object]:
    return value if isinstance(value, dict) else {}


RULES = (
    LintRule(
        "stages",
        LintSeverity.ERROR,
        "Every stage of clusteraddon.yaml has a name, an action and valid conditions; rules for health are complete.",
        readable,
    ),
    LintRule("unknown-hook", LintSeverity.ERROR, "Every key of addonStages is a hook that the operator runs.", hooks),
    LintRule("stage-chart", LintSeverity.ERROR, "Every addon that a stage applies has a chart.", charts_of_stages),
    LintRule(
        "chart-stage", LintSeverity.WARNING, "Every chart is applied to new clusters by a stage.", stages_of_charts
    ),
    LintRule("contrary-stage", LintSeverity.ERROR, "No hook applies and deletes the same addon.", contrary_stages),
    LintRule(
        "condition",
        LintSeverity.ERROR,
        "Every condition of a stage, and every rule for health, is a CEL expression that compiles.",
        conditions,
    ),
)

HEALTH_RULE = LintRule(
    "health-kind", LintSeverity.WARNING, "Every rule for health is for a kind that an addon renders.", health_kinds
)
"""Needs the rendered charts, unlike the rules before it."""
