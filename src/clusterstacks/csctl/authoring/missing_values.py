"""Finds missing values that a Go template would print.

Go prints ``<no value>`` for a missing map key, and Helm replaces that by nothing; the strict mode of Helm also fails in
conditions. So the template is rendered a second time with a check before every action that prints or passes a value:
``{{ if kindIs "invalid" (.a) }}{{ fail "…" }}{{ end }}`` before ``{{ .a | quote }}``. A check is in the same branch as
its action, has the same dot and variables, and adds no line.

A value is checked where it is used. The arguments of functions that handle absence (``default``, ``if``, ``hasKey``, …)
may be missing; so may the elements of a list, a dict or the data of another template until they are printed there.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from clusterstacks.csctl.authoring.template_syntax import (
    Operand,
    Pipeline,
    TemplateAction,
    TemplateCommand,
    UnreadableActionError,
    actions,
)
from clusterstacks.deliver.render.errors import RenderFailed

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from clusterstacks.deliver.render.renderer import Renderer
    from clusterstacks.model.objects import Manifest

ASKING: Final = frozenset(
    {"all", "and", "any", "coalesce", "default", "dig", "empty", "not", "or", "required", "ternary"}
    | {"deepEqual", "eq", "fail", "ge", "gt", "has", "hasKey", "le", "lt", "ne"}
    | {"kindIs", "kindOf", "typeIs", "typeIsLike", "typeOf"}
)
"""Functions that detect or replace missing values: their results are checked, their arguments are not."""

STORING: Final = frozenset(
    {"append", "concat", "deepCopy", "dict", "list", "merge", "mergeOverwrite", "prepend", "set", "tuple"}
)
"""Functions that store their arguments: a missing argument matters where their result is used."""

PASSING: Final = "include"
"""Passes its argument to another template, whose actions are checked."""

REFUSED: Final = "tpl"
"""Renders text that is made at run time, in which missing values cannot be found."""

MARK: Final = "missing-value-"
_MARKED: Final = re.compile(rf"{MARK}(\d+)\.")
_CONDITIONS: Final = frozenset({"if", "else", "with", "range"})


@dataclass(frozen=True, slots=True)
class ValueCheck:
    """The check of one value: line (from 1) and text of the action, and the expression without a value if it fails."""

    line: int
    action: str
    value: str


class RefusedFunctionError(Exception):
    """The template calls ``tpl``; ``line`` counts from 1."""

    def __init__(self, line: int) -> None:
        super().__init__(f"line {line}")
        self.line = line


async def check_missing_values(
    renderer: Renderer, template: str, data: Mapping[str, Manifest], *, label: str, file: str
) -> None:
    """Check that a values template, which renders with ``data``, prints no missing value.

    Raises:
        RenderFailed: It prints one, or cannot be checked; names ``label``, ``file``, line and expression.
    """
    place = f"{label}: {file}"
    try:
        checked, checks = with_checks(template)
    except RefusedFunctionError as error:
        problem = "tpl renders text in which missing values cannot be found: write the template directly"
        raise RenderFailed(f"{place}:{error.line}: {problem}") from None
    except UnreadableActionError as error:
        raise RenderFailed(
            f"{place}:{error.line}: missing values cannot be found in this action: simplify it"
        ) from None
    if not checks:
        return
    try:
        await renderer.template(checked, dict(data), label=label, file=file)
    except RenderFailed as error:
        if mark := _MARKED.search(error.message):
            raise RenderFailed(f"{label}: {described(checks[int(mark[1])], file)}") from None
        raise


def with_checks(text: str) -> tuple[str, list[ValueCheck]]:
    """Return the template with its checks, and the checks; check ``n`` fails with ``MARK`` and ``n``.

    Raises:
        RefusedFunctionError: The template calls ``tpl``.
        UnreadableActionError: An action does not follow the grammar.
    """
    checks: list[ValueCheck] = []
    parts: list[str] = []
    copied = 0
    for action in actions(text):
        parts.append(text[copied : action.start])
        for condition, value in dict(_Examination(text, action).conditions()).items():
            parts.append(f'{{{{ if {condition} }}}}{{{{ fail "{MARK}{len(checks)}." }}}}{{{{ end }}}}')
            checks.append(ValueCheck(action.line, text[action.start : action.end], value))
        parts.append(text[action.start : action.end])
        copied = action.end
    return "".join((*parts, text[copied:])), checks


class _Examination:
    """The values that one action uses, as pairs (condition that is true if the value is missing, expression)."""

    def __init__(self, text: str, action: TemplateAction) -> None:
        self._text = text
        self._action = action

    def conditions(self) -> Iterator[tuple[str, str]]:
        pipeline = self._action.pipeline
        if pipeline is None:
            return
        if self._calls_refused(pipeline):
            raise RefusedFunctionError(self._action.line)
        if self._action.keyword not in _CONDITIONS:
            yield from self._pipeline(pipeline, used=not self._action.keyword and not self._action.assigns)

    def _calls_refused(self, pipeline: Pipeline) -> bool:
        return any(
            operand.name == REFUSED if operand.inner is None else self._calls_refused(operand.inner)
            for command in pipeline.commands
            for operand in command.operands
            if operand.kind in {"word", "paren"}
        )

    def _pipeline(self, pipeline: Pipeline, *, used: bool) -> Iterator[tuple[str, str]]:
        uses = [used]
        for command in reversed(pipeline.commands[1:]):
            uses.append(_uses_arguments(command.function, used=uses[-1]))
        piped = ""
        for command, result_used in zip(pipeline.commands, reversed(uses), strict=True):
            yield from self._command(command, used=result_used)
            result = self._text[pipeline.start : command.operands[-1].end]
            if result_used and command.function:
                yield self._absent(command, result, piped), result
            piped = result

    def _absent(self, command: TemplateCommand, result: str, piped: str) -> str:
        # The function get of sprig returns an empty string for a missing key.
        arguments = [self._text[operand.start : operand.end] for operand in command.operands[1:]]
        if command.function == "get":
            return f"not (hasKey {' '.join([*arguments, *([f'({piped})'] if piped else [])])})"
        return f'kindIs "invalid" ({result})'

    def _command(self, command: TemplateCommand, *, used: bool) -> Iterator[tuple[str, str]]:
        if not command.function:
            for operand in command.operands:
                yield from self._operand(operand, used=used)
        elif command.function not in ASKING:
            for operand in command.operands[1:]:
                yield from self._operand(operand, used=_uses_arguments(command.function, used=used))

    def _operand(self, operand: Operand, *, used: bool) -> Iterator[tuple[str, str]]:
        text = self._text[operand.start : operand.end]
        if operand.inner is not None:
            yield from self._pipeline(operand.inner, used=used and not operand.has_fields)
        if used and (operand.kind == "value" or operand.has_fields):
            yield f'kindIs "invalid" ({text})', text


def _uses_arguments(function: str, *, used: bool) -> bool:
    if function in ASKING or function == PASSING:
        return False
    return used if function in STORING else True


def described(check: ValueCheck, file: str) -> str:
    """Return the message about a missing value: place, expression and remedy."""
    action = " ".join(check.action.split())
    value = " ".join(check.value.split())
    remedy = f'guard it with {{{{ if }}}}, or write {{{{ {value} | default "..." }}}}'
    return f"{file}:{check.line}: {action}: {value} has no value; {remedy}"
