"""Rules for rendering: charts, values templates, and values that templates print but that are not set."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from clusterstacks.csctl.authoring.findings import LintProblem, LintRule, LintSeverity, line_of_text
from clusterstacks.csctl.authoring.missing_values import RefusedFunctionError, with_checks
from clusterstacks.csctl.authoring.template_syntax import HELM_OBJECTS, UnreadableActionError, actions, escaped
from clusterstacks.model import yaml
from clusterstacks.model.errors import SpecError
from clusterstacks.model.semver import Constraint, SemVer
from clusterstacks.release.charts.helm_hooks import HOOK_ANNOTATION, HookUse

if TYPE_CHECKING:
    from collections.abc import Iterator

    from clusterstacks.csctl.authoring.stack import LintedChart, LintedStack

_TRY = "correct it, or try it with other objects: csctl template --sample writes a file for --cluster"

# Patterns of Helm's messages. The parser of values.yaml may name the line after the last one.
_VALUES = re.compile(r"cannot load values\.yaml: .*?line (\d+)")
_PLACE = re.compile(r"([^\s()\"]+/(?:templates|crds)/[^\s()\":]+):(\d+)")
_RENDERED_LINE = re.compile(r"\(rendered\), line (?P<line>\d+): ")
_NIL_POINTER = re.compile(
    r"executing \"[^\"]*\" at <(?P<path>[^<>\s]+)>: nil pointer evaluating interface \{\}\.(?P<field>\w+)"
)
_ADVICE = (
    ("not defined", "correct the name: neither Go templates nor Helm have this function"),
    ("no template", "correct the name, or add a {{ define }} with this name"),
    ("cannot load values.yaml", "correct values.yaml"),
    (
        "values don't meet the specifications",
        "correct values.yaml or the values template as values.schema.json demands",
    ),
    ("cannot load Chart.yaml", "correct Chart.yaml"),
    ("unexpected", "correct the syntax between {{ and }}, or add the missing {{ end }}"),
    ("unclosed action", "close the action with }}"),
    ("excludes Chart.yaml", "correct .helmignore: a rule with ! excludes every file that it does not match"),
    ("has no ", "add the field to the object, or remove the object"),
)
"""Remedies by a piece of Helm's message; the first match applies."""

_CONTROL = re.compile(
    rb"^[ \t]*\{\{-?[ \t]*(?:/\*.*\*/|(?:if|else|end|range|with|define|block|\$\w+ :?=)\b[^{}]*)[ \t]*-?\}\}[ \t]*$"
)
"""A template line without output if it trims the white space around it."""
_RENDERED_PLACE = re.compile(r"([^\s()\"]+/(?:templates|crds)/[^\s()\":,]+)")

MAX_TEMPLATE_BYTES: Final = 1024 * 1024
"""Size limit of templates that are searched (arbitrary: the largest of Cilium has 60 KB)."""

_VALUE: Final = re.compile(r"\$?\.Values\.(\w+(?:\.\w+)*)")
_OPENING: Final = frozenset({"if", "with", "range"})
_GLOBAL: Final = "global"
"""Values that a parent chart may set."""


def charts(stack: LintedStack) -> Iterator[LintProblem]:
    """Report charts that do not render to valid objects."""
    for chart in stack.charts:
        if chart.failure:
            path, line = _place(stack, chart)
            cause, remedy = _explained(chart.cause(chart.failure), of_class=not chart.addon)
            yield LintProblem(path, line, f"{chart.title} does not render: {cause}", remedy)


def unset_values(stack: LintedStack) -> Iterator[LintProblem]:
    """Report values that a template prints, but that are not set and have no default."""
    for chart in stack.charts:
        if chart.failure:
            continue
        for path, line, value in _missing_values(chart):
            problem = f"{{{{ {value} }}}} prints nothing: values.yaml does not set it"
            name = value.rpartition(".")[2]
            remedy = f"set {name} in values.yaml, wrap this in {{{{ if }}}}, or write {{{{ {value} | default ... }}}}"
            yield LintProblem(path, line, problem, remedy)


