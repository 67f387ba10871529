"""What a search may spend: looks, which are the same on every machine, and time."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

LOOKS = 20_000_000
"""Combinations that a search looks at before it gives up, as each takes memory. Arbitrary: above what a search looks at
in its time."""

_LOOKS_PER_ASKING = 1000
"""Looks between two questions about the time: less than a millisecond."""


class Exhausted(Exception):
    """A search spent all it may."""


def _never() -> bool:
    return False


@dataclass(slots=True)
class Effort:
    """What is left.

    Args:
        looks: Combinations that may still be looked at.
        is_over: Whether the time is over; asked now and then.
    """

    looks: int = LOOKS
    is_over: Callable[[], bool] = _never
    _until_asked: int = 0

    def look(self, count: int = 1) -> None:
        """Spend some looks.

        Raises:
            Exhausted: There are none left, or the time is over.
        """
        self.looks -= count
        self._until_asked -= count
        if self.looks < 0:
            raise Exhausted
        if self._until_asked < 0:
            self._until_asked = _LOOKS_PER_ASKING
            if self.is_over():
                raise Exhausted
