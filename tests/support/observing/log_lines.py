"""Reads the log lines of the operator, of either format."""

from __future__ import annotations

import json
import re
from typing import Any, Final

_TEXT_LINE: Final = re.compile(
    r"(?P<time>\S+) (?P<level>\w+) (?P<logger>\S+) "
    r"(?:controller=(?P<controller>\S+) object=(?P<object>\S+) reconcileID=(?P<reconcileID>\S+) )?(?P<message>.*)"
)
"""A line with ``--log-format text``."""


def parse_line(line: str) -> dict[str, Any]:
    """Return the fields of a line; empty if it is not one of the operator."""
    try:
        found = json.loads(line)
    except ValueError:
        match = _TEXT_LINE.fullmatch(line)
        return {name: value for name, value in match.groupdict().items() if value is not None} if match else {}
    return found if isinstance(found, dict) else {}
