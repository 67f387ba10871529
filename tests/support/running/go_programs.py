"""Programs of the tests, each built once from its Go module into the cache of binaries."""

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

TESTS = Path(__file__).parents[2]


def go_program(name: str) -> Path:
    """Return the program of ``tests/<name>``; build it if its sources changed."""
    module, cache = TESTS / name, binaries.cache_directory()
    digest = hashlib.sha256(b"".join(file.read_bytes() for file in sorted(module.iterdir()))).hexdigest()
    program = cache / f"{name}-{digest[:16]}"
    if not program.exists():
        with exclusive(cache / f".{name}.lock", lambda: None):
            _build(module, program, cache)
    return program


def _build(module: Path, program: Path, cache: Path) -> None:
    go = go_build.find_go(cache, print).path
    staged = program.with_suffix(".staged")
    environment = {**os.environ, "CGO_ENABLED": "0", "GOFLAGS": "", "GOWORK": "off", "GOTOOLCHAIN": "local"}
    command = [str(go), "build", "-mod=readonly", "-trimpath", "-buildvcs=false", "-o", str(staged), "."]
    subprocess.run(command, cwd=module, env=environment, check=True)
    staged.replace(program)


def kstatus_of(objects: Iterable[dict[str, Any]]) -> list[tuple[str, str]]:
    """Return state and reason of each object; the state is Unknown where kstatus fails."""
    lines = "".join(f"{json.dumps(one)}\n" for one in objects)
    done = subprocess.run([go_program("kstatus")], input=lines, capture_output=True, text=True, check=True)
    answers: list[tuple[str, str]] = [tuple(json.loads(line)) for line in done.stdout.splitlines()]
    return answers
