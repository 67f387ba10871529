from __future__ import annotations

import json
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from clusterstacks.cli.shared import output
from tests.support.running.csctl import call_csctl

if TYPE_CHECKING:
    from pathlib import Path

MODULES = (
    "clusterstacks.cli.status",
    "clusterstacks.cli.get",
    "clusterstacks.cli.shared.live_view",
    "clusterstacks.clusters.permissions",
    "clusterstacks.kube.client",
    "clusterstacks.kube.kubeconfig",
)
HEAVY = ("clusterstacks.runtime.informer", "cryptography", "pydantic", "rich", "uvloop")


def printed(script: str) -> str:
    return subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout.strip()


def test_status_loads_no_heavy_library() -> None:
    """Importing pydantic alone would take a quarter of the 0.5 s that the verb may take."""
    loaded = json.loads(printed(f"import json, sys, {', '.join(MODULES)}; print(json.dumps([*sys.modules]))"))

    assert not {*HEAVY} & {*loaded}


def test_the_imports_of_a_connection_read_no_cas_of_the_system(tmp_path: Path) -> None:
    """aiohttp reads them twice at its import, which takes a tenth of the time of the verb."""
    cluster = {"server": "https://127.0.0.1:1"}
    config = {
        "clusters": [{"name": "one", "cluster": cluster}],
        "contexts": [{"name": "one", "context": {"cluster": "one"}}],
        "current-context": "one",
    }
    (tmp_path / "kubeconfig").write_text(json.dumps(config))
    script = f"""
import asyncio, pathlib, ssl
read, loaded = ssl.SSLContext.set_default_verify_paths, []
def count(context):
    read(context)
    loaded.append(context.cert_store_stats()["x509"])
ssl.SSLContext.set_default_verify_paths = count
from clusterstacks.cli.shared.cluster_options import ManagementCluster
async def connect():
    async with ManagementCluster(pathlib.Path({str(tmp_path / "kubeconfig")!r})).connected():
        pass
asyncio.run(connect())
print(set(loaded))
"""
    assert printed(script) == "{0}"


def test_few_collections_of_garbage_happen_while_a_verb_runs() -> None:
    """With the thresholds of Python a hundred happen, which find almost nothing."""
    script = """
import gc, sys
from clusterstacks.cli import main
def imports():
    import clusterstacks.kube.client
    print(sum(one["collections"] for one in gc.get_stats()) - before, gc.isenabled())
main.csctl.main = lambda **_: imports()
before = sum(one["collections"] for one in gc.get_stats())
main.main()
"""
    collections, enabled = printed(script).split()

    assert (int(collections) < 5, enabled) == (True, "True")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--watch", "-o", "json"), "--watch cannot be combined with -o json"),
        (("--watch", "--context=a", "--context=b"), "--watch cannot be combined with several --context"),
        (("team/one", "--context=a", "--context=b"), "NAMESPACE/CLUSTER cannot be combined with several --context"),
        (("my-cluster",), "'my-cluster' is not a Cluster (expected NAMESPACE/NAME"),
    ],
)
def test_contradicting_arguments_are_rejected(
    arguments: tuple[str, ...], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert call_csctl("status", *arguments) == output.MUST_CHANGE
    assert message in capsys.readouterr().err
