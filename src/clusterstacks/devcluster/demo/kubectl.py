"""The real kubectl, for what the demo shows as its user would do it."""

from __future__ import annotations

import asyncio
import subprocess
from dataclasses import dataclass
from typing import TYPE_CHECKING

from clusterstacks.devcluster import binaries
from clusterstacks.domain.errors import DependencyError

if TYPE_CHECKING:
    from pathlib import Path

TIMEOUT_SECONDS = 60


@dataclass(frozen=True, slots=True)
class KubectlOutput:
    """What kubectl answered, and whether it did what it was told."""

    done: bool
    text: str


class Kubectl:
    """Runs kubectl in one management cluster."""

    def __init__(self, kubeconfig: Path) -> None:
        program = binaries.resolve(["kubectl"])["kubectl"].path
        self._command = (str(program), f"--kubeconfig={kubeconfig}")

    async def __call__(self, *arguments: str, manifest: str = "") -> KubectlOutput:
        """Run it with ``manifest`` as its standard input.

        Raises:
            DependencyError: It does not end.
        """
        return await asyncio.to_thread(self._run, arguments, manifest)

    def _run(self, arguments: tuple[str, ...], manifest: str) -> KubectlOutput:
        try:
            done = subprocess.run(
                [*self._command, *arguments],
                input=manifest,
                capture_output=True,
                text=True,
                check=False,
                timeout=TIMEOUT_SECONDS,
            )
        except subprocess.TimeoutExpired:
            message = f"'kubectl {arguments[0]}' did not end within {TIMEOUT_SECONDS} s"
            raise DependencyError("KubectlHangs", message) from None
        return KubectlOutput(done.returncode == 0, (done.stdout + done.stderr).strip())
