"""Resolves the locked dependencies for a Python version, from wheels only: ``make resolve``.

uv downloads nothing and needs no interpreter of that version. A dependency without a wheel for it is an error.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

PROJECT = Path(__file__).parents[1]
PLATFORMS = ("x86_64-manylinux_2_28", "aarch64-manylinux_2_28")


def resolve(version: str) -> None:
    """Resolve the dependencies for each platform, and print their number."""
    uv = Path(sys.prefix, "bin", "uv")
    with tempfile.TemporaryDirectory() as scratch:
        requirements = Path(scratch, "requirements.txt")
        export = ("--frozen", "--no-dev", "--no-emit-project", "--project", PROJECT, "-o", requirements)
        subprocess.run([uv, "export", "--quiet", *export], check=True)
        for platform in PLATFORMS:
            target = ("--python-version", version, "--python-platform", platform, "--target", Path(scratch, "site"))
            found = subprocess.run(
                [uv, "pip", "install", "--dry-run", "--only-binary", ":all:", *target, "-r", requirements],
                check=False,
                capture_output=True,
                text=True,
            )
            count = sum(line.startswith(" + ") for line in found.stderr.splitlines())
            if found.returncode:
                sys.exit(found.stderr)
            sys.stdout.write(f"Python {version}, {platform}: {count} wheels\n")


if __name__ == "__main__":
    resolve(sys.argv[1])
