"""The real kubectl against one server, in one namespace."""

from __future__ import annotations

import json
import subprocess
from typing import TYPE_CHECKING, Any

from clusterstacks.dev import binaries

if TYPE_CHECKING:
    from pathlib import Path

TIMEOUT_SECONDS = 330


class Kubectl:
    """Runs kubectl with its arguments; a ``manifest`` becomes its standard input (``-f-``)."""

    def __init__(self, kubeconfig: Path, namespace: str, seconds: int = TIMEOUT_SECONDS) -> None:
        binary = binaries.resolve(["kubectl"])["kubectl"].path
        self._seconds = seconds
        self._command = [str(binary), f"--kubeconfig={kubeconfig}", f"--namespace={namespace}"]

    def __call__(self, *arguments: str, manifest: Any = None) -> str:
        """Run it, expect success and return its output."""
        done = self.tried(*arguments, manifest=manifest)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def tried(self, *arguments: str, manifest: Any = None) -> subprocess.CompletedProcess[str]:
        """Run it with any result."""
        return subprocess.run(
            [*self._command, *arguments],
            input=json.dumps(manifest) if manifest else None,
            capture_output=True,
            text=True,
            check=False,
            timeout=self._seconds,
        )

    def get(self, *arguments: str) -> dict[str, Any]:
        """Read an object, or a list of objects."""
        found: dict[str, Any] = json.loads(self("get", "--output=json", *arguments))
        return found

    def create(self, manifest: dict[str, Any]) -> dict[str, Any]:
        """Create an object and return it as stored by the server."""
        created: dict[str, Any] = json.loads(self("create", "-f-", "-o=json", manifest=manifest))
        return created
