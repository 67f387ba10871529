"""Supervises an environment: starts it, watches it, stops it on a signal and removes its files.

Runs in the terminal (``csctl dev up``) or detached as a process of this module.
"""

from __future__ import annotations

import argparse
import fcntl
import os
import signal
import subprocess
import sys
import threading
import time
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, TYPE_CHECKING

from clusterstacks.dev import process_records
from clusterstacks.dev.environment import Environment, EnvironmentSettings
from clusterstacks.dev.private_files import private_directory
from clusterstacks.dev.processes import log_tail
from clusterstacks.dev.state_directory import MARKER_VARIABLE, EnvironmentPhase, StateDirectory, Summary
from clusterstacks.dev.teardown import down, marked, remove_files
from clusterstacks.model.errors import ClusterStacksError, DependencyError, SpecError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

POLL_SECONDS = 0.1
INPUT_WRONG = 2
"""Exit code of a detached supervisor for wrong input, which csctl passes on."""
STOP_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def run(settings: EnvironmentSettings, report: Callable[[str], None], ready: Callable[[], None]) -> None:
    """Run an environment until a stop signal, then remove it. Needs the main thread.

    ``report`` is called with a line for each step and each process that ends by itself, ``ready`` once when everything
    runs. A KeyboardInterrupt means that the signal came before; the environment is removed. If it cannot be started,
    the message names the logs, which are kept.
    """
    state, interrupted = settings.state, False
    _make_room(state, report)
    with _claimed(state), _stop_event() as stop:
        environment = Environment(settings, report)
        state.write(_summary(EnvironmentPhase.STARTING))
        try:
            environment.start()
            stop.armed = False
            state.write(_summary(EnvironmentPhase.RUNNING))
            ready()
            environment.watch(stop.event)
            report("stopping")
        except _Stopped:
            interrupted = True
            report("stopped before everything was started")
        except ClusterStacksError as error:
            process_records.end(marked(state.root))
            state.write(_summary(EnvironmentPhase.FAILED, error.message))
            raise
        state.write(_summary(EnvironmentPhase.STOPPING))
        environment.stop()
        process_records.end(marked(state.root))  # the API servers of a killed provider
        remove_files(state)
    if interrupted:
        raise KeyboardInterrupt


def detach(settings: EnvironmentSettings, report: Callable[[str], None]) -> None:
    """Run an environment in a detached process; return once everything runs."""
    state = settings.state
    _make_room(state, report)
    private_directory(state.root)
    log = state.supervisor_log
    with log.open("wb") as output:
        child = subprocess.Popen(
            [sys.executable, "-m", "clusterstacks.dev.supervisor", *_arguments(settings)],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            env={**os.environ, MARKER_VARIABLE: str(state.root)},
            start_new_session=True,
        )
    try:
        with log.open() as lines:
            _follow(child, state, lines, report)
    except KeyboardInterrupt:
        child.terminate()
        child.wait()
        if state.read() is None:  # it did not yet remove what was created here
            remove_files(state)
        raise
    child.returncode = 0  # it outlives this process on purpose


def _make_room(state: StateDirectory, report: Callable[[str], None]) -> None:
    """Reject a directory with a running environment; remove one whose supervisor was killed."""
    summary = state.read()
    if summary is None:
        state.check()
        return
    if process_records.identity_of(summary.pid) == summary.identity != "":
        raise SpecError(
            "AlreadyRunning",
            f"an environment is running in {state.root} ({summary.phase}, process {summary.pid}); "
            f"'csctl dev status{state.options}' shows it, 'csctl dev down{state.options}' ends it, "
            "another --name starts one beside it",
        )
    report("removing what an earlier run left behind")
    down(state, report)


def _summary(phase: EnvironmentPhase, message: str = "") -> Summary:
    return Summary(phase=phase, message=message, pid=os.getpid(), identity=process_records.identity_of(os.getpid()))


