"""Evaluates CEL expressions on live objects. Only for worker processes: an expression may block for seconds."""

from __future__ import annotations

import re
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any, Final

from cel_expr_python import cel

from clusterstacks.deliver.render.errors import CelFailed, CelUndecided, shortened
from clusterstacks.model.documents import and_more, shown

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

SHOWN_KEYS: Final = 10
"""Maximum number of keys of a mapping in a message (arbitrary)."""

COMPARED_CHARACTERS: Final = 64
"""Maximum length of a key that is compared with a misspelled key (arbitrary; field names are shorter)."""

COMPARED_KEYS: Final = 1000
"""Maximum number of keys that are compared with a misspelled key (arbitrary: takes some milliseconds)."""

_WAIT: Final = "wait until the objects change"
_CORRECT: Final = "correct the condition"
_PLAIN: Final = {"Applying SELECT to non-message type": "the condition reads a field of a value that has no fields"}
_KEY_MISSING: Final = re.compile(r'Key not found in map : "(.*)"', re.DOTALL)
_ASSIGNMENT: Final = re.compile(r"token recognition error at: '= ?'")
_UNDECLARED: Final = re.compile(r"undeclared reference to '([A-Za-z_]\w*)([\w.]*)'")

# info.data["clusterName"]: a name, and what follows it in the form .name or ["name"]
_PATH: Final = re.compile(r"""[A-Za-z_]\w*(?:\.[A-Za-z_]\w*|\[(?:"[^"\\]*"|'[^'\\]*')\])*""")
_PART: Final = re.compile(r"""\["([^"]*)"\]|\['([^']*)'\]|(\w+)""")


def holds(expression: str, variables: dict[str, Any]) -> bool:
    """Return whether the expression is true; the value of a field that is not a bool counts as false.

    Raises:
        CelFailed: The expression does not compile, or never yields a bool.
        CelUndecided: The expression fails on these objects.
        MemoryError: The expression needs more memory than this process may use.
    """
    # The library reports failures as RuntimeError, and one kind of value as SystemError.
    try:
        environment = cel.NewEnv(variables=dict.fromkeys(variables, cel.Type.DYN))
        compiled = environment.compile(expression)
    except Exception as error:  # noqa: BLE001 - see above
        raise CelFailed(_uncompiled(_words(error), expression, variables)) from None
    if compiled.return_type() not in (cel.Type.BOOL, cel.Type.DYN):
        raise CelFailed("it never is true or false, because it has another type; compare it with a value")
    try:
        result = compiled.eval(data=variables)
        kind, value = result.type(), result.value()
    except Exception as error:  # noqa: BLE001 - see above
        if "bad_alloc" in str(error):
            raise MemoryError from None
        raise CelUndecided(_undecided(_words(error), expression, variables)) from None
    if kind == cel.Type.ERROR:
        raise CelUndecided(_undecided(_words(value), expression, variables))
    return kind == cel.Type.BOOL and value is True


def _uncompiled(words: str, expression: str, variables: Collection[str]) -> str:
    """Return the message of the compiler, and the advice after the last semicolon."""
    return f"{words}; {_advice(words, expression, variables)}"


def _advice(words: str, expression: str, variables: Collection[str]) -> str:
    if _ASSIGNMENT.search(words):
        return "write == to compare"
    undeclared = _UNDECLARED.search(words)
    if undeclared is None or undeclared[1] in variables or f"{undeclared[1]}(" in expression:
        return _CORRECT
    near = get_close_matches(undeclared[1], variables, 1)
    known = f"the keys of its objects are {_listed(variables)}" if variables else "the condition has no objects"
    return f"write {near[0]}{undeclared[2]}, because {known}" if near else f"{known}: {_CORRECT}"


def _undecided(words: str, expression: str, variables: dict[str, Any]) -> str:
    """Explain why the expression fails on these objects; a computed key is a value and is not shown."""
    missing = _KEY_MISSING.fullmatch(words)
    if missing is None:
        return f"{_PLAIN.get(words, words)}: {_WAIT}, or {_CORRECT}"
    key = missing[1]
    for path, mapping in _lacking(key, expression, variables):
        near = get_close_matches(key, _comparable(mapping), 1) if len(key) <= COMPARED_CHARACTERS else []
        has = f"only {_listed(mapping)}" if mapping else "because it is empty"
        advice = f"write {shown(near[0])}, or {_WAIT}" if near else f"{_WAIT}, or {_CORRECT}"
        return f"{path} has no key {shown(key)}, {has}: {advice}"
    is_literal = re.search(rf"(?<!\w){re.escape(key)}(?!\w)", expression)
    named = f"the key {shown(key)}" if is_literal else "a key that the condition computes"
    return f"an object lacks {named}: {_WAIT}, or {_CORRECT}"


def _lacking(key: str, expression: str, variables: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the mappings, with their paths, in which the expression reads a key that does not exist."""
    for matched in _PATH.finditer(expression):
        node: Any = variables
        for part in _PART.finditer(matched[0]):
            name = part[1] or part[2] or part[3] or ""
            if not isinstance(node, dict):
                break
            if name not in node:
                if name == key and part.start():
                    yield matched[0][: part.start()].removesuffix("."), node
                break
            node = node[name]


def _comparable(mapping: dict[str, Any]) -> list[str]:
    return [key for key in mapping if len(key) <= COMPARED_CHARACTERS][:COMPARED_KEYS]


def _listed(keys: Collection[str]) -> str:
    return and_more([shown(name) for name in sorted(keys)], SHOWN_KEYS)


_NO_CONTAINER = " (in container '')"
"""Suffix of names in messages of the CEL compiler if no container is set."""


def _words(error: object) -> str:
    """Extract ``1:4: Syntax error: …`` from the codes and the drawing of the library."""
    text = shortened(str(error))
    for noise in ("INVALID_ARGUMENT: ", "NOT_FOUND: ", "UNKNOWN: ", "ERROR: ", "<input>:"):
        text = text.removeprefix(noise)
    return text.split(" | ", maxsplit=1)[0].replace(_NO_CONTAINER, "")
