"""Worker processes: started on demand, one request at a time, killed on any error, stopped when idle.

:func:`sizing` chooses their number and memory for the memory limit of a container.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import sys
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, cast

from clusterstacks.deliver.render import protocol
from clusterstacks.deliver.render.errors import NotStarted, WorkerDied

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from datetime import timedelta


STDERR_BYTES: Final = 4096
"""Maximum length of the start of standard error that is kept (arbitrary: contains the first line of the Go runtime)."""

MEMORY_BYTES: Final = 768 * 1024**2
"""Writable memory of one worker (arbitrary: 144 MiB are used once Helm is loaded, a Cilium render needs 40 more)."""

SMALLEST_MEMORY: Final = 384 * 1024**2
"""Minimum of the memory limit: 144 MiB are in use once Helm is loaded."""

TOO_MUCH_MEMORY: Final = (
    "needs more memory than the limit of a render: look for a loop or a growing value in its templates"
)
PATIENCE_SECONDS: Final = 1.0
"""Time to wait for a busy worker before another one is started (arbitrary: five times what a start takes, which also
costs 0.15 s of CPU time and 30 to 70 MB). Most renders take 2 to 200 ms."""

START_SECONDS: Final = 30.0
"""Timeout for the start of a worker (arbitrary: it takes 0.2 s on an idle machine)."""

LASTING_SECONDS: Final = 180.0
"""Time of failing starts after which this process is not healthy (arbitrary)."""

STALE_SECONDS: Final = 300.0
"""Time after which a failed start does not count (arbitrary: waiting renders retry at least every two minutes)."""

_FATAL: Final = ("fatal error:", "runtime: ", "runtime/cgo: ", "terminate called after throwing")
"""First words of the fatal messages of the Go and C++ runtimes."""
_WITHOUT_MEMORY: Final = ("memory", "allocate", "pthread_create failed", "new OS thread", "bad_alloc")
_STOP_SECONDS: Final = 2.0
_SHUT_DOWN: Final = "rendering has been shut down"
_MODULE: Final = "clusterstacks.deliver.render.worker"


class WorkerProcess(asyncio.SubprocessProtocol):
    """A child process that answers one request at a time."""

    def __init__(self) -> None:
        self.charts: set[str] = set()
        self.exited: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        self._transport: asyncio.SubprocessTransport | None = None
        self._buffer = protocol.FrameBuffer()
        self._reply: asyncio.Future[protocol.Frame] = asyncio.get_running_loop().create_future()
        self._stderr = bytearray()

    @classmethod
    async def start(cls, memory_bytes: int) -> WorkerProcess:
        """Start a child process without the environment of the parent, so that no credential reaches a chart."""
        environment = {
            # The Go garbage collector runs more often near this half; the rest is for Python, stacks and parsing.
            "GOMEMLIMIT": str(memory_bytes // 2),
            "LANG": "C.UTF-8",
            "HOME": "/nonexistent",
        }
        try:
            _, worker = await asyncio.get_running_loop().subprocess_exec(
                cls,
                sys.executable,
                *("-I", "-m", _MODULE, str(memory_bytes)),
                env=environment,
                cwd="/",
                start_new_session=True,  # the parent handles Ctrl-C of the terminal
            )
        except OSError as error:
            raise NotStarted(f"no render worker can be started: {error.strerror}") from error
        return worker

    async def ready(self) -> None:
        """Wait until the process accepts requests.

        Raises:
            NotStarted: The process ended, or did not become ready in time.
        """
        try:
            async with asyncio.timeout(START_SECONDS):
                await self._answer()
        except TimeoutError:
            raise NotStarted(f"no render worker can be started: it was not ready within {START_SECONDS:g} s") from None
        except WorkerDied as error:
            raise NotStarted(f"no render worker can be started: {error.message}") from None

    @property
    def alive(self) -> bool:
        """True if the process runs; asks the system, because the event loop may learn later that it ended."""
        if self.exited.done() or self._transport is None:
            return False
        try:
            # WNOWAIT keeps the exit status for the event loop.
            return os.waitid(os.P_PID, self._transport.get_pid(), os.WEXITED | os.WNOHANG | os.WNOWAIT) is None
        except ChildProcessError:
            return False

    async def ask(self, message: dict[str, Any], blob: bytes = b"") -> dict[str, Any]:
        """Send a request and wait for its reply.

        Raises:
            WorkerDied: The process ended, or is about to end for lack of memory.
        """
        self._reply = asyncio.get_running_loop().create_future()
        self._input().write(protocol.encode(message, blob))
        answer = await self._answer()
        if "exhausted" in answer:
            raise WorkerDied(TOO_MUCH_MEMORY)
        return answer

    def kill(self) -> None:
        """Kill the process immediately; safe to repeat."""
        if self._transport is not None:
            with contextlib.suppress(ProcessLookupError):
                self._transport.kill()
            self._transport.close()

    async def stop(self) -> None:
        """Stop an idle process by closing its input; kill it if that takes too long."""
        try:
            self._input().close()
            async with asyncio.timeout(_STOP_SECONDS):
                await asyncio.shield(self.exited)
        except (TimeoutError, WorkerDied):
            pass
        finally:
            self.kill()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Keep the transport."""
        self._transport = cast("asyncio.SubprocessTransport", transport)

    def pipe_data_received(self, fd: int, data: bytes) -> None:
        """Collect the reply from standard output, and the start of standard error separately."""
        if fd == 2:
            self._stderr += data[: STDERR_BYTES - len(self._stderr)]
            return
        try:
            frame = self._buffer.feed(data)
        except protocol.BrokenFrameError:
            self.kill()
            return
        if frame is not None and not self._reply.done():
            self._reply.set_result(frame)

    def connection_lost(self, _: Exception | None) -> None:
        """Wake the waiting request: the process ended and all its output was read."""
        if self._transport is not None and not self.exited.done():
            self.exited.set_result(self._transport.get_returncode() or 0)
            self._transport.close()

    async def _answer(self) -> dict[str, Any]:
        ends: set[asyncio.Future[Any]] = {self._reply, self.exited}
        await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
        if not self._reply.done():
            raise WorkerDied(self._exit_message(self.exited.result()))
        return self._reply.result().message

    def _input(self) -> asyncio.WriteTransport:
        pipe = self._transport.get_pipe_transport(0) if self._transport is not None else None
        if pipe is None:
            raise WorkerDied("the render worker is gone")
        return cast("asyncio.WriteTransport", pipe)  # uvloop's transports have another base class

    def _exit_message(self, code: int) -> str:
        # Only the line of the runtime is shown: output of libraries may contain values.
        lines = self._stderr.decode(errors="replace").splitlines()
        fatal = next((line for line in lines if line.startswith(_FATAL)), "")
        if code == -signal.SIGABRT and any(word in fatal for word in _WITHOUT_MEMORY):
            return TOO_MUCH_MEMORY
        how = f"was killed by {signal.Signals(-code).name}" if code < 0 else f"ended with exit code {code}"
        return f"the render worker {how}{f' ({fatal[:200]})' if fatal else ''}"


