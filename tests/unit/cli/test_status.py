from __future__ import annotations

import json
import subprocess
import sys

import pytest

from clusterstacks.cli.shared import output
from tests.support.running.csctl import call_csctl

MODULES = (
    "clusterstacks.cli.status",
    "clusterstacks.cli.get",
    "clusterstacks.cli.shared.live_view",
    "clusterstacks.clusters.permissions",
    "clusterstacks.kube.client",
    "clusterstacks.kube.kubeconfig",
    "clusterstacks.runtime.informer",
)
HEAVY = ("cryptography", "pydantic", "rich", "uvloop")


def test_status_loads_no_heavy_library() -> None:
    """Importing pydantic alone would take a quarter of the 0.5 s that the verb may take."""
    script = f"import json, sys, {', '.join(MODULES)}; print(json.dumps([*sys.modules]))"
    loaded = json.loads(subprocess.run([sys.executable, "-c", script], capture_output=True, check=True).stdout)

    assert not {*HEAVY} & {*loaded}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--watch", "-o", "json"), "--watch cannot be combined with -o json"),
        (("my-cluster",), "'my-cluster' is not a Cluster (expected NAMESPACE/NAME"),
    ],
)
def test_contradicting_arguments_are_rejected(
    arguments: tuple[str, ...], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert call_csctl("status", *arguments) == output.MUST_CHANGE
    assert message in capsys.readouterr().err
