"""Atomic replacement of files."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path


def replace_file(path: Path, content: bytes, *, mode: int = 0o644, durable: bool = True) -> None:
    """Write a file so that readers see the old content or the new, never a part.

    Args:
        path: The file; its directory must exist.
        content: The new content.
        mode: Permissions of the new file.
        durable: Whether this also holds after a crash of the machine.

    Raises:
        OSError: The file cannot be written; the error names it.
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
        raise OSError(error.errno, error.strerror, str(path)) from None  # a failed write does not name its file
    finally:
        if staged is not None:
            staged.unlink(missing_ok=True)


def sync_directory(path: Path) -> None:
    """Bring the names in a directory to disk.

    Raises:
        OSError: The directory cannot be opened or synchronized.
    """
    handle = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
