"""Provider plugins: programs called ``csctl-<provider>`` that make or name the node images of a release (FORMATS 11).

A plugin runs in the directory csctl was called in, as under csctl written in Go: its registry file may name others
relative to it. It gets a copy of the stack directory, so that the source stays what was hashed (INCUMBENT D44), and is
looked for in the absolute directories of PATH only, so that a repository cannot bring its own (D45).
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
from typing import TYPE_CHECKING, Final

from clusterstacks.domain.errors import SpecError

if TYPE_CHECKING:
    from collections.abc import Mapping

GRACE: Final = timedelta(seconds=5)
"""How long a plugin that was told to end may take (arbitrary; packer takes away what it made)."""

_VERB: Final = "create-node-images"
_STANDARD_ERROR: Final = 2


class PluginMissing(SpecError):
    """A stack asks for a plugin that is not installed."""

    def __init__(self, name: str) -> None:
        super().__init__(
            "PluginMissing",
            f"csctl.yaml: config.provider.config asks for the plugin {name}, and no directory of PATH has it: "
            "install it there (OpenStack's is github.com/SovereignCloudStack/csctl-plugin-openstack), "
            "or remove config.provider.config if the release needs no node images",
        )


class PluginFailed(SpecError):
    """A plugin ended with an error."""

    def __init__(self, program: Path, cause: str) -> None:
        super().__init__("PluginFailed", f"{program} {cause}: what it printed above says why")


def find_plugin(provider: str, path: str) -> Path:
    """Find the plugin of a provider.

    Args:
        provider: As in csctl.yaml.
        path: The value of PATH; entries that are empty or relative are passed over.

    Raises:
        PluginMissing: There is none.
    """
    name = f"csctl-{provider}"
    for entry in path.split(os.pathsep):
        program = Path(entry, name)
        if Path(entry).is_absolute() and program.is_file() and os.access(program, os.X_OK):
            return program
    raise PluginMissing(name)


@dataclass(frozen=True, slots=True)
class Plugin:
    """A plugin and what it works on.

    Args:
        program: The executable.
        registry: What ``--node-image-registry`` says; may be empty. A path must be absolute.
    """

    program: Path
    registry: str

    async def make_node_images(self, tree: Mapping[str, bytes], root: Path, release: Path) -> None:
        """Run the plugin; what it prints goes to standard error. It may take as long as it wants.

        Args:
            tree: The files of the stack directory.
            root: Where they were read; tells which of them are executable.
            release: The directory it adds its files to; absolute.

        Raises:
            PluginFailed: It cannot be started, or ends with an error.
        """
        with tempfile.TemporaryDirectory(prefix="csctl-plugin-") as scratch:
            source = Path(scratch, root.name or "stack")
            _copy(tree, root, source)
            await self._run(source, release, _working_directory(root, scratch))

    async def _run(self, source: Path, release: Path, working: Path) -> None:
        start = asyncio.create_subprocess_exec(
            self.program,
            _VERB,
            source,
            release,
            self.registry,
            cwd=working,
            stdin=subprocess.DEVNULL,
            stdout=_STANDARD_ERROR,
            process_group=0,
        )
        # A start that is cancelled would end the program alone, and not what it has started.
        starting = asyncio.ensure_future(start)
        try:
            process = await asyncio.shield(starting)
            status = await process.wait()
        except asyncio.CancelledError:
            with contextlib.suppress(OSError):
                await _end(await starting)
            raise
        except OSError as error:
            raise PluginFailed(self.program, f"cannot be started ({error.strerror})") from None
        if status:
            raise PluginFailed(
                self.program, f"ended with {f'signal {-status}' if status < 0 else f'exit code {status}'}"
            )


def _working_directory(root: Path, scratch: str) -> Path:
    """Return where csctl was called; not within the source, of which what a plugin writes there would become part."""
    here = Path.cwd()
    return Path(scratch) if here.is_relative_to(root.resolve()) else here


async def _end(process: asyncio.subprocess.Process) -> None:
    """End a plugin and every process it started."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, number)
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(process.wait(), GRACE.total_seconds())


def _copy(tree: Mapping[str, bytes], root: Path, into: Path) -> None:
    into.mkdir()
    for path, content in tree.items():
        file = into / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(content)
        file.chmod(0o700 if os.access(root / path, os.X_OK) else 0o600)