class WorkerPool:
    """At most ``size`` workers; another one is started only if no worker becomes free for a moment.

    The most recently used worker is reused first, so that the others become idle.
    """

    def __init__(self, size: int, memory_bytes: int, idle: timedelta) -> None:
        self._memory_bytes = max(memory_bytes, SMALLEST_MEMORY)
        self._idle_seconds = idle.total_seconds()
        self._size = size
        self._slots = asyncio.Semaphore(size)
        self._all: set[WorkerProcess] = set()
        self._idle: list[WorkerProcess] = []
        self._lent = 0
        self._returned = asyncio.Event()
        self._timers: dict[WorkerProcess, asyncio.TimerHandle] = {}
        self._stopping: set[asyncio.Task[None]] = set()
        self._closed = False
        self._failing: tuple[float, float, str] | None = None
        """First and last time (monotonic seconds) and reason of the failed starts since the last successful start."""

    @contextlib.asynccontextmanager
    async def worker(self) -> AsyncIterator[WorkerProcess]:
        """Lend a worker for one request; it is killed if the block ends with an exception or is cancelled.

        Raises:
            NotStarted: No worker can be started, or the pool is closed.
        """
        async with self._slots:
            await self._wait_for_return()
            self._lent += 1
            try:
                worker = await self._take()
                try:
                    yield worker
                except BaseException:
                    worker.kill()
                    raise
                self._put_back(worker)
            finally:
                self._lent -= 1
                self._returned.set()

    @property
    def running(self) -> bool:
        """True if a worker runs or is being started."""
        return bool(self._all or self._lent)

    def problem(self) -> str:
        """Return why workers have failed to start for minutes; empty while they start.

        Renders that hang or kill their worker do not count: a tenant could make the whole process unready.
        """
        if self._failing is None:
            return ""
        first, last, why = self._failing
        now = time.monotonic()
        return why if now - first >= LASTING_SECONDS and now - last < STALE_SECONDS else ""

    async def close(self) -> None:
        """Stop all workers, kill busy ones, and return when no process is left. Safe to repeat."""
        self._closed = True
        self._returned.set()
        idle = [self._idle.pop() for _ in range(len(self._idle))]
        try:
            for worker in self._all.difference(idle):
                worker.kill()
            await asyncio.gather(*(self._retire(worker) for worker in idle), *self._stopping)
            async with contextlib.AsyncExitStack() as slots:
                # With all slots taken, no request can be starting a worker.
                for _ in range(self._size):
                    await slots.enter_async_context(self._slots)
                await asyncio.gather(*(asyncio.shield(worker.exited) for worker in self._all))
        finally:
            for worker in self._all:
                worker.kill()

    async def _wait_for_return(self) -> None:
        """Wait until a lent worker is returned or killed, but only for a moment."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(PATIENCE_SECONDS):
                while self._lent and not self._idle and not self._closed:
                    self._returned.clear()
                    await self._returned.wait()

    async def _take(self) -> WorkerProcess:
        while self._idle and not self._closed:
            worker = self._idle.pop()
            self._timers.pop(worker).cancel()
            if worker.alive:
                return worker
        try:
            worker = await self._start()
        except NotStarted as error:
            now = time.monotonic()
            first, _, _ = self._failing or (now, now, "")
            self._failing = first, now, error.message
            raise
        self._failing = None
        return worker

    async def _start(self) -> WorkerProcess:
        if self._closed:
            raise NotStarted(_SHUT_DOWN)
        worker = await WorkerProcess.start(self._memory_bytes)
        self._all.add(worker)
        worker.exited.add_done_callback(lambda _: self._all.discard(worker))
        try:
            if not self._closed:
                await worker.ready()
        except BaseException:
            worker.kill()
            if not self._closed:
                raise
        if self._closed:
            worker.kill()
            raise NotStarted(_SHUT_DOWN)
        return worker

    def _put_back(self, worker: WorkerProcess) -> None:
        if self._closed or not worker.alive:
            worker.kill()
            return
        self._idle.append(worker)
        loop = asyncio.get_running_loop()
        self._timers[worker] = loop.call_later(self._idle_seconds, self._expire, worker)

    def _expire(self, worker: WorkerProcess) -> None:
        self._idle.remove(worker)
        task = asyncio.get_running_loop().create_task(self._retire(worker))
        self._stopping.add(task)
        task.add_done_callback(self._stopping.discard)

    async def _retire(self, worker: WorkerProcess) -> None:
        if timer := self._timers.pop(worker, None):
            timer.cancel()
        await worker.stop()


MIB: Final = 1024**2

ONE_WORKER_BELOW: Final = 512 * MIB
"""Limit below which one worker is used. The operator needs 70 to 100 MB, a worker 70 to 90 MB with Helm loaded, and
about 40 MiB more to render a large chart."""

LEAST: Final = 224 * MIB
"""Minimum limit for the operator and one worker, by the same figures. The Go operator has 250Mi."""

_OPERATOR: Final = 128 * MIB


@dataclass(frozen=True, slots=True)
class Sizing:
    """Number and writable memory of the workers; ``shortage`` is a message if the memory limit is too low."""

    workers: int
    memory_bytes: int
    shortage: str = ""


def sizing(limit: int | None) -> Sizing:
    """Choose the workers for the memory limit of a container in bytes; None for no limit."""
    if limit is None:
        return Sizing(2, MEMORY_BYTES)
    workers = 1 if limit < ONE_WORKER_BELOW else 2
    memory = min(MEMORY_BYTES, max(SMALLEST_MEMORY, (limit - _OPERATOR) // workers))
    shortage = (
        f"The memory limit of this container is {limit // MIB}Mi, but rendering Helm charts needs {LEAST // MIB}Mi: "
        "raise resources.limits.memory, otherwise renders fail and the container is killed"
    )
    return Sizing(workers, memory, shortage if limit < LEAST else "")
