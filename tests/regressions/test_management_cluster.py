"""USER-13: the operator uses an explicitly named cluster, and logs it in the first line."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import yaml

from clusterstacks.model.errors import SpecError
from clusterstacks.net.kube import kubeconfig as module
from clusterstacks.net.kube.kubeconfig import default_connection, named_connection

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tests.support.running.world import World

pytestmark = pytest.mark.regression("USER-13")

ROOT = Path(__file__).parents[2]


def kubeconfig(path: Path, server: str) -> Path:
    path.parent.mkdir(exist_ok=True)
    document = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "it",
        "contexts": [{"name": "it", "context": {"cluster": "it", "user": "it"}}],
        "clusters": [{"name": "it", "cluster": {"server": server}}],
        "users": [{"name": "it", "user": {"token": "t"}}],
    }
    path.write_text(yaml.safe_dump(document))
    return path


@pytest.fixture
def home(tmp_path: Path) -> Path:
    kubeconfig(tmp_path / ".kube" / "config", "https://somebody-elses.example")
    return tmp_path


@pytest.mark.regression("USER-13")
def test_default_kubeconfig_of_the_user_is_not_used(home: Path) -> None:
    environ = {"HOME": str(home)}

    with pytest.raises(SpecError, match=r"no management cluster is configured.* set --kubeconfig FILE"):
        named_connection(environ)
    # csctl is run by that person, and chooses as kubectl does.
    assert default_connection(environ).server == "https://somebody-elses.example"


@pytest.mark.regression("USER-13")
def test_explicitly_named_kubeconfig_is_used(home: Path) -> None:
    file = home / ".kube" / "config"
    other = kubeconfig(home / "other", "https://other.example")

    for environ, flag, server, origin in (
        ({}, str(file), "https://somebody-elses.example", f"--kubeconfig {file}"),
        ({"KUBECONFIG": f"{other}:{file}"}, "", "https://other.example", f"KUBECONFIG {other}:{file}"),
        ({"KUBECONFIG": str(other)}, str(file), "https://somebody-elses.example", f"--kubeconfig {file}"),
    ):
        connection, found = named_connection({"HOME": str(home), **environ}, flag)
        assert (connection.server, found) == (server, origin)


@pytest.mark.regression("USER-13")
def test_pod_uses_its_service_account(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    account = home / "serviceaccount"
    account.mkdir()
    (account / "token").write_text("t")
    monkeypatch.setattr(module, "SERVICE_ACCOUNT", account)
    monkeypatch.setattr(module.in_cluster, "__defaults__", (account, None))

    connection, origin = named_connection({"HOME": str(home), "KUBERNETES_SERVICE_HOST": "10.0.0.1"})

    assert (connection.server, origin) == ("https://10.0.0.1:443", "the service account of the pod")


async def logged(environ: Mapping[str, str], *flags: str, lines: int) -> tuple[list[str], int | None]:
    """Start the operator's process; gives the messages of its first lines, and its status where it ended by itself."""
    plain = {key: value for key, value in os.environ.items() if not key.startswith(("KUBE", "POD_"))}
    off = ("--metrics-bind-address=0", "--health-probe-bind-address=0", "--webhook-port=0")
    running = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "clusterstacks.operator.main",
        *off,
        *flags,
        env={**plain, **environ},
        stderr=asyncio.subprocess.PIPE,
        cwd=ROOT,
    )
    try:
        assert running.stderr is not None
        async with asyncio.timeout(250):
            found = [json.loads(await running.stderr.readline())["message"] for _ in range(lines)]
            return found, await running.wait() if environ.get("HOME") else None
    finally:
        if running.returncode is None:
            running.send_signal(signal.SIGKILL)
            await running.wait()


@pytest.mark.regression("USER-13")
async def test_operator_without_arguments_connects_to_no_cluster(home: Path) -> None:
    messages, status = await logged({"HOME": str(home)}, lines=1)

    assert status == 1
    assert "set --kubeconfig FILE" in messages[0]


@pytest.mark.regression("USER-13")
async def test_first_log_line_names_the_api_server(world: World) -> None:
    server = yaml.safe_load(world.management_kubeconfig.read_text())["clusters"][0]["cluster"]["server"]
    flags = (f"--release-dir={world.releases}", f"--cache-dir={world.cache}", f"--namespace={world.namespace}")

    messages, _ = await logged({"KUBECONFIG": str(world.management_kubeconfig)}, *flags, "--qps=3", lines=1)

    assert f"starts on API server {server}, found by KUBECONFIG {world.management_kubeconfig}" in messages[0]
