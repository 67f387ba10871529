"""How a registry asks who is there: ``WWW-Authenticate`` (RFC 9110 section 11.6.1, and docker's token scheme)."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

MAX_CHARACTERS = 8192
"""How much of a header is read (arbitrary; servers refuse longer ones, too)."""

# Blanks are matched once (``*+``): trying fewer of them would take time that grows with their square.
_SCHEME = re.compile(r"\s*+,?\s*+([A-Za-z0-9!#$%&'*+.^_`|~-]+)(?:\s+(?![\s=])|\s*$)")
_PARAMETER = re.compile(r"\s*+,?\s*+([A-Za-z0-9_-]+)\s*=\s*(?:\"((?:[^\"\\]|\\.)*)\"|([^\s,\"]+))")


@dataclass(frozen=True, slots=True)
class Challenge:
    """One way to say who is there.

    Args:
        scheme: In lower case: ``basic``, ``bearer``.
        parameters: With names in lower case: realm, service, scope, ...
    """

    scheme: str
    parameters: Mapping[str, str]


def parse_challenges(headers: Iterable[str]) -> tuple[Challenge, ...]:
    """Read the values of all such headers; what makes no sense ends the reading of its header."""
    return tuple(challenge for header in headers for challenge in _parse(header[:MAX_CHARACTERS]))


def _parse(header: str) -> list[Challenge]:
    found, position = [], 0
    while scheme := _SCHEME.match(header, position):
        position, parameters = scheme.end(), {}
        while parameter := _PARAMETER.match(header, position):
            name, quoted, plain = parameter.groups()
            parameters[name.lower()] = re.sub(r"\\(.)", r"\1", quoted) if quoted is not None else plain
            position = parameter.end()
        found.append(Challenge(scheme[1].lower(), parameters))
    return found
