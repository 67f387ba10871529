"""Parses the actions of a Go template into trees with positions, as far as the search for missing values needs it.

Follows the grammar of Go's ``text/template/parse``. It only gets templates that Go has parsed already, so it is
lenient; but an action that it cannot parse is an error and never skipped.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator

KEYWORDS: Final = frozenset({"if", "else", "end", "range", "with", "define", "block", "template", "break", "continue"})

_TOKEN: Final = re.compile(
    r"""
    (?P<space>\s)
  | (?P<literal>"(?:\\.|[^"\\])*" | `[^`]*` | '(?:\\.|[^'\\])+' | [+-]?[0-9][0-9A-Za-z_.+-]*)
  | (?P<value>\$\w*(?:\.\w+)* | (?:\.\w+)+ | \.)
  | (?P<word>\w+)
  | (?P<sign>:=|[=|(),])
    """,
    re.VERBOSE,
)
_COMMENT: Final = re.compile(r"/\*.*?\*/\s*(?:-(?=\}\}))?\}\}", re.DOTALL)
_FIELDS: Final = re.compile(r"(?:\.\w+)+")
_CLOSE: Final = re.compile(r"(?:\s-)?\}\}")


class UnreadableActionError(Exception):
    """An action that does not follow the grammar; ``line`` counts from 1."""

    def __init__(self, line: int) -> None:
        super().__init__(f"line {line}")
        self.line = line


class Token(NamedTuple):
    """A word, value, literal or sign of an action and its position in the template."""

    kind: str
    text: str
    start: int
    end: int


@dataclass(slots=True)
class Operand:
    """A literal, a value such as ``.a.b``, ``$x`` or ``.``, a word, or a pipeline in parentheses with its fields."""

    kind: str
    start: int
    end: int
    name: str = ""
    inner: Pipeline | None = None
    has_fields: bool = False


@dataclass(slots=True)
class TemplateCommand:
    """Adjacent operands: one value, or a function and its arguments."""

    operands: list[Operand] = field(default_factory=list)

    @property
    def function(self) -> str:
        """The called function; empty for a plain value."""
        return self.operands[0].name if self.operands and self.operands[0].kind == "word" else ""


@dataclass(slots=True)
class Pipeline:
    """Commands joined by ``|``."""

    start: int
    end: int = 0
    commands: list[TemplateCommand] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class TemplateAction:
    """``{{ … }}``: its keyword, whether it assigns a variable, and its pipeline; keyword and pipeline are optional."""

    start: int
    end: int
    line: int
    keyword: str
    assigns: bool
    pipeline: Pipeline | None


def actions(text: str) -> Iterator[TemplateAction]:
    """Yield the actions of a template in their order, without comments.

    Raises:
        UnreadableActionError: An action does not follow the grammar.
    """
    position, line, counted = 0, 1, 0
    while (start := text.find("{{", position)) >= 0:
        line += text.count("\n", counted, start)
        counted = start
        body = start + 2
        if text.startswith("-", body) and text[body + 1 : body + 2].isspace():
            body += 2
            while text[body : body + 1].isspace():
                body += 1
        if text.startswith("/*", body):
            comment = _COMMENT.match(text, body)
            if comment is None:
                raise UnreadableActionError(line)
            position = comment.end()
            continue
        tokens, position = _tokens(text, body, line)
        yield _ActionParser(tokens, text, line).action(start, position)


HELM_OBJECTS: Final = frozenset({"Values", "Release", "Chart", "Capabilities", "Files", "Template", "Subcharts"})
"""Fields of the dot of a chart's template."""


def foreign_values(text: str) -> Iterator[tuple[int, str]]:
    """Yield line and text of values such as ``.builtin.x`` that Helm does not have; none if an action is not readable.

    The dot has another meaning in ``range``, ``with`` and ``define``; values below it are left out there.
    """
    opened: list[str] = []
    try:
        for action in actions(text):
            if action.keyword == "end" and opened:
                opened.pop()
            moved = not {"range", "with", "define", "block"}.isdisjoint(opened)
            for value in _values(action.pipeline):
                root, _, path = value.partition(".")
                if root in ("", "$") and path.partition(".")[0] not in HELM_OBJECTS | {""} and (root or not moved):
                    yield action.line, value
            if action.keyword in {"if", "range", "with", "define", "block"}:
                opened.append(action.keyword)
    except UnreadableActionError:
        return