def _explained(cause: str, *, of_class: bool) -> tuple[str, str]:
    """Split a message of Helm into cause and remedy, and reword the common ones."""
    if nothing := _NIL_POINTER.search(cause):
        parent = nothing["path"].removesuffix(f".{nothing['field']}")
        plain = f"{cause[: nothing.start()]}{{{{ {nothing['path']} }}}}: {parent} has no value"
        if of_class and parent.removeprefix("$").split(".")[1] not in HELM_OBJECTS:
            return plain, escaped(nothing["path"])
        return plain, f"set it in values.yaml, or wrap this in {{{{ if {parent} }}}}"
    if rendered := _RENDERED_LINE.search(cause):
        head, problem = cause[: rendered.end()], cause[rendered.end() :]
        what, _, advice = problem.partition(": ")
        remedy = advice or "correct the template"
        return f"{head}{what}", f"{remedy}; line {rendered['line']} is a line of the rendered text"
    for pattern, remedy in _ADVICE:
        if pattern in cause:
            return cause, remedy
    return cause, "correct the template here"


def values(stack: LintedStack) -> Iterator[LintProblem]:
    """Report values templates that do not render with the objects of a cluster."""
    for chart in stack.addons:
        if chart.values_failure:
            cause = chart.cause(chart.values_failure).removeprefix(f"{chart.values_path}:")
            line, _, rest = cause.partition(": ")
            at, problem = (int(line), rest) if line.isdecimal() else (1, cause.strip())
            yield LintProblem(chart.values_path, at, f"does not render: {problem}", _TRY)


def repetitions(stack: LintedStack) -> Iterator[LintProblem]:
    """Report rendered mappings with a duplicate key."""
    for chart in stack.charts:
        for repetition in chart.repetitions:
            path = chart.place(repetition.path)
            line = _second(stack.content(path), repetition.problem)
            yield LintProblem(
                path, line, f"renders a mapping in which {repetition.problem}", "remove one: Helm uses the last"
            )


_HOOK_ADVICE: Final = {
    HookUse.APPLIED: (
        "it is applied with each delivery, in the order of kinds and not before or after the other objects",
        "check that it works without its weight; remove the annotation if it need not be a hook",
    ),
    HookUse.LEFT_OUT: (
        "it is not applied, as a delivery never deletes, rolls back or tests a Helm release",
        "remove it, or remove the annotation if clusters need the object",
    ),
    HookUse.UNKNOWN: (
        "it is not applied, as Helm 4 does not know all of these hooks",
        "remove the annotation if clusters need the object",
    ),
}


def hooks(stack: LintedStack) -> Iterator[LintProblem]:
    """Report objects that are Helm hooks, and how the operator treats them."""
    for chart in stack.charts:
        for hook in chart.hooks:
            path = chart.place(hook.path)
            line = line_of_text(stack.content(path), f"name: {hook.name}", f"kind: {hook.kind}", HOOK_ANNOTATION)
            becomes, remedy = _HOOK_ADVICE[HookUse(hook.use)]
            yield LintProblem(path, line, f"{hook.kind} {hook.name} is a Helm hook ({hook.hooks}): {becomes}", remedy)


def kubernetes(stack: LintedStack) -> Iterator[LintProblem]:
    """Report charts and dependencies whose ``kubeVersion`` excludes the Kubernetes version of the stack."""
    if stack.settings is None:
        return
    version = stack.settings.kubernetes
    for chart in stack.charts:
        for title, wanted in chart.wanted_kubernetes():
            if not _allows(wanted, version.text.removeprefix("v")):
                line = line_of_text(chart.content, f"- name: {title}", "kubeVersion:")
                problem = f"{title} requires Kubernetes {wanted}, but the stack is for {version}"
                yield LintProblem(
                    chart.chart_file, line, problem, f"use a version of the chart that supports {version}"
                )


def _allows(wanted: str, version: str) -> bool:
    try:
        return Constraint.parse(wanted).allows(SemVer.parse(version))
    except SpecError:
        return True  # not comparable


def _second(content: bytes, problem: str) -> int:
    """Return the line of the second occurrence of a key, if the template contains it literally."""
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
    if values_line := _VALUES.search(chart.failure):
        path = f"{chart.directory}/values.yaml"
        return path, min(int(values_line[1]), stack.content(path).count(b"\n") or 1)
    if template_line := _PLACE.search(chart.failure):
        path = chart.place(template_line[1])
        return path, int(template_line[2]) if path != chart.chart_file else 1
    template = _RENDERED_PLACE.search(chart.failure)
    if template is None:
        return chart.chart_file, 1
    path = chart.place(template[1])
    rendered = _RENDERED_LINE.search(chart.failure)
    return path, _source_line(stack.content(path), int(rendered["line"])) if rendered else 1


