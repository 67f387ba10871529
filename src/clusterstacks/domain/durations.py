"""Durations as written in Kubernetes objects."""

from __future__ import annotations

import re
from datetime import timedelta

from clusterstacks.domain.documents import shown
from clusterstacks.domain.errors import SpecError

_DURATION = re.compile(r"(?=.)(?:(\d{1,9})h)?(?:(\d{1,9})m)?(?:(\d{1,9})s)?", re.ASCII)


def parse_duration(text: str) -> timedelta:
    """Parse ``1h30m``, ``10m`` or ``45s``.

    Raises:
        SpecError: It is not a duration.
    """
    found = _DURATION.fullmatch(text)
    if found is None:
        raise SpecError(
            "InvalidDuration", f"{shown(text)} is not a valid duration (expected for example 1h30m, 10m or 45s)"
        )
    hours, minutes, seconds = (int(number or 0) for number in found.groups())
    return timedelta(hours=hours, minutes=minutes, seconds=seconds)
