"""Compiled Python, made by the image's own interpreter; without it every start of a read-only image compiles anew."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import PurePosixPath
from typing import TYPE_CHECKING

from clusterstacks.model.errors import SpecError
from tools.image.debian import INTERPRETER, PYTHON
from tools.image.layers import File, Layer, lay_out

if TYPE_CHECKING:
    from pathlib import Path

_TAG = f"cpython-{PYTHON.replace('.', '')}"


def compiled(layer: Layer, root: Path) -> Layer:
    """Return the bytecode of a layer's modules; it is the same for all architectures.

    Each layer has a process of its own and a fixed order, because what Python writes depends on what it read before.

    Args:
        layer: The layer.
        root: A directory with the lowest layer of an image that runs on this machine; the modules are added to it.

    Raises:
        SpecError: A module cannot be compiled; Python has printed why.
    """
    modules = {path: entry for path, entry in sorted(layer.items()) if path.endswith(".py") and isinstance(entry, File)}
    lay_out(modules, root)
    options = ("-q", "-f", "--invalidation-mode", "unchecked-hash", "-i", "-")
    command = [*enter(root), INTERPRETER, "-B", "-s", "-m", "compileall", *options]
    listed = "".join(f"/{path}\n" for path in modules)
    environment = {"PYTHONHASHSEED": "0"}
    if subprocess.run(command, input=listed, text=True, check=False, env=environment).returncode:
        raise SpecError("CompilationFailed", "a Python module of the image cannot be compiled: see above")
    return {_beside(path): File((root / _beside(path)).read_bytes()) for path in modules}


def enter(root: Path) -> list[str]:
    """Return the beginning of a command that runs a program with another root directory."""
    unshare = shutil.which("unshare") or "unshare"
    return [unshare, *([] if os.geteuid() == 0 else ["--map-root-user"]), f"--root={root}"]


def _beside(path: str) -> str:
    module = PurePosixPath(path)
    return str(module.parent / "__pycache__" / f"{module.stem}.{_TAG}.pyc")