def _source_line(content: bytes, rendered: int) -> int:
    """Guess the template line of a rendered line: exact if no line before it is repeated or left out."""
    for number, line in enumerate(content.split(b"\n"), 1):
        trims_before, trims_behind = b"{{-" in line and number > 1, b"-}}" in line
        rendered -= not (_CONTROL.match(line) and (trims_before or trims_behind))
        if rendered == 0:
            return number
    return 1


def _missing_values(chart: LintedChart) -> Iterator[tuple[str, int, str]]:
    """Yield file, line and expression of each value that a template prints without a condition and that is not set."""
    try:
        values = yaml.load(chart.files.get("values.yaml", b""), name="values.yaml")
    except yaml.YamlError:
        return  # ``chart-renders`` reports it
    for path, content in sorted(chart.files.items()):
        if path.startswith("templates/") and path.endswith((".yaml", ".yml", ".tpl")):
            for line, value in _printed(content):
                path_in_values = _VALUE.fullmatch(value)
                if path_in_values and not _is_set(path_in_values[1].split("."), values, chart.values_template):
                    yield f"{chart.directory}/{path}", line, value


def _printed(content: bytes) -> list[tuple[int, str]]:
    """Return line and expression of each value that is printed outside of a condition on it."""
    if len(content) > MAX_TEMPLATE_BYTES:
        return []
    try:
        text = content.decode()
        _, checks = with_checks(text)
        guards = _guards(text)
    except (UnicodeDecodeError, RefusedFunctionError, UnreadableActionError):
        return []  # other rules report it, or the values cannot be found
    return [(check.line, check.value) for check in checks if not _is_guarded(check.value, guards.get(check.action, ()))]


def _guards(text: str) -> dict[str, tuple[str, ...]]:
    """Return the conditions around each action, by its text; for equal actions, the shortest list of conditions."""
    conditions: dict[str, tuple[str, ...]] = {}
    open_conditions: list[str] = []
    for action in actions(text):
        written = text[action.start : action.end]
        if action.keyword in _OPENING | {"define", "block"}:
            open_conditions.append(written if action.keyword in _OPENING else "")
        elif action.keyword == "end" and open_conditions:
            open_conditions.pop()
        elif written not in conditions or len(conditions[written]) > len(open_conditions):
            conditions[written] = tuple(open_conditions)
    return conditions


def _is_guarded(value: str, conditions: tuple[str, ...]) -> bool:
    path = value.removeprefix("$")
    steps = path.split(".")
    # A condition on .Values.a also guards .Values.a.b.
    prefixes = [".".join(steps[:length]) for length in range(3, len(steps) + 1)]
    return any(re.search(rf"{re.escape(prefix)}(?!\w)", condition) for condition in conditions for prefix in prefixes)


def _is_set(steps: list[str], values: object, template: bytes) -> bool:
    if steps[0] == _GLOBAL or re.search(rf"(?m)^[ \t]*['\"]?{steps[0]}['\"]?[ \t]*:".encode(), template):
        return True  # passed on by a parent chart, or set by the values template
    for step in steps:
        if not isinstance(values, dict) or step not in values:
            return False
        values = values[step]
    return True


RULES = (
    LintRule(
        "chart-renders", LintSeverity.ERROR, "Every chart renders for the Kubernetes version of the stack.", charts
    ),
    LintRule(
        "value-unset", LintSeverity.WARNING, "Every value that a template prints is set or has a default.", unset_values
    ),
    LintRule(
        "chart-kubernetes",
        LintSeverity.WARNING,
        "kubeVersion of every chart and dependency allows the Kubernetes version of the stack.",
        kubernetes,
    ),
    LintRule("values-render", LintSeverity.ERROR, "overwrite.yaml and cluster-addon-values.yaml render.", values),
    LintRule("repeated-key", LintSeverity.WARNING, "No rendered mapping has a duplicate key.", repetitions),
    LintRule(
        "helm-hook",
        LintSeverity.WARNING,
        "No object is a Helm hook: hooks of install and upgrade are applied like other objects, others never.",
        hooks,
    ),
)
