"""Runs the plugin of a provider, ``csctl-<provider>``, which makes or names the node images of a release.

A plugin runs in the working directory of csctl, as under csctl written in Go: its registry file may contain relative
paths. It gets a copy of the stack directory, so it cannot change the hashed source. It is searched only in the absolute
directories of PATH, so a repository cannot bring its own.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import subprocess
import tempfile
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from clusterstacks.model.errors import SpecError

if TYPE_CHECKING:
    from collections.abc import Coroutine, Mapping


GRACE: Final = timedelta(seconds=5)
"""Time that a plugin has to end after SIGTERM (arbitrary; packer removes its temporary resources)."""

_VERB: Final = "create-node-images"
_STANDARD_ERROR: Final = 2


class PluginMissing(SpecError):
    """The plugin that a stack needs is not installed."""

    def __init__(self, name: str) -> None:
        super().__init__(
            "PluginMissing",
            f"csctl.yaml: config.provider.config requires the plugin {name}, which no directory of PATH contains: "
            "install it there (OpenStack's is github.com/SovereignCloudStack/csctl-plugin-openstack), "
            "or remove config.provider.config if the release needs no node images",
        )


class PluginFailed(SpecError):
    """A plugin ended with an error."""

    def __init__(self, program: Path, cause: str) -> None:
        super().__init__("PluginFailed", f"{program} {cause}: see its output above")


def find_plugin(provider: str, path: str) -> Path:
    """Find the plugin of a provider in the directories of PATH; empty and relative ones are skipped."""
    name = f"csctl-{provider}"
    for entry in path.split(os.pathsep):
        program = Path(entry, name)
        if Path(entry).is_absolute() and program.is_file() and os.access(program, os.X_OK):
            return program
    raise PluginMissing(name)


@dataclass(frozen=True, slots=True)
class Plugin:
    """A plugin; ``registry`` is the value of ``--node-image-registry``, in which a path must be absolute."""

    program: Path
    registry: str

    async def make_node_images(self, tree: Mapping[str, bytes], root: Path, release: Path) -> None:
        """Run the plugin without a time limit; its output goes to standard error.

        It gets a copy of ``tree``, in which the files that are executable in ``root`` are executable, and adds its
        files to ``release``, an absolute path.
        """
        with tempfile.TemporaryDirectory(prefix="csctl-plugin-") as scratch:
            source = Path(scratch, root.name or "stack")
            copy_tree(tree, root, source)
            working = _working_directory(root, scratch)
            await run_program(self.program, _VERB, source, release, self.registry, working=working)


async def run_program(
    program: Path, *arguments: str | Path, working: Path, time_limit: timedelta | None = None
) -> None:
    """Run a program; its output goes to standard error. Its child processes end with it if it is cancelled.

    Raises:
        PluginFailed: It cannot be started, ends with an error, or takes longer than ``time_limit``.
    """
    seconds = time_limit.total_seconds() if time_limit else None
    try:
        async with asyncio.timeout(seconds):
            status = await _status_of(program, *arguments, working=working)
    except TimeoutError:
        raise PluginFailed(program, f"did not end within {seconds:g} s (--time-limit), and was stopped") from None
    if status:
        raise PluginFailed(program, f"ended with {f'signal {-status}' if status < 0 else f'exit code {status}'}")


async def _status_of(program: Path, *arguments: str | Path, working: Path) -> int:
    start = asyncio.create_subprocess_exec(
        program, *arguments, cwd=working, stdin=subprocess.DEVNULL, stdout=_STANDARD_ERROR, process_group=0
    )
    # Cancelling the start would end the program, but not its child processes.
    starting = asyncio.ensure_future(start)
    try:
        process = await asyncio.shield(starting)
        return await process.wait()
    except asyncio.CancelledError:
        with contextlib.suppress(OSError):
            await _end(await starting)
        raise
    except OSError as error:
        raise PluginFailed(program, f"cannot be started ({error.strerror})") from None


def _working_directory(root: Path, scratch: str) -> Path:
    """Return the working directory of csctl, or a scratch directory if the source contains it."""
    here = Path.cwd()
    return Path(scratch) if here.is_relative_to(root.resolve()) else here


async def interruptible(work: Coroutine[Any, Any, None]) -> None:
    """Run work that Ctrl-C and SIGTERM cancel, so that its programs end and incomplete files are removed."""
    task = asyncio.ensure_future(work)
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, task.cancel)
    try:
        await task
    except asyncio.CancelledError:
        raise KeyboardInterrupt from None


async def _end(process: asyncio.subprocess.Process) -> None:
    """End a plugin and all processes it started."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, number)
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(process.wait(), GRACE.total_seconds())


def copy_tree(tree: Mapping[str, bytes], root: Path, into: Path) -> None:
    """Write the files of a stack; those that are executable in ``root`` are executable."""
    into.mkdir()
    for path, content in tree.items():
        file = into / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(content)
        file.chmod(0o700 if os.access(root / path, os.X_OK) else 0o600)
