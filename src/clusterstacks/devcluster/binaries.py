"""Where the binaries of the environment come from."""

from __future__ import annotations

import os
from pathlib import Path

from clusterstacks.domain.errors import SpecError


def find(name: str) -> Path:
    """Return the path of a binary; raises SpecError when there is none."""
    for variable in ("CLUSTERSTACKS_ASSETS", "KUBEBUILDER_ASSETS"):
        directory = os.environ.get(variable)
        if directory and os.access(Path(directory) / name, os.X_OK):
            return Path(directory) / name
    raise SpecError("BinaryMissing", f"{name} was not found; set CLUSTERSTACKS_ASSETS to a directory that holds it")
