"""``csctl install`` and ``csctl uninstall`` as administrators call them."""

from __future__ import annotations

import asyncio
import os
from typing import TYPE_CHECKING

from clusterstacks.net.kube.client import Client
from clusterstacks.net.kube.kubeconfig import load_kubeconfig
from clusterstacks.net.pool import Pool
from tests.support.running.csctl import csctl_run
from tests.support.running.world import foreign_crds, install

if TYPE_CHECKING:
    from clusterstacks.dev.apiserver import ApiServer


async def csctl(server: ApiServer | None, *arguments: str) -> tuple[int, str, str]:
    """Exit code, output and messages of csctl, called as its users call it."""
    kept = {name: os.environ[name] for name in ("PATH", "HOME") if name in os.environ}
    environ = {**kept, "KUBECONFIG": str(server.kubeconfig_path if server else os.devnull)}
    run = await asyncio.to_thread(csctl_run, *arguments, environ=environ)
    return run.returncode, run.stdout, run.stderr


async def cluster_api(server: ApiServer) -> None:
    """Install Cluster API's kinds, without its managers."""
    async with Pool() as pool:
        await install(Client(load_kubeconfig([server.kubeconfig_path]), pool), foreign_crds("v1beta2", "v1beta1"))


async def refused(server: ApiServer, *arguments: str) -> str:
    """Run csctl, expect a refusal and return its message."""
    code, out, err = await csctl(server, *arguments)
    assert code == 2, f"{out}{err}"
    return err
