"""Atomic replacement of files."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path


def replace_file(path: Path, content: bytes, *, mode: int = 0o644, durable: bool = True) -> None:
    """Replace a file atomically: readers see the old content or the new, never a part.

    The directory must exist; with ``durable`` (fsync) the replacement survives a crash of the machine. An OSError
    contains the path.
    """
    staged: Path | None = None
    try:
        handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
        staged = Path(name)
        with os.fdopen(handle, "wb") as file:
            file.write(content)
            file.flush()
            os.fchmod(handle, mode)
            if durable:
                os.fsync(handle)
        staged.replace(path)
        staged = None
        if durable:
            sync_directory(path.parent)
    except OSError as error:
        raise OSError(error.errno, error.strerror, str(path)) from None  # the error of a failed write has no path
    finally:
        if staged is not None:
            staged.unlink(missing_ok=True)


def sync_directory(path: Path) -> None:
    """Flush the entries of a directory to disk, e.g. after a rename in it."""
    handle = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
