"""CPU time of a block, which does not depend on the load of the machine."""

from __future__ import annotations

import gc
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

STALL = 0.5
"""Seconds of CPU that one piece of work on the event loop may take in a test. It takes up to 50 ms on a quiet machine
and took several seconds without bounds; processors that several machines share take several times as long."""


@contextmanager
def few_collections() -> Iterator[None]:
    """Let no collection during the work walk over all that other tests of the process left."""
    gc.collect()
    gc.freeze()
    try:
        yield
    finally:
        gc.unfreeze()


@contextmanager
def no_stall(seconds: float = STALL) -> Iterator[None]:
    """Fail if the block uses more CPU time than ``seconds``."""
    with few_collections():
        begin = time.thread_time()
        yield
        check_used(begin, seconds)


def check_used(begin: float, seconds: float = STALL) -> None:
    """Fail if this thread has used more CPU time than ``seconds`` since ``begin``."""
    used = time.thread_time() - begin
    assert used < seconds, f"{used:.3f} s of CPU, {seconds} s are allowed"
