"""Charts and values templates render as the operator renders them."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from clusterstacks.api import yaml
from clusterstacks.authoring.findings import LintProblem, LintRule, LintSeverity, line_of_text
from clusterstacks.charts.helm_hooks import HOOK_ANNOTATION, HookUse
from clusterstacks.domain.errors import SpecError
from clusterstacks.domain.semver import Constraint, SemVer
from clusterstacks.render.missing import RefusedFunctionError, with_checks
from clusterstacks.render.template_syntax import UnreadableActionError, actions

if TYPE_CHECKING:
    from collections.abc import Iterator

    from clusterstacks.authoring.stack import LintedChart, LintedStack

_TRY = "correct it, or give objects that have what it reads: csctl template --sample, then --cluster FILE"

# In Helm's words. The parser of values.yaml may count to the line behind the last one.
_VALUES = re.compile(r"cannot load values\.yaml: .*?line (\d+)")
_PLACE = re.compile(r"([^\s()\"]+/(?:templates|crds)/[^\s()\":]+):(\d+)")
_RENDERED_LINE = re.compile(r"\(rendered\), line (?P<line>\d+): ")
_NIL_POINTER = re.compile(
    r"executing \"[^\"]*\" at <(?P<path>[^<>\s]+)>: nil pointer evaluating interface \{\}\.(?P<field>\w+)"
)
_ADVICE = (
    ("not defined", "correct the name of the function, which neither Go templates nor Helm have"),
    ("no template", "correct the name, or add a file with {{ define }} of this name"),
    ("cannot load values.yaml", "correct values.yaml"),
    ("cannot load Chart.yaml", "correct Chart.yaml"),
    ("unexpected", "correct the syntax between {{ and }}, or add the {{ end }} that is missing"),
    ("unclosed action", "close the action with }}"),
    ("has no ", "add the field to the object, or drop the object"),
)
"""What to do about what Helm says, by what that contains; the first one counts."""

_CONTROL = re.compile(
    rb"^[ \t]*\{\{-?[ \t]*(?:/\*.*\*/|(?:if|else|end|range|with|define|block|\$\w+ :?=)\b[^{}]*)[ \t]*-?\}\}[ \t]*$"
)
"""A line of a template that renders to no line where it trims the space around."""
_RENDERED_PLACE = re.compile(r"([^\s()\"]+/(?:templates|crds)/[^\s()\":,]+)")


def charts(stack: LintedStack) -> Iterator[LintProblem]:
    """Every chart renders to objects that Kubernetes takes."""
    for chart in stack.charts:
        if chart.failure:
            path, line = _place(stack, chart)
            cause, remedy = _explained(chart.cause(chart.failure))
            yield LintProblem(path, line, f"{chart.title} does not render: {cause}", remedy)


def unset_values(stack: LintedStack) -> Iterator[LintProblem]:
    """Every value that a template prints is set, or has a default."""
    for chart in stack.charts:
        if chart.failure:
            continue
        for one in missing_values(chart):
            problem = f"{{{{ {one.value} }}}} prints nothing: values.yaml does not set it"
            name = one.value.rpartition(".")[2]
            remedy = (
                f"set {name} in values.yaml, put this behind {{{{ if }}}}, or write {{{{ {one.value} | default ... }}}}"
            )
            yield LintProblem(f"{chart.directory}/{one.path}", one.line, problem, remedy)


def _explained(cause: str) -> tuple[str, str]:
    """Split what Helm says into the cause, in plain words where there are some, and what to do."""
    if nothing := _NIL_POINTER.search(cause):
        parent = nothing["path"].removesuffix(f".{nothing['field']}")
        plain = f"{cause[: nothing.start()]}{{{{ {nothing['path']} }}}}: {parent} has no value"
        return plain, f"set it in values.yaml, or put this behind {{{{ if {parent} }}}}"
    if rendered := _RENDERED_LINE.search(cause):
        head, problem = cause[: rendered.end()], cause[rendered.end() :]
        what, _, advice = problem.partition(": ")
        remedy = advice or "correct the template"
        return f"{head}{what}", f"{remedy}; line {rendered['line']} counts the text that the template renders"
    for pattern, remedy in _ADVICE:
        if pattern in cause:
            return cause, remedy
    return cause, "correct the template at this place"


def values(stack: LintedStack) -> Iterator[LintProblem]:
    """Every values template renders with a cluster's objects."""
    for chart in stack.addons:
        if chart.values_failure:
            cause = chart.cause(chart.values_failure).removeprefix(f"{chart.values_path}:")
            line, _, rest = cause.partition(": ")
            at, problem = (int(line), rest) if line.isdecimal() else (1, cause.strip())
            yield LintProblem(chart.values_path, at, f"does not render: {problem}", _TRY)


