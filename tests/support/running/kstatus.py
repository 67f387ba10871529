"""The kstatus library as a program, built once from its Go module into the cache of binaries."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING, Any

from clusterstacks.dev import binaries, go_build
from clusterstacks.dev.private_files import exclusive

if TYPE_CHECKING:
    from collections.abc import Iterable

MODULE = Path(__file__).parents[2] / "kstatus"


def kstatus_program() -> Path:
    """Return the program; build it if its sources changed."""
    cache = binaries.cache_directory()
    digest = hashlib.sha256(b"".join(file.read_bytes() for file in sorted(MODULE.iterdir()))).hexdigest()
    program = cache / f"kstatus-{digest[:16]}"
    if not program.exists():
        with exclusive(cache / ".kstatus.lock", lambda: None):
            _build(program, cache)
    return program


def _build(program: Path, cache: Path) -> None:
    go = go_build.find_go(cache, print).path
    staged = program.with_suffix(".staged")
    environment = {**os.environ, "CGO_ENABLED": "0", "GOFLAGS": "", "GOWORK": "off", "GOTOOLCHAIN": "local"}
    command = [str(go), "build", "-mod=readonly", "-trimpath", "-buildvcs=false", "-o", str(staged), "."]
    subprocess.run(command, cwd=MODULE, env=environment, check=True)
    staged.replace(program)


def kstatus_of(objects: Iterable[dict[str, Any]]) -> list[tuple[str, str]]:
    """Return state and reason of each object; the state is Unknown where kstatus fails."""
    lines = "".join(f"{json.dumps(one)}\n" for one in objects)
    done = subprocess.run([kstatus_program()], input=lines, capture_output=True, text=True, check=True)
    answers: list[tuple[str, str]] = [tuple(json.loads(line)) for line in done.stdout.splitlines()]
    return answers
