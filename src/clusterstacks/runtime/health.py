"""Whether a part of the process works: since when it fails, when that counts, and when to complain again."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Final, TypeAlias

from clusterstacks.runtime.clock import SYSTEM_CLOCK

if TYPE_CHECKING:
    from clusterstacks.runtime.clock import Clock

FAILURE_TOLERANCE: Final = timedelta(minutes=3)
"""How long a part may fail until it counts as broken. Arbitrary: an API server restarts within a minute, and a
probe that turns at every short outage says nothing."""

REPEAT_INTERVAL: Final = timedelta(minutes=10)
"""How often the same failure is logged. Arbitrary: six lines an hour are found in a log and do not fill it."""


class Health:
    """The successes and failures of one part: an informer, a source, a pool of workers.

    All methods return at once and need the running loop; the two timestamps may be read by another thread.

    Args:
        clock: Time.
        tolerance: How long the part may fail until ``problem`` reports it.
    """

    def __init__(self, *, clock: Clock = SYSTEM_CLOCK, tolerance: timedelta = FAILURE_TOLERANCE) -> None:
        self.failing_since = 0.0
        """Unix time of the first failure after the last success; 0 while the part works."""
        self.last_success = 0.0
        """Unix time of the last success; 0 before the first."""
        self._clock = clock
        self._tolerance = tolerance.total_seconds()
        self._failing_from = 0.0  # monotonic, as is the next
        self._complained = 0.0
        self._why = ""

    @property
    def is_failing(self) -> bool:
        """Whether the last attempt failed."""
        return bool(self.failing_since)

    def succeeded(self) -> bool:
        """Note a success; return whether the attempt before it had failed."""
        recovered = self.is_failing
        self.last_success, self.failing_since, self._why = self._clock.now().timestamp(), 0.0, ""
        return recovered

    def failed(self, why: str) -> bool:
        """Note a failure; return whether to log it: it differs from the one before, or that was logged long ago."""
        now = self._clock.monotonic()
        if not self.is_failing:
            self.failing_since, self._failing_from = self._clock.now().timestamp(), now
        due = why != self._why or now - self._complained >= REPEAT_INTERVAL.total_seconds()
        if due:
            self._why, self._complained = why, now
        return due

    def problem(self) -> str:
        """Return the failure once it has lasted for longer than ``tolerance``, else an empty string."""
        if not self.is_failing:
            return ""
        seconds = self._clock.monotonic() - self._failing_from
        return f"has failed for {seconds:.0f} s: {self._why}" if seconds > self._tolerance else ""


Check: TypeAlias = Callable[[], str]
"""Returns what is wrong, or an empty string; must return at once."""

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class ProbeAnswer:
    """The combined answer of some checks; ``text`` has one line per check, as kube-apiserver's verbose answer has."""

    passed: bool
    text: str


class Probes:
    """Collects the checks of all parts of the process."""

    def __init__(self) -> None:
        self._ready: dict[str, Check] = {}

    def add_ready(self, name: str, check: Check) -> None:
        """Keep requests away from the process while ``check`` finds something wrong."""
        self._ready[name] = check

    def alive(self) -> ProbeAnswer:
        """Answer /healthz: the answer itself is the proof."""
        return _answer({})

    def ready(self) -> ProbeAnswer:
        """Answer /readyz."""
        return _answer(self._ready)


def _answer(checks: dict[str, Check]) -> ProbeAnswer:
    problems = {name: _ask(name, check) for name, check in checks.items()}
    lines = [f"[-]{name} failed: {problem}" if problem else f"[+]{name} ok" for name, problem in problems.items()]
    passed = not any(problems.values())
    return ProbeAnswer(passed, "\n".join([*lines, "check passed" if passed else "check failed", ""]))


def _ask(name: str, check: Check) -> str:
    try:
        return check()
    except Exception:
        log.exception("Check %s is broken", name)
        return "the check itself failed, see the log"
