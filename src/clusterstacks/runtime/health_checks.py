"""Is the process alive, is it ready? Named checks and their combined answer, without any HTTP."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

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
