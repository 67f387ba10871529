"""CPU time of a call: what a loop stalls for, whatever else the machine does."""

from __future__ import annotations

import time
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

STALL = 1.0
"""Seconds of CPU that one piece of work on the event loop may take in a test. What is tested takes up to 50 ms on a
quiet machine and took several seconds without bounds. A garbage collection of the test process counts as well, and
processors that are shared take several times as long: 0.33 s was measured."""


@contextmanager
def no_stall(seconds: float = STALL) -> Iterator[None]:
    """Fail when the block uses more CPU time than ``seconds``."""
    begin = time.thread_time()
    yield
    used = time.thread_time() - begin
    assert used < seconds, f"{used:.3f} s of CPU, {seconds} s are allowed"
