"""Remembers inputs whose render was slow or failed, so that retries do not block workers."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from clusterstacks.deliver.render.errors import RenderTimeout, WorkerDied

FIRST_BACK_OFF: Final = timedelta(minutes=1)
LONGEST_BACK_OFF: Final = timedelta(minutes=30)
"""Back-off of the same input; doubles with each consecutive failure (both arbitrary)."""

MAX_REMEMBERED: Final = 1000
"""Maximum number of inputs of each kind; the oldest are dropped (arbitrary: at most 2 MB of messages)."""


@dataclass(frozen=True, slots=True)
class Failure:
    """The last failure of an input, and its back-off."""

    kind: type[RenderTimeout | WorkerDied]
    message: str
    """Without the label of the caller."""
    count: int
    """The number of consecutive failures."""
    until: float
    """The end of the back-off, in seconds of the monotonic clock."""


class Failures:
    """The failures of inputs by the digest of the input."""

    def __init__(self) -> None:
        self._failures: dict[bytes, Failure] = {}
        self._slow: dict[bytes, None] = {}

    def __bool__(self) -> bool:
        """True if any input is remembered."""
        return bool(self._failures or self._slow)

    def is_slow(self, digest: bytes) -> bool:
        """Return whether the first try of an input once timed out."""
        return digest in self._slow

    def note_slow(self, digest: bytes) -> None:
        """Record that the first try of an input timed out."""
        self._slow[digest] = None
        if len(self._slow) > MAX_REMEMBERED:
            del self._slow[next(iter(self._slow))]

    def recall(self, digest: bytes, now: float) -> Failure | None:
        """Return the failure of an input during its back-off; None if the input may be tried."""
        failure = self._failures.get(digest)
        return failure if failure is not None and now < failure.until else None

    def remember(self, digest: bytes, error: RenderTimeout | WorkerDied, now: float) -> Failure:
        """Record a failure of an input; requests that ran at the same time count as one."""
        before = self._failures.pop(digest, None)
        if before is not None and now < before.until:
            self._failures[digest] = before
            return before
        count = before.count + 1 if before is not None else 1
        # The exponent is bounded as well, because a timedelta overflows after about forty doublings.
        back_off = min(FIRST_BACK_OFF * 2 ** min(count - 1, 20), LONGEST_BACK_OFF)
        failure = Failure(type(error), error.message, count, now + back_off.total_seconds())
        self._failures[digest] = failure
        if len(self._failures) > MAX_REMEMBERED:
            del self._failures[next(iter(self._failures))]
        return failure

    def forget(self, digest: bytes) -> None:
        """Record the success of an input; it may still be slow."""
        self._failures.pop(digest, None)
