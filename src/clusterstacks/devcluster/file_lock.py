"""One run at a time: a lock on a file that the kernel releases when its holder dies."""

from __future__ import annotations

import contextlib
import fcntl
import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

POLL_SECONDS = 0.2


@contextlib.contextmanager
def exclusive(path: Path, waiting: Callable[[], None]) -> Iterator[None]:
    """Hold the lock on ``path``; ``waiting`` is called once when somebody else has it first."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("ab") as file:
        if not _try_lock(file.fileno()):
            waiting()
            while not _try_lock(file.fileno()):
                time.sleep(POLL_SECONDS)
        yield  # closing the file releases the lock


def _try_lock(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
