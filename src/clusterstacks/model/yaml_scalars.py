"""Plain YAML scalars as Kubernetes reads them: bool, null, integer before float, else a string.

The table is what ``sigs.k8s.io/yaml`` does, measured by feeding the same scalars to Helm's ``fromYaml | toJson``.
"""

from __future__ import annotations

import math
import re
from typing import Final, TypeAlias

Scalar: TypeAlias = str | int | float | bool | None

BOOLS: Final = {
    spelling: value
    for value, words in ((True, ("y", "yes", "true", "on")), (False, ("n", "no", "false", "off")))
    for word in words
    for spelling in (word, word.capitalize(), word.upper())
}
NULLS: Final = frozenset({"~", "null", "Null", "NULL", ""})
INT: Final = re.compile(r"([-+]?)(?:0[bB]([01_]+)|0[oO]?([0-7_]+)|0[xX]([0-9a-fA-F_]+)|(0|[1-9][0-9_]*))")
FLOAT: Final = re.compile(r"[-+]?(?:\.[0-9]+|[0-9][0-9_]*(?:\.[0-9_]*)?)(?:[eE][-+]?[0-9]+)?")
NOT_FINITE: Final = re.compile(r"[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN)")
_TELLING_START: Final = frozenset("0123456789+-.~yYnNtTfFoO")
"""First characters of every plain scalar that is not a string."""

_LONGEST_INT: Final = 64
"""Digits that 64 bits need in base 2; longer ones are read as floats, which also keeps ``int()`` linear."""

_LARGEST_PLAIN_KEY: Final = 1e6
"""From here on Go writes floats with an exponent."""


def resolve(text: str) -> Scalar:
    """Read a plain scalar; raise ValueError for infinity and not-a-number, which JSON does not have."""
    if text and text[0] not in _TELLING_START:
        return text
    if text in BOOLS:
        return BOOLS[text]
    if text in NULLS:
        return None
    if match := INT.fullmatch(text):
        return _integer(match, text)
    if FLOAT.fullmatch(text):
        return _float(text)
    if NOT_FINITE.fullmatch(text):
        raise ValueError(f"{text} cannot be expressed in JSON; quote it to make it a string")
    return text


def key_text(value: Scalar, text: str) -> str:
    """Write a resolved scalar as the string key it becomes: ``y`` is ``"true"``, ``0644`` is ``"420"``.

    Raises ValueError for null, and for a number that Kubernetes would write with an exponent or rounded.
    """
    if value is None:
        raise ValueError("a key is null; quote it to make it a string")
    if isinstance(value, str):
        return value
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int) and INT.fullmatch(text):
        return str(value)
    # Kubernetes writes float keys in Go's shortest 32 bit form; seven digits are the same in both.
    key = f"{value:.7g}"
    if "e" in key or float(key) != value or abs(value) >= _LARGEST_PLAIN_KEY:
        raise ValueError(f"key {text} is read as a number; quote it to make it a string")
    return key


def _integer(match: re.Match[str], text: str) -> int | float | str:
    sign, *digits_by_base = match.groups()
    base, written = next((b, d) for b, d in zip((2, 8, 16, 10), digits_by_base, strict=True) if d is not None)
    digits = written.replace("_", "") or ("0" if base == 8 else "")  # "0_" is zero, "0x_" is a string
    if not digits:
        return text
    if len(digits) > _LONGEST_INT:
        return _float(text)
    value = int(f"{sign}{digits}", base)
    # Go reads what neither int64 nor uint64 holds as a float.
    return value if -(2**63) <= value < 2**64 else _float(text)


def _float(text: str) -> int | float | str:
    try:
        value = float(text.replace("_", ""))
    except ValueError:  # 0b, 0o and 0x digits beyond 64 bits
        return text
    if math.isinf(value):
        return text
    # Go writes whole floats without a fraction, and the API server then reads them as integers.
    return int(value) if value.is_integer() and abs(value) < 2**63 else value
