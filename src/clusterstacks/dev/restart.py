"""Restarts a component: a request file, which the supervisor reads, executes and answers.

Only the supervisor, the parent of the processes, can restart one and see it end.
"""

from __future__ import annotations

import dataclasses
import json
import shutil
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from clusterstacks.dev import process_records
from clusterstacks.dev.private_files import write_private
from clusterstacks.dev.processes import READY_TIMEOUT
from clusterstacks.dev.state_directory import EnvironmentPhase
from clusterstacks.model.errors import ClusterStacksError, DependencyError, SpecError

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from clusterstacks.dev.state_directory import StateDirectory

OPERATOR = "operator"
POLL_SECONDS = 0.1
TIMEOUT_SECONDS = READY_TIMEOUT.total_seconds() + 30
"""Timeout for an answer: the time until a component is ready, 6 s in which it ends, and an arbitrary rest."""


@dataclass(frozen=True, slots=True)
class RestartRequest:
    """A request to the supervisor; ``fresh_cache`` empties the operator's cache directory before the start."""

    component: str
    fresh_cache: bool = False


def ask(state: StateDirectory, request: RestartRequest) -> None:
    """Request the restart of a component and return once it is ready."""
    _check(state, request)
    state.restart_answer.unlink(missing_ok=True)
    write_private(state.restart_request, json.dumps(dataclasses.asdict(request)).encode())
    end = time.monotonic() + TIMEOUT_SECONDS
    while not state.restart_answer.exists():
        if time.monotonic() > end:
            state.restart_request.unlink(missing_ok=True)
            raise DependencyError(
                "RestartTimedOut",
                f"{request.component} was not restarted within {TIMEOUT_SECONDS:g} s: "
                f"'csctl dev logs{state.options} supervisor' shows why",
            )
        time.sleep(POLL_SECONDS)
    message = json.loads(state.restart_answer.read_bytes())["error"]
    state.restart_answer.unlink(missing_ok=True)
    if message:
        raise DependencyError("RestartFailed", message)


def serve(state: StateDirectory, restart: Callable[[RestartRequest], None]) -> None:
    """Execute and answer a request, if there is one."""
    try:
        request = RestartRequest(**json.loads(state.restart_request.read_bytes()))
    except FileNotFoundError:
        return
    except (ValueError, TypeError):
        state.restart_request.unlink(missing_ok=True)
        return
    state.restart_request.unlink(missing_ok=True)
    error = ""
    try:
        restart(request)
    except ClusterStacksError as failure:
        error = failure.message
    write_private(state.restart_answer, json.dumps({"error": error}).encode())


def emptied(directory: Path) -> None:
    """Empty a directory."""
    for path in directory.iterdir():
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        else:
            path.unlink()


def _check(state: StateDirectory, request: RestartRequest) -> None:
    summary = state.read()
    if (
        summary is None
        or summary.phase is not EnvironmentPhase.RUNNING
        or process_records.identity_of(summary.pid) != summary.identity
    ):
        raise SpecError(
            "NotRunning",
            f"no environment is running in {state.root}: 'csctl dev up{state.options}' starts one",
        )
    names = [record.name for record in process_records.read_all(state.records) if "/" not in record.name]
    if request.component not in names:
        raise SpecError(
            "ComponentUnknown",
            f"component {request.component} cannot be restarted: choose one of {', '.join(sorted(names))}",
        )
    if request.fresh_cache and request.component != OPERATOR:
        raise SpecError("NoCache", f"{request.component} has no cache directory: leave --fresh-cache out")