class _Stopped(KeyboardInterrupt):
    """A stop signal during the start; asyncio passes a KeyboardInterrupt on."""


class _StopEvent:
    """Set by a stop signal; while ``armed`` the signal also interrupts the main thread."""

    def __init__(self) -> None:
        self.event = threading.Event()
        self.armed = True

    def handle(self, *_: object) -> None:
        self.event.set()
        if self.armed:
            self.armed = False
            raise _Stopped


@contextmanager
def _stop_event() -> Iterator[_StopEvent]:
    stop = _StopEvent()
    before = {number: signal.signal(number, stop.handle) for number in STOP_SIGNALS}
    try:
        yield stop
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@contextmanager
def _claimed(state: StateDirectory) -> Iterator[None]:
    private_directory(state.root)
    with state.lock.open("ab") as lock:
        try:
            fcntl.flock(lock.fileno(), fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise SpecError("AlreadyRunning", f"another run is starting in {state.root}") from None
        state.claim()
        yield


def _follow(
    child: subprocess.Popen[bytes], state: StateDirectory, lines: IO[str], report: Callable[[str], None]
) -> None:
    while True:
        code, summary = child.poll(), state.read()
        if code is None:
            for line in lines:
                report(line.rstrip("\n"))
        else:
            message = summary.message if summary and summary.phase is EnvironmentPhase.FAILED else ""
            tail = log_tail(state.supervisor_log)
            error = SpecError if code == INPUT_WRONG else DependencyError
            raise error("StartFailed", message or f"the environment did not start\n{tail}")
        if summary and summary.phase is EnvironmentPhase.RUNNING and summary.pid == child.pid:
            return
        time.sleep(POLL_SECONDS)


def _arguments(settings: EnvironmentSettings) -> list[str]:
    arguments = [f"--state-dir={settings.state.root}"]
    arguments += [f"--clusters-from={path.absolute()}" for path in settings.clusters_from]
    arguments += [f"--with={name}" for name in settings.providers]
    if settings.workloads:
        arguments.append("--workloads")
    if settings.openstack:
        arguments.append("--openstack")
    arguments += [f"--crds={path.absolute()}" for path in settings.definitions_from]
    if settings.releases:
        arguments.append(f"--release-dir={settings.releases.absolute()}")
    if settings.rate_limits:
        arguments.append("--default-rate-limits")
    if not settings.operator:
        arguments.append("--no-operator")
    return arguments


def _parse(arguments: list[str]) -> EnvironmentSettings:
    parser = argparse.ArgumentParser(prog="clusterstacks.dev.supervisor", description=__doc__)
    parser.add_argument("--state-dir", type=Path, required=True)
    parser.add_argument("--clusters-from", type=Path, action="append", default=[])
    parser.add_argument("--with", dest="providers", action="append", default=[])
    parser.add_argument("--workloads", action="store_true")
    parser.add_argument("--openstack", action="store_true")
    parser.add_argument("--crds", type=Path, action="append", default=[])
    parser.add_argument("--release-dir", type=Path)
    parser.add_argument("--default-rate-limits", action="store_true")
    parser.add_argument("--no-operator", action="store_true")
    found = parser.parse_args(arguments)
    return EnvironmentSettings(
        state=StateDirectory(found.state_dir),
        operator=not found.no_operator,
        releases=found.release_dir,
        clusters_from=tuple(found.clusters_from),
        providers=tuple(found.providers),
        definitions_from=tuple(found.crds),
        rate_limits=found.default_rate_limits,
        workloads=found.workloads,
        openstack=found.openstack,
    )


def _print(line: str) -> None:
    with suppress(OSError):
        sys.stdout.write(line + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    try:
        run(_parse(sys.argv[1:]), _print, lambda: None)
    except ClusterStacksError as error:
        _print(error.message)
        sys.exit(INPUT_WRONG if isinstance(error, SpecError) else 1)
    except KeyboardInterrupt:
        sys.exit(130)  # 128 + SIGINT, as shells have it
