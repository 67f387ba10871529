"""csctl in this process, and ``csctl dev`` as a process with its state in a directory of the test."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from clusterstacks.csctl.main import csctl
from clusterstacks.csctl.shared import output
from clusterstacks.dev import binaries, teardown
from clusterstacks.dev.state_directory import StateDirectory

if TYPE_CHECKING:
    from collections.abc import Mapping

DEADLINE_SECONDS = 400
DEMO_SECONDS = 600


def call_csctl(*arguments: object) -> int:
    """Run a verb in this process, and return its exit code."""
    return output.run(lambda: csctl.main([*map(str, arguments)], prog_name="csctl", standalone_mode=False))


def csctl_run(*arguments: object, environ: Mapping[str, str]) -> subprocess.CompletedProcess[str]:
    """Run a verb in this process as in one of its own: with these variables only, and without a terminal.

    The start of a process costs more than most verbs; it is tested with those that need one.
    """
    out, err = (io.TextIOWrapper(io.BytesIO(), "utf-8", write_through=True) for _ in range(2))
    with pytest.MonkeyPatch.context() as changed, Path(os.devnull).open() as nothing, ThreadPoolExecutor(1) as thread:
        for name in {*os.environ} - {*environ}:
            changed.delenv(name)
        for name, value in environ.items():
            changed.setenv(name, value)
        changed.setattr(sys, "stdin", nothing)
        with redirect_stdout(out), redirect_stderr(err):
            code = thread.submit(call_csctl, *arguments).result()  # verbs have an event loop of their own
    written = (stream.buffer.getvalue().decode() for stream in (out, err))
    return subprocess.CompletedProcess([*map(str, arguments)], code, *written)


def demo_output(states: Path, option: str) -> str:
    """Run ``csctl demo`` with an option to its end, and return what it prints; ``states`` is for its environment."""
    try:
        run = subprocess.run(
            [Path(sys.executable).with_name("csctl"), "demo", option],
            env={**os.environ, "XDG_STATE_HOME": str(states)},
            capture_output=True,
            text=True,
            check=False,
            timeout=DEMO_SECONDS,
        )
    finally:
        teardown.down(StateDirectory(states / "cluster-stacks" / "demo"), binaries.silent)
    assert run.returncode == 0, run.stdout + run.stderr
    return run.stdout


@dataclass(frozen=True, slots=True)
class Csctl:
    """Runs ``csctl dev``."""

    states: Path

    def start(self, *arguments: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [Path(sys.executable).with_name("csctl"), "dev", *arguments],
            env={**os.environ, "XDG_STATE_HOME": str(self.states)},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def tried(self, *arguments: str) -> tuple[int, str]:
        with self.start(*arguments) as run:
            out, err = run.communicate(timeout=DEADLINE_SECONDS)
        return run.returncode, out + err

    def __call__(self, *arguments: str) -> str:
        code, text = self.tried(*arguments)
        assert code == 0, text
        return text

    def get(self, *arguments: str) -> dict[str, Any]:
        """Read an object of the management cluster."""
        with self.start("kubectl", "get", "--output=json", *arguments) as run:
            out, err = run.communicate(timeout=DEADLINE_SECONDS)
        assert run.returncode == 0, err
        found: dict[str, Any] = json.loads(out)
        return found

    def components(self, *arguments: str) -> dict[str, dict[str, Any]]:
        _, text = self.tried("status", "--output=json", *arguments)
        return {component["name"]: component for component in json.loads(text)["components"]}
