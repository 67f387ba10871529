"""How long to wait before trying again."""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from datetime import timedelta

JITTER = 0.25
"""Largest share a wait is lengthened by, so that what failed together does not come back together (arbitrary)."""

_chance = random.SystemRandom()


@dataclass(frozen=True, slots=True)
class BackOff:
    """Waits that double from ``first`` and, jitter included, never exceed ``limit``."""

    first: timedelta
    limit: timedelta

    def delay(self, failures: int, *, first: timedelta | None = None) -> timedelta:
        """Return the wait after the given number of failures in a row.

        Args:
            failures: How often in a row it failed; 1 or more.
            first: The shortest useful wait, where the failure itself says so.
        """
        start = self.first if first is None else first
        longest = self.limit / (1 + JITTER)
        # The exponent is bounded before the product is: a timedelta overflows after some forty doublings.
        nominal = longest if start >= longest else min(start * 2 ** min(failures - 1, 20), longest)
        return nominal * (1 + JITTER * _chance.random())