def escaped(value: str) -> str:
    """Return the remedy for a template of Cluster API that Helm evaluates."""
    return f"escape it: {{{{ `{{{{ {value} }}}}` }}}}, or {{{{ `...` }}}} around the whole template of Cluster API"


def _values(pipeline: Pipeline | None) -> Iterator[str]:
    for command in pipeline.commands if pipeline else ():
        for operand in command.operands:
            if operand.kind == "value":
                yield operand.name
            yield from _values(operand.inner)


def _tokens(text: str, position: int, line: int) -> tuple[list[Token], int]:
    tokens: list[Token] = []
    while (close := _CLOSE.match(text, position)) is None:
        match = _TOKEN.match(text, position)
        if match is None or match.lastgroup is None:
            raise UnreadableActionError(line)
        if match.lastgroup != "space":
            tokens.append(Token(match.lastgroup, match.group(), match.start(), match.end()))
        position = match.end()
    return tokens, close.end()


class _ActionParser:
    """Recursive descent over the tokens of one action."""

    def __init__(self, tokens: list[Token], text: str, line: int) -> None:
        self._tokens = tokens
        self._text = text
        self._line = line
        self._next = 0

    def action(self, start: int, end: int) -> TemplateAction:
        keyword = ""
        while self._peek("word") and self._tokens[self._next].text in KEYWORDS:
            keyword = keyword or self._tokens[self._next].text  # "else if" is an else
            self._next += 1
        if keyword in {"define", "block", "template"}:
            self._next += 1  # the template's name
        assigns = self._skip_variables()
        pipeline = self._pipeline() if self._next < len(self._tokens) else None
        if self._next < len(self._tokens):
            raise UnreadableActionError(self._line)
        return TemplateAction(start, end, self._line, keyword, assigns, pipeline)

    def _skip_variables(self) -> bool:
        signs = [token.text for token in self._tokens]
        for number, sign in enumerate(signs):
            if sign in {":=", "="} and self._tokens[number].kind == "sign":
                self._next = number + 1
                return True
        return False

    def _pipeline(self) -> Pipeline:
        if self._next >= len(self._tokens):
            raise UnreadableActionError(self._line)
        pipeline = Pipeline(self._tokens[self._next].start)
        while True:
            pipeline.commands.append(self._command())
            pipeline.end = pipeline.commands[-1].operands[-1].end
            if not self._peek("sign", "|"):
                return pipeline
            self._next += 1

    def _command(self) -> TemplateCommand:
        command = TemplateCommand()
        while self._next < len(self._tokens) and not self._peek("sign", "|") and not self._peek("sign", ")"):
            command.operands.append(self._operand())
        if not command.operands:
            raise UnreadableActionError(self._line)
        return command

    def _operand(self) -> Operand:
        token = self._tokens[self._next]
        self._next += 1
        if token.kind != "sign":
            return Operand(token.kind, token.start, token.end, name=token.text)
        if token.text != "(":
            raise UnreadableActionError(self._line)
        inner = self._pipeline()
        if not self._peek("sign", ")"):
            raise UnreadableActionError(self._line)
        end = self._tokens[self._next].end
        self._next += 1
        fields = _FIELDS.match(self._text, end)
        if fields is None:
            return Operand("paren", token.start, end, inner=inner)
        self._next += 1  # the fields are a separate value token
        return Operand("paren", token.start, fields.end(), inner=inner, has_fields=True)

    def _peek(self, kind: str, text: str = "") -> bool:
        if self._next >= len(self._tokens):
            return False
        token = self._tokens[self._next]
        return token.kind == kind and text in {"", token.text}
