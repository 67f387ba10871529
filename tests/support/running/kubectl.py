"""The real kubectl against one server, in one namespace."""

from __future__ import annotations

import json
import subprocess
from typing import TYPE_CHECKING, Any

from clusterstacks.devcluster import binaries

if TYPE_CHECKING:
    from pathlib import Path

TIMEOUT_SECONDS = 60


class Kubectl:
    """Call it with kubectl's arguments; a ``manifest`` becomes its standard input (``-f-``)."""

    def __init__(self, kubeconfig: Path, namespace: str) -> None:
        binary = binaries.resolve(["kubectl"])["kubectl"].path
        self._command = [str(binary), f"--kubeconfig={kubeconfig}", f"--namespace={namespace}"]

    def __call__(self, *arguments: str, manifest: Any = None) -> str:
        """Run it, expect success and give what it printed."""
        done = self.tried(*arguments, manifest=manifest)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def tried(self, *arguments: str, manifest: Any = None) -> subprocess.CompletedProcess[str]:
        """Run it, whatever comes."""
        return subprocess.run(
            [*self._command, *arguments],
            input=json.dumps(manifest) if manifest else None,
            capture_output=True,
            text=True,
            check=False,
            timeout=TIMEOUT_SECONDS,
        )

    def create(self, manifest: dict[str, Any]) -> dict[str, Any]:
        """Create an object and give it as the server has it."""
        created: dict[str, Any] = json.loads(self("create", "-f-", "-o=json", manifest=manifest))
        return created
