"""Health of the parts of the process, and the probes that report it."""

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
"""Duration of failure after which a part is unhealthy (arbitrary; an API server restarts within a minute, and a probe
must not fail at every short outage)."""

REPEAT_INTERVAL: Final = timedelta(minutes=10)
"""Interval at which the same failure is logged again (arbitrary)."""

Check: TypeAlias = Callable[[], str]
"""Returns the problem, or an empty string; must not block."""

log = logging.getLogger(__name__)


class ComponentHealth:
    """Records successes and failures of one part, e.g. an informer or a source.

    The methods do not block and need the running loop; another thread may read the two timestamps.
    """

    def __init__(self, *, clock: Clock = SYSTEM_CLOCK, tolerance: timedelta = FAILURE_TOLERANCE) -> None:
        self.failing_since = 0.0
        """Unix time of the first failure after the last success; 0 while the part works."""
        self.last_success = 0.0
        """Unix time of the last success; 0 before the first."""
        self._clock = clock
        self._tolerance = tolerance.total_seconds()
        self._failing_from = 0.0  # monotonic, as is _logged
        self._logged = 0.0
        self._why = ""

    @property
    def is_failing(self) -> bool:
        """True if the last attempt failed."""
        return bool(self.failing_since)

    @property
    def why(self) -> str:
        """The last failure; empty while the part works."""
        return self._why

    def succeeded(self) -> bool:
        """Record a success; return whether the previous attempt failed."""
        recovered = self.is_failing
        self.last_success, self.failing_since, self._why = self._clock.now().timestamp(), 0.0, ""
        return recovered

    def failed(self, why: str) -> bool:
        """Record a failure; return whether to log it: it is new, or was last logged ``REPEAT_INTERVAL`` ago."""
        now = self._clock.monotonic()
        if not self.is_failing:
            self.failing_since, self._failing_from = self._clock.now().timestamp(), now
        due = why != self._why or now - self._logged >= REPEAT_INTERVAL.total_seconds()
        if due:
            self._why, self._logged = why, now
        return due

    def problem(self) -> str:
        """Return the failure once it has lasted for longer than ``tolerance``, else an empty string."""
        if not self.is_failing:
            return ""
        seconds = self._clock.monotonic() - self._failing_from
        return f"has failed for {seconds:.0f} s: {self._why}" if seconds > self._tolerance else ""


@dataclass(frozen=True, slots=True)
class ProbeAnswer:
    """Combined result of checks; ``text`` has one line per check, like the verbose output of kube-apiserver."""

    passed: bool
    text: str


class Probes:
    """Readiness checks of all parts of the process."""

    def __init__(self) -> None:
        self._ready: dict[str, Check] = {}

    def add_ready(self, name: str, check: Check) -> None:
        """Add a readiness check; the process is not ready while it returns a problem."""
        self._ready[name] = check

    def failing(self) -> dict[str, bool]:
        """Return whether each readiness check fails."""
        return {name: bool(_run_check(name, check)) for name, check in self._ready.items()}

    def alive(self) -> ProbeAnswer:
        """Return the result of /healthz: the event loop is alive if it can answer."""
        return _combine({})

    def ready(self) -> ProbeAnswer:
        """Return the result of /readyz, which runs all readiness checks."""
        return _combine(self._ready)


def _combine(checks: dict[str, Check]) -> ProbeAnswer:
    problems = {name: _run_check(name, check) for name, check in checks.items()}
    lines = [f"[-]{name} failed: {problem}" if problem else f"[+]{name} ok" for name, problem in problems.items()]
    passed = not any(problems.values())
    return ProbeAnswer(passed, "\n".join([*lines, "check passed" if passed else "check failed", ""]))


def _run_check(name: str, check: Check) -> str:
    try:
        return check()
    except Exception:
        log.exception("Check %s failed with an exception", name)
        return "the check itself failed; see the log"
