"""Operating system processes of the environment: start, wait until ready, watch, stop.

Every process has its own session, so that Ctrl-C reaches only the supervisor, which stops the others in order. Every
process has its own log file, so that it can outlive its parent.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import time
from dataclasses import dataclass, field
from datetime import timedelta
from typing import TYPE_CHECKING, Protocol, TypeVar

from clusterstacks.dev.loopback import free_port
from clusterstacks.model.errors import DependencyError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

READY_TIMEOUT = timedelta(minutes=3)
"""Time until a process is ready, which takes a few seconds on a quiet machine and 40 s on a busy one; arbitrary."""
POLL_SECONDS = 0.05
"""Interval of probes; a probe costs about a millisecond."""
LOG_TAIL_LINES = 15
LOG_TAIL_BYTES = 16_384
PORT_TAKEN = ("address already in use", "bind: permission denied", "Connection in use")
"""Message of Go programs, and of gunicorn, when another process listens on their port."""


class ProcessError(DependencyError):
    """A process ended or never became ready; the message ends with the last lines of its log.

    ``port_taken`` is True when another port may help.
    """

    def __init__(self, message: str, tail: str) -> None:
        super().__init__("ProcessFailed", f"{message}\n{tail}".rstrip())
        self.port_taken = any(sign in tail for sign in PORT_TAKEN)


@dataclass(frozen=True, slots=True, kw_only=True)
class Command:
    """A command line with its readiness probe."""

    name: str
    argv: tuple[str, ...]
    log: Path
    ready: Callable[[], bool]
    environment: Mapping[str, str] = field(default_factory=dict)
    """Added to the environment of this program."""


class Server(Protocol):
    """A server that can be started: a process with its probe."""

    def launch(self) -> None:
        """Start it and return once it is ready; raises ProcessError."""


S = TypeVar("S", bound=Server)
PORT_ATTEMPTS = 5
"""Number of ports that are tried when other programs take them; arbitrary, one is nearly always enough."""


def start_on_free_port(make: Callable[[int], S]) -> S:
    """Create a server for a free port and start it; try another port when this one was taken meanwhile."""
    for attempt in range(1, PORT_ATTEMPTS + 1):
        server = make(free_port())
        try:
            server.launch()
        except ProcessError as error:
            if not error.port_taken or attempt == PORT_ATTEMPTS:
                raise
        else:
            return server
    raise AssertionError("the last attempt returns or raises")


class Process:
    """A process before, during and after its run."""

    def __init__(self, command: Command) -> None:
        self.command = command
        self._child: subprocess.Popen[bytes] | None = None
        self._log_start = 0

    @property
    def name(self) -> str:
        """Name in messages and log files."""
        return self.command.name

    @property
    def pid(self) -> int:
        """Process id; 0 before the first start."""
        return self._child.pid if self._child else 0

    @property
    def exit_code(self) -> int | None:
        """Exit code; None while it runs or before the first start; negative for the signal that ended it."""
        return self._child.poll() if self._child else None

    @property
    def running(self) -> bool:
        """True while the process runs."""
        return self._child is not None and self.exit_code is None

    def start(self) -> None:
        """Start the process; its output is appended to the log file.

        Raises:
            ProcessError: The program cannot be executed.
        """
        command = self.command
        command.log.parent.mkdir(parents=True, exist_ok=True)
        with command.log.open("ab") as log:
            self._log_start = log.tell()
            try:
                self._child = subprocess.Popen(
                    command.argv,
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=subprocess.STDOUT,
                    env={**os.environ, **command.environment},
                    start_new_session=True,
                )
            except OSError as error:
                raise ProcessError(f"{self.name} cannot be started: {command.argv[0]}: {error.strerror}", "") from None

    def wait_ready(self) -> None:
        """Return once the probe succeeds.

        Raises:
            ProcessError: It ended, or the probe did not succeed in time.
        """
        began = time.monotonic()
        ready_timeout = READY_TIMEOUT.total_seconds()
        while not self.command.ready():
            if self.exit_code is not None:
                raise ProcessError(f"{self.name} {describe_exit(self.exit_code)} while starting", self.tail())
            if time.monotonic() - began > ready_timeout:
                raise ProcessError(f"{self.name} was not ready after {ready_timeout:g} s", self.tail())
            time.sleep(POLL_SECONDS)

    def launch(self) -> None:
        """Start it and return once it is ready; after a failure it is not left running.

        Raises:
            ProcessError: It cannot be executed, ended, or was not ready in time.
        """
        self.start()
        try:
            self.wait_ready()
        except BaseException:
            self.stop(timedelta(0))
            raise

    def send(self, number: signal.Signals) -> None:
        """Send a signal unless the process has ended."""
        if self._child and self.running:
            self._child.send_signal(number)

    def stop(self, grace: timedelta = timedelta(seconds=5)) -> None:
        """Stop the process: SIGTERM, then SIGKILL if it still runs after ``grace``; return when it has ended.

        A stopped (SIGSTOP) process is continued first. Zero grace kills at once.
        """
        if not self._child:
            return
        with contextlib.suppress(ProcessLookupError):
            if grace:
                self.send(signal.SIGTERM)
                self.send(signal.SIGCONT)
                with contextlib.suppress(subprocess.TimeoutExpired):
                    self._child.wait(grace.total_seconds())
            self.send(signal.SIGKILL)
        self._child.wait()

    def restart(self) -> None:
        """Kill it if it runs, start it and wait until it is ready."""
        self.stop(timedelta(0))
        self.launch()

    def tail(self) -> str:
        """The last lines of the log since the last start, for messages."""
        return log_tail(self.command.log, start=self._log_start)


def log_tail(log: Path, *, start: int = 0) -> str:
    """Return the last lines of a log file after byte ``start``; empty when there is none."""
    try:
        with log.open("rb") as file:
            file.seek(0, os.SEEK_END)
            file.seek(max(start, file.tell() - LOG_TAIL_BYTES))
            text = file.read().decode(errors="replace")
    except FileNotFoundError:
        return ""
    return "\n".join(text.splitlines()[-LOG_TAIL_LINES:])


def describe_exit(code: int) -> str:
    """Describe the end of a process: ``exited with code 1``, ``was ended by SIGKILL``."""
    if code >= 0:
        return f"exited with code {code}"
    try:
        return f"was ended by {signal.Signals(-code).name}"
    except ValueError:
        return f"was ended by signal {-code}"