def repetitions(stack: LintedStack) -> Iterator[LintProblem]:
    """No mapping has a key twice."""
    for chart in stack.charts:
        for repetition in chart.repetitions:
            path = chart.place(repetition.path)
            line = _second(stack.content(path), repetition.problem)
            yield LintProblem(
                path, line, f"renders a mapping in which {repetition.problem}", "Helm takes the last: drop the other"
            )


_HOOK_ADVICE: Final = {
    HookUse.APPLIED: (
        "it is applied in each delivery, in the order of kinds and not before or after the other objects",
        "check that it works without its weight; drop the annotation if it need not be a hook",
    ),
    HookUse.LEFT_OUT: (
        "it is not applied, as a delivery never deletes, rolls back or tests a Helm release",
        "drop it, or drop the annotation if clusters need the object",
    ),
    HookUse.UNKNOWN: (
        "it is not applied, as Helm 4 does not know all of these hooks",
        "drop the annotation if clusters need the object",
    ),
}


def hooks(stack: LintedStack) -> Iterator[LintProblem]:
    """Name every object that is a Helm hook, and what becomes of it."""
    for chart in stack.charts:
        for hook in chart.hooks:
            path = chart.place(hook.path)
            line = line_of_text(stack.content(path), f"name: {hook.name}", f"kind: {hook.kind}", HOOK_ANNOTATION)
            becomes, remedy = _HOOK_ADVICE[HookUse(hook.use)]
            yield LintProblem(path, line, f"{hook.kind} {hook.name} is a Helm hook ({hook.hooks}): {becomes}", remedy)


def kubernetes(stack: LintedStack) -> Iterator[LintProblem]:
    """Every chart, and every one it depends on, says that it works with the stack's Kubernetes version."""
    if stack.settings is None:
        return
    version = stack.settings.kubernetes
    for chart in stack.charts:
        for title, wanted in chart.wanted_kubernetes():
            if not _allows(wanted, version.text.removeprefix("v")):
                line = line_of_text(chart.content, f"- name: {title}", "kubeVersion:")
                problem = f"{title} wants Kubernetes {wanted}, and the stack is for {version}"
                yield LintProblem(chart.chart_file, line, problem, "take a version of the chart that works with it")


def _allows(wanted: str, version: str) -> bool:
    try:
        return Constraint.parse(wanted).allows(SemVer.parse(version))
    except SpecError:
        return True  # nobody can tell


def _second(content: bytes, problem: str) -> int:
    """Find where a key stands the second time, if the template writes it as it is rendered."""
    key = re.search(r"'(.*)'", problem)
    if key is None:
        return 1
    lines = [
        number for number, line in enumerate(content.decode(errors="replace").splitlines(), 1) if _sets(line, key[1])
    ]
    return lines[min(len(lines), 2) - 1] if lines else 1


def _sets(line: str, key: str) -> bool:
    return line.strip().removeprefix("- ").startswith((f"{key}:", f'"{key}":', f"'{key}':"))


def _place(stack: LintedStack, chart: LintedChart) -> tuple[str, int]:
    if found := _VALUES.search(chart.failure):
        path = f"{chart.directory}/values.yaml"
        return path, min(int(found[1]), stack.content(path).count(b"\n") or 1)
    if found := _PLACE.search(chart.failure):
        path = chart.place(found[1])
        return path, int(found[2]) if path != chart.chart_file else 1
    found = _RENDERED_PLACE.search(chart.failure)
    if found is None:
        return chart.chart_file, 1
    path = chart.place(found[1])
    rendered = _RENDERED_LINE.search(chart.failure)
    return path, _source_line(stack.content(path), int(rendered["line"])) if rendered else 1


def _source_line(content: bytes, rendered: int) -> int:
    """Guess the line of a template that renders to a line: exact where nothing before it is repeated or left out."""
    for number, line in enumerate(content.split(b"\n"), 1):
        trims_before, trims_behind = b"{{-" in line and number > 1, b"-}}" in line
        rendered -= not (_CONTROL.match(line) and (trims_before or trims_behind))
        if rendered == 0:
            return number
    return 1


