"""Exponential back-off with jitter."""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from datetime import timedelta

JITTER = 0.25
"""Maximum fraction added to a delay, so that what failed together is not retried together (arbitrary)."""

_chance = random.SystemRandom()


@dataclass(frozen=True, slots=True)
class BackOff:
    """Delays that double from ``first`` and never exceed ``limit``, including jitter."""

    first: timedelta
    limit: timedelta

    def delay(self, failures: int, *, first: timedelta | None = None) -> timedelta:
        """Return the delay after this many failures (1 or more); ``first`` overrides the first, e.g. by Retry-After."""
        start = self.first if first is None else first
        longest = self.limit / (1 + JITTER)
        # The exponent is limited too, because a timedelta overflows after about forty doublings.
        nominal = longest if start >= longest else min(start * 2 ** min(failures - 1, 20), longest)
        return nominal * (1 + JITTER * _chance.random())
