"""Bounds of a search: a number of looks, which is the same on every machine, and time."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

LOOKS = 20_000_000
"""Combinations that a search looks at before it gives up, as each takes memory. Arbitrary: above what a search looks at
in its time."""

_LOOKS_PER_CLOCK_READING = 1000
"""Looks between two readings of the clock: about a millisecond."""


class BudgetExhausted(Exception):
    """A search spent its budget."""


def _never() -> bool:
    return False


@dataclass(slots=True)
class Budget:
    """The rest of the budget of a search.

    Args:
        looks: Combinations that may still be looked at.
        is_over: Reports whether the time is over; called now and then.
    """

    looks: int = LOOKS
    is_over: Callable[[], bool] = _never
    _until_reading: int = 0

    def spend(self, looks: int = 1) -> None:
        """Spend looks.

        Raises:
            BudgetExhausted: No looks are left, or the time is over.
        """
        self.looks -= looks
        self._until_reading -= looks
        if self.looks < 0:
            raise BudgetExhausted
        if self._until_reading < 0:
            self._until_reading = _LOOKS_PER_CLOCK_READING
            if self.is_over():
                raise BudgetExhausted