RULES = (
    LintRule("chart-renders", LintSeverity.ERROR, "Every chart renders, for the stack's Kubernetes version.", charts),
    LintRule(
        "value-unset", LintSeverity.WARNING, "Every value that a template prints is set or has a default.", unset_values
    ),
    LintRule(
        "chart-kubernetes",
        LintSeverity.WARNING,
        "Every chart and dependency works with the stack's Kubernetes version, by its kubeVersion.",
        kubernetes,
    ),
    LintRule("values-render", LintSeverity.ERROR, "overwrite.yaml and cluster-addon-values.yaml render.", values),
    LintRule("repeated-key", LintSeverity.WARNING, "No rendered mapping has one key twice.", repetitions),
    LintRule(
        "helm-hook",
        LintSeverity.WARNING,
        "No object is a Helm hook: those of install and upgrade are applied like other objects, others are not.",
        hooks,
    ),
)


MAX_TEMPLATE_BYTES: Final = 1024 * 1024
"""Largest template looked at (arbitrary: the largest of Cilium has 60 KB)."""

_VALUE: Final = re.compile(r"\$?\.Values\.(\w+(?:\.\w+)*)")
_OPENING: Final = frozenset({"if", "with", "range"})
_GLOBAL: Final = "global"
"""Values that a parent chart may pass on."""


@dataclass(frozen=True, slots=True)
class MissingValue:
    """A value that is not set.

    Args:
        path: The template, below the chart's directory.
        line: Of the action, from 1.
        value: As the template writes it, e.g. ``.Values.zone``.
    """

    path: str
    line: int
    value: str


def missing_values(chart: LintedChart) -> Iterator[MissingValue]:
    """Find the values that the chart's own templates print without a condition or default, and that are not set."""
    try:
        values = yaml.load(chart.files.get("values.yaml", b""), name="values.yaml")
    except yaml.YamlError:
        return  # rendering says so
    for path, content in sorted(chart.files.items()):
        if path.startswith("templates/") and path.endswith((".yaml", ".yml", ".tpl")):
            for line, value in _printed(content):
                found = _VALUE.fullmatch(value)
                if found and not _is_set(found[1].split("."), values, chart.values_template):
                    yield MissingValue(path, line, value)


def _printed(content: bytes) -> list[tuple[int, str]]:
    """List the values that are printed where nothing asked before whether they exist."""
    if len(content) > MAX_TEMPLATE_BYTES:
        return []
    try:
        text = content.decode()
        _, checks = with_checks(text)
        guards = _guards(text)
    except (UnicodeDecodeError, RefusedFunctionError, UnreadableActionError):
        return []  # other rules say so, or values cannot be found in it
    return [(one.line, one.value) for one in checks if not _is_guarded(one.value, guards.get(one.action, ()))]


def _guards(text: str) -> dict[str, tuple[str, ...]]:
    """Return the conditions around each action, by its text; of equal actions those of the least guarded."""
    found: dict[str, tuple[str, ...]] = {}
    open_conditions: list[str] = []
    for action in actions(text):
        written = text[action.start : action.end]
        if action.keyword in _OPENING | {"define", "block"}:
            open_conditions.append(written if action.keyword in _OPENING else "")
        elif action.keyword == "end" and open_conditions:
            open_conditions.pop()
        elif written not in found or len(found[written]) > len(open_conditions):
            found[written] = tuple(open_conditions)
    return found


def _is_guarded(value: str, conditions: tuple[str, ...]) -> bool:
    path = value.removeprefix("$")
    steps = path.split(".")
    # A condition on .Values.a also guards .Values.a.b.
    prefixes = [".".join(steps[:length]) for length in range(3, len(steps) + 1)]
    return any(re.search(rf"{re.escape(one)}(?!\w)", condition) for condition in conditions for one in prefixes)


def _is_set(steps: list[str], values: object, template: bytes) -> bool:
    if steps[0] == _GLOBAL or re.search(rf"(?m)^[ \t]*['\"]?{steps[0]}['\"]?[ \t]*:".encode(), template):
        return True  # what a values template sets below the key depends on the cluster
    for step in steps:
        if not isinstance(values, dict) or step not in values:
            return False
        values = values[step]
    return True
