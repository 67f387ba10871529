"""Charts and values templates render as the operator renders them."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from clusterstacks.authoring.findings import Fault, LintRule, LintSeverity
from clusterstacks.authoring.missing_values import missing_values
from clusterstacks.authoring.positions import line_of_text
from clusterstacks.charts.helm_hooks import HOOK_ANNOTATION, HookUse
from clusterstacks.domain.errors import SpecError
from clusterstacks.domain.semver import Constraint, SemVer

if TYPE_CHECKING:
    from collections.abc import Iterator

    from clusterstacks.authoring.stack import LintedStack
    from clusterstacks.authoring.stack_chart import Chart

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


def charts(stack: LintedStack) -> Iterator[Fault]:
    """Every chart renders to objects that Kubernetes takes."""
    for chart in stack.charts:
        if chart.failure:
            path, line = _place(stack, chart)
            cause, way_out = _explained(chart.cause(chart.failure))
            yield Fault(path, line, f"{chart.title} does not render: {cause}", way_out)


def unset_values(stack: LintedStack) -> Iterator[Fault]:
    """Every value that a template prints is set, or has a default."""
    for chart in stack.charts:
        if chart.failure:
            continue
        for one in missing_values(chart):
            problem = f"{{{{ {one.value} }}}} prints nothing: values.yaml does not set it"
            name = one.value.rpartition(".")[2]
            way_out = (
                f"set {name} in values.yaml, put this behind {{{{ if }}}}, or write {{{{ {one.value} | default ... }}}}"
            )
            yield Fault(f"{chart.directory}/{one.path}", one.line, problem, way_out)


def _explained(cause: str) -> tuple[str, str]:
    """Split what Helm says into the cause, in plain words where there are some, and what to do."""
    if nothing := _NIL_POINTER.search(cause):
        parent = nothing["path"].removesuffix(f".{nothing['field']}")
        plain = f"{cause[: nothing.start()]}{{{{ {nothing['path']} }}}}: {parent} has no value"
        return plain, f"set it in values.yaml, or put this behind {{{{ if {parent} }}}}"
    if rendered := _RENDERED_LINE.search(cause):
        head, problem = cause[: rendered.end()], cause[rendered.end() :]
        what, _, advice = problem.partition(": ")
        way_out = advice or "correct the template"
        return f"{head}{what}", f"{way_out}; line {rendered['line']} counts the text that the template renders"
    for pattern, way_out in _ADVICE:
        if pattern in cause:
            return cause, way_out
    return cause, "correct the template at this place"


def values(stack: LintedStack) -> Iterator[Fault]:
    """Every values template renders with a cluster's objects."""
    for chart in stack.addons:
        if chart.values_failure:
            cause = chart.cause(chart.values_failure).removeprefix(f"{chart.values_path}:")
            line, _, rest = cause.partition(": ")
            at, problem = (int(line), rest) if line.isdecimal() else (1, cause.strip())
            yield Fault(chart.values_path, at, f"does not render: {problem}", _TRY)


def repetitions(stack: LintedStack) -> Iterator[Fault]:
    """No mapping has a key twice."""
    for chart in stack.charts:
        for repetition in chart.repetitions:
            path = chart.place(repetition.path)
            line = _second(stack.content(path), repetition.problem)
            yield Fault(
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


def hooks(stack: LintedStack) -> Iterator[Fault]:
    """Name every object that is a Helm hook, and what becomes of it."""
    for chart in stack.charts:
        for hook in chart.hooks:
            path = chart.place(hook.path)
            line = line_of_text(stack.content(path), f"name: {hook.name}", f"kind: {hook.kind}", HOOK_ANNOTATION)
            becomes, way_out = _HOOK_ADVICE[HookUse(hook.use)]
            yield Fault(path, line, f"{hook.kind} {hook.name} is a Helm hook ({hook.hooks}): {becomes}", way_out)


def kubernetes(stack: LintedStack) -> Iterator[Fault]:
    """Every chart, and every one it depends on, says that it works with the stack's Kubernetes version."""
    if stack.settings is None:
        return
    version = stack.settings.kubernetes
    for chart in stack.charts:
        for title, wanted in chart.wanted_kubernetes():
            if not _allows(wanted, version.text.removeprefix("v")):
                line = line_of_text(chart.content, f"- name: {title}", "kubeVersion:")
                problem = f"{title} wants Kubernetes {wanted}, and the stack is for {version}"
                yield Fault(chart.chart_file, line, problem, "take a version of the chart that works with it")


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


def _place(stack: LintedStack, chart: Chart) -> tuple[str, int]:
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
