"""Staging directories: filled first, then published atomically by a rename.

A staging directory is locked while its process lives. After a crash it is unlocked and never read. The next sweep of
the store removes it; directories of users are not swept, because they may contain anything.
"""

from __future__ import annotations

import fcntl
import os
import secrets
import shutil
from dataclasses import dataclass
from typing import TYPE_CHECKING

from clusterstacks.runtime.files import sync_directory

if TYPE_CHECKING:
    from pathlib import Path

PREFIX = ".staging-"
_RANDOM_BYTES = 8


@dataclass(frozen=True, slots=True)
class Staging:
    """A directory that is being filled; private to this user, and locked by an open file descriptor."""

    path: Path
    lock: int

    @classmethod
    def create(cls, root: Path) -> Staging:
        """Create an empty staging directory in ``root``."""
        path = _fresh_path(root)
        path.mkdir(mode=0o700)
        lock = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(lock)
            raise
        return cls(path, lock)

    def publish(self, target: Path, *, readable: bool = False) -> None:
        """Sync the directory to disk and rename it to ``target``, on the same file system.

        A ``readable`` directory can be read by other users.

        Raises:
            FileExistsError: ``target`` exists.
        """
        for file in sorted(self.path.iterdir()):
            _seal(file, 0o644 if readable else 0o600)
        os.fchmod(self.lock, 0o755 if readable else 0o700)
        os.fsync(self.lock)
        try:
            self.path.rename(target)
        except OSError as error:
            if target.exists():
                raise FileExistsError(error.errno, error.strerror, str(target)) from None
            raise
        sync_directory(target.parent)

    def remove(self) -> None:
        """Remove the directory unless it was published; release the lock. Never fails: the next sweep tries again."""
        shutil.rmtree(self.path, ignore_errors=True)
        os.close(self.lock)


def sweep(root: Path) -> None:
    """Remove the staging directories of crashed processes in ``root``; those of live processes stay."""
    for path in root.glob(f"{PREFIX}{'[0-9a-f]' * 2 * _RANDOM_BYTES}"):
        try:
            lock = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
        except OSError:
            continue
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            shutil.rmtree(path, ignore_errors=True)
        except BlockingIOError:
            continue
        finally:
            os.close(lock)


def discard(directory: Path) -> None:
    """Remove a published directory atomically: it is renamed first, so a crash leaves no partial directory."""
    leftover = _fresh_path(directory.parent)
    directory.rename(leftover)
    shutil.rmtree(leftover, ignore_errors=True)


def _fresh_path(root: Path) -> Path:
    return root / f"{PREFIX}{secrets.token_hex(_RANDOM_BYTES)}"


def _seal(file: Path, mode: int) -> None:
    handle = os.open(file, os.O_RDONLY | os.O_NOFOLLOW)
    try:
        os.fchmod(handle, mode)
        os.fsync(handle)
    finally:
        os.close(handle)
