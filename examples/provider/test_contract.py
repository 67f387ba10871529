"""The toy provider against the contract: ``KUBECONFIG=FILE pytest test_contract.py``."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from clusterstacks.testing.provider import ProviderContract, RunningProvider

if TYPE_CHECKING:
    from collections.abc import Iterator

HERE = Path(__file__).parent


@pytest.fixture(scope="module")
def provider(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningProvider]:
    """Start the provider, with an image to download."""
    images, origin = tmp_path_factory.mktemp("images"), tmp_path_factory.mktemp("origin") / "node.qcow2"
    origin.write_bytes(b"an image")
    template = (HERE / "template.yaml").read_text()
    wrong = template.replace("https://images.example.org/node.qcow2", origin.as_uri())
    right = wrong.replace("0" * 64, hashlib.sha256(b"an image").hexdigest())
    kubeconfig = os.environ["KUBECONFIG"]
    subprocess.run(["kubectl", "apply", "--server-side", "-f", HERE / "crds.yaml"], check=True)
    with subprocess.Popen([sys.executable, HERE / "provider.py", kubeconfig, images]) as process:
        yield RunningProvider(
            kubeconfig=Path(kubeconfig),
            manifests=right,
            failing=wrong,
            exists=lambda live: (images / f"{live['metadata']['namespace']}.{live['metadata']['name']}").exists(),
        )
        process.terminate()


class TestContract(ProviderContract):
    """The tests of the contract."""
