"""Remembers inputs whose render was slow, hung or killed its worker, so that a retry takes no worker from others."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from clusterstacks.render.errors import RenderTimeout, WorkerDied

FIRST_BACK_OFF: Final = timedelta(minutes=1)
LONGEST_BACK_OFF: Final = timedelta(minutes=30)
"""How long the same input is not tried again; doubles with each failure in a row (both arbitrary)."""

MAX_REMEMBERED: Final = 1000
"""Inputs remembered of each kind, the least recent dropped first (arbitrary: two megabytes of messages at most)."""


@dataclass(frozen=True, slots=True)
class Failure:
    """How an input failed.

    Args:
        kind: The class of the error.
        message: Its message, without the label of the one who asked.
        count: How often in a row.
        until: When it is worth another try, in seconds of the monotonic clock.
    """

    kind: type[RenderTimeout | WorkerDied]
    message: str
    count: int
    until: float


class Failures:
    """The failures of inputs by their digest."""

    def __init__(self) -> None:
        self._failures: dict[bytes, Failure] = {}
        self._slow: dict[bytes, None] = {}

    def __bool__(self) -> bool:
        """Whether any input is remembered."""
        return bool(self._failures or self._slow)

    def is_slow(self, digest: bytes) -> bool:
        """Tell whether the first try of an input was once not enough."""
        return digest in self._slow

    def note_slow(self, digest: bytes) -> None:
        """Note that the first try of an input was not enough."""
        self._slow[digest] = None
        if len(self._slow) > MAX_REMEMBERED:
            del self._slow[next(iter(self._slow))]

    def recall(self, digest: bytes, now: float) -> Failure | None:
        """Return why an input is not to be tried now; None when it is."""
        failure = self._failures.get(digest)
        return failure if failure is not None and now < failure.until else None

    def remember(self, digest: bytes, error: RenderTimeout | WorkerDied, now: float) -> Failure:
        """Note that an input failed once more; requests that ran at the same time count as one."""
        before = self._failures.pop(digest, None)
        if before is not None and now < before.until:
            self._failures[digest] = before
            return before
        count = before.count + 1 if before is not None else 1
        # The exponent is bounded before the product is: a timedelta overflows after some forty doublings.
        back_off = min(FIRST_BACK_OFF * 2 ** min(count - 1, 20), LONGEST_BACK_OFF)
        failure = Failure(type(error), error.message, count, now + back_off.total_seconds())
        self._failures[digest] = failure
        if len(self._failures) > MAX_REMEMBERED:
            del self._failures[next(iter(self._failures))]
        return failure

    def forget(self, digest: bytes) -> None:
        """Note that an input succeeded; it may still be slow."""
        self._failures.pop(digest, None)
