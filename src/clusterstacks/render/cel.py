"""CEL expressions on live objects. Runs in worker processes only: an expression may block the process for seconds."""

from __future__ import annotations

from typing import Any

from cel_expr_python import cel

from clusterstacks.render.errors import CelFailed, CelUndecided, shortened

_WAIT_OR_CORRECT = "it is evaluated again; if the objects never get this field, correct the condition"


def holds(expression: str, variables: dict[str, Any]) -> bool:
    """Tell whether the expression is true; a result that is no bool counts as false (FORMATS 13).

    Raises:
        CelFailed: the expression does not compile.
        CelUndecided: it fails on these objects.
        MemoryError: it needs more than this process may take.
    """
    # The library reports failures as RuntimeError, and one kind of value as SystemError (DEPENDENCIES 3).
    try:
        environment = cel.NewEnv(variables=dict.fromkeys(variables, cel.Type.DYN))
        compiled = environment.compile(expression)
    except Exception as error:  # noqa: BLE001 - see above
        raise CelFailed(_words(error)) from None
    try:
        result = compiled.eval(data=variables)
        kind, value = result.type(), result.value()
    except Exception as error:  # noqa: BLE001 - see above
        if "bad_alloc" in str(error):
            raise MemoryError from None
        raise CelUndecided(f"{_words(error)}; {_WAIT_OR_CORRECT}") from None
    if kind == cel.Type.ERROR:
        raise CelUndecided(f"{_words(value)}; {_WAIT_OR_CORRECT}")
    return kind == cel.Type.BOOL and value is True


_NO_CONTAINER = " (in container '')"
"""What CEL's compiler says of names where no container is set."""


def _words(error: object) -> str:
    """Take ``1:4: Syntax error: …`` out of the library's codes and its drawing of the place."""
    text = shortened(str(error))
    for noise in ("INVALID_ARGUMENT: ", "NOT_FOUND: ", "ERROR: ", "<input>:"):
        text = text.removeprefix(noise)
    return text.split(" | ", maxsplit=1)[0].replace(_NO_CONTAINER, "")
