"""Files that somebody else renews: tokens, client certificates, CA bundles."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

from clusterstacks.kube.errors import CredentialsFailed

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from clusterstacks.kube.connection import Material

LOOK_EVERY = timedelta(seconds=1)
"""How often a file's state is looked at (arbitrary: far below the minutes a new credential overlaps the old)."""

READ_EVERY = timedelta(seconds=60)
"""How often it is read whatever its state says; client-go reads token files once a minute."""

MAX_BYTES = 1024 * 1024
"""Largest file read (arbitrary; a CA bundle of all system roots has 220 KB)."""


class FreshFile:
    """The present content of a ``Material``.

    ``read`` may be called for every request: it costs a comparison of clocks, once a second a stat.
    """

    def __init__(self, material: Material, monotonic: Callable[[], float]) -> None:
        self._content = material.content
        self._path = material.file
        self._monotonic = monotonic
        self._looked = float("-inf")
        self._read = float("-inf")
        self._state: tuple[int, int, int] | None = None

    def read(self) -> bytes:
        """Return the content, read again when the file changed.

        Raises:
            CredentialsFailed: The file was never readable; one that vanishes later keeps its last content.
        """
        if self._path is None:
            return self._content
        now = self._monotonic()
        if now - self._looked >= LOOK_EVERY.total_seconds():
            self._looked = now
            try:
                self._look(self._path, now)
            except OSError as error:
                if self._state is None:
                    self._looked = float("-inf")
                    raise CredentialsFailed(f"{self._path} cannot be read: {error.strerror}") from None
        return self._content

    def expire(self) -> None:
        """Make the next ``read`` read the file: the server refused what it held."""
        self._looked = self._read = float("-inf")

    def _look(self, path: Path, now: float) -> None:
        stat = path.stat()
        state = (stat.st_mtime_ns, stat.st_ino, stat.st_size)
        if state == self._state and now - self._read < READ_EVERY.total_seconds():
            return
        with path.open("rb") as file:
            self._content = file.read(MAX_BYTES)
        self._state, self._read = state, now
