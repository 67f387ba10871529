"""An event loop whose clock jumps to the next timer, so that hours of back-off take milliseconds."""

from __future__ import annotations

import asyncio
import functools
import selectors
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

P = ParamSpec("P")
T = TypeVar("T")

STUCK_SECONDS = 10.0


class StuckError(Exception):
    """No callback is ready and no timer is set, so the test would wait forever."""


class _JumpingSelector(selectors.DefaultSelector):
    """Polls the real file descriptors first (threads respond through one), then advances the clock."""

    jumped = 0.0

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        if timeout is None:
            ready = super().select(STUCK_SECONDS)
            if not ready:
                raise StuckError
            return ready
        ready = super().select(0)
        if not ready:
            self.jumped += timeout
        return ready


class VirtualLoop(asyncio.SelectorEventLoop):
    """Starts at time 0."""

    def __init__(self) -> None:
        self._jumping = _JumpingSelector()
        super().__init__(self._jumping)

    def time(self) -> float:
        return self._jumping.jumped


class VirtualClock:
    """A clock for code under test in a virtual loop; its wall time starts at a fixed time."""

    start = datetime(2026, 1, 1, tzinfo=UTC)

    def now(self) -> datetime:
        return self.start + timedelta(seconds=self.monotonic())

    def monotonic(self) -> float:
        return asyncio.get_running_loop().time()

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)


def run_in_virtual_time(main: Coroutine[Any, Any, T]) -> T:
    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        return runner.run(main)


def in_virtual_time(test: Callable[P, Coroutine[Any, Any, T]]) -> Callable[P, T]:
    """Run an asynchronous test in a virtual loop."""

    @functools.wraps(test)
    def run(*args: P.args, **kwargs: P.kwargs) -> T:
        return run_in_virtual_time(test(*args, **kwargs))

    return run
