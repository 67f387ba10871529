"""CPU time of a call: what a loop stalls for, whatever else the machine does."""

from __future__ import annotations

import time
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

STALL = 0.25
"""Seconds of CPU that one piece of work on the loop may take here. What is tested takes up to 50 ms on a quiet machine,
and took seconds without bounds; a machine whose caches are shared by other tests takes several times as long."""


@contextmanager
def no_stall(seconds: float = STALL) -> Iterator[None]:
    """Fail when the block uses more CPU time than ``seconds``."""
    begin = time.thread_time()
    yield
    used = time.thread_time() - begin
    assert used < seconds, f"{used:.3f} s of CPU, {seconds} s are allowed"
