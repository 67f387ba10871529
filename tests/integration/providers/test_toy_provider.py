"""The toy provider of the how-to passes the contract, and one that breaks it fails the check with that name."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from typing import TYPE_CHECKING

from tests.support.running.doc_pages import CHECKOUT, environ_of_reader

if TYPE_CHECKING:
    from pathlib import Path

    from clusterstacks.dev.apiserver import ApiServer


def test_toy(server: ApiServer, tmp_path: Path) -> None:
    shutil.copytree(CHECKOUT / "examples/provider", tmp_path / "provider")
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "test_contract.py", "--durations=12", "-p", "no:cacheprovider"],
        cwd=tmp_path / "provider",
        env=environ_of_reader(server.kubeconfig_path),
        check=False,
        capture_output=True,
        text=True,
    )
    print(done.stdout, done.stderr)
    assert done.returncode == 0
