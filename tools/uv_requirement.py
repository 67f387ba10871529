"""Prints the requirement of uv with the version and hashes of ``uv.lock``, as pip reads it.

uv installs everything else by that file. This runs before there is a uv, so with the standard library only.
"""

from __future__ import annotations

import sys
import tomllib
from pathlib import Path

LOCK = Path(__file__).parents[1] / "uv.lock"


def requirement(lock: str) -> str:
    """Return the line for pip, with the hashes of all wheels of uv."""
    (uv,) = (package for package in tomllib.loads(lock)["package"] if package["name"] == "uv")
    return " ".join((f"uv=={uv['version']}", *(f"--hash={wheel['hash']}" for wheel in uv["wheels"])))


if __name__ == "__main__":
    sys.stdout.write(f"{requirement(LOCK.read_text())}\n")
