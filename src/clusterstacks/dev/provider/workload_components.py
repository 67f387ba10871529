"""The components beside the API server of a workload cluster.

A kube-controller-manager removes deleted namespaces. On request, all of its controllers and a kube-scheduler create and
schedule the Pods of Deployments and other workloads, and kwok plays the kubelet of a node.
"""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import TYPE_CHECKING, Final

from clusterstacks.dev import installation, kube_components, process_records
from clusterstacks.dev.loopback import LOOPBACK, answers_ok
from clusterstacks.dev.private_files import write_private
from clusterstacks.dev.processes import Command, Process, describe_exit, start_on_free_port
from clusterstacks.dev.provider import kwok_stages

if TYPE_CHECKING:
    from collections.abc import Callable

    from clusterstacks.dev.apiserver import ApiServer
    from clusterstacks.dev.kube_components import Components

NODE: Final = "node-1"
"""Name of the node of a workload cluster."""


class WorkloadComponents:
    """The components of one workload cluster; they run as long as its API server."""

    def __init__(self, bench: Components, server: ApiServer) -> None:
        self._bench = bench
        self._server = server
        self._processes: dict[str, Process] = {}
        self._kubelet_version = ""

    async def ensure(self, kubelet_version: str) -> None:
        """Start the components that do not run, and create or update the node of a cluster with Pods."""
        wanted = [name for name, (program, _) in _COMPONENTS.items() if program in self._bench.binaries]
        missing = [name for name in wanted if name not in self._processes or not self._processes[name].running]
        results = await asyncio.gather(
            *(asyncio.to_thread(self._start, name) for name in missing), return_exceptions=True
        )
        for error in filter(None, results):
            raise error
        if self._bench.simulates_pods and (missing or kubelet_version != self._kubelet_version):
            await asyncio.to_thread(
                installation.install, self._server.kubeconfig_path, [kwok_stages.node(NODE, kubelet_version)]
            )
            self._kubelet_version = kubelet_version

    def ended(self) -> str:
        """Return which component ended by itself, and how; empty when all run."""
        codes = ((process.name, process.exit_code) for process in self._processes.values())
        return next((f"{name} {describe_exit(code)}" for name, code in codes if code is not None), "")

    def stop(self) -> None:
        """Stop all components; a kill is safe because they have no state."""
        for process in self._processes.values():
            process.stop(timedelta(0))
            process_records.remove(self._bench.state.records, process.name)
        self._processes.clear()

    def _start(self, name: str) -> None:
        program, make = _COMPONENTS[name]
        ports: list[int] = []

        def on(port: int) -> Process:
            ports.append(port)
            return make(self._bench, self._server, port)

        process = self._processes[name] = start_on_free_port(on)
        record = process_records.ProcessRecord(
            name=process.name,
            pid=process.pid,
            identity=process_records.identity_of(process.pid),
            version=self._bench.binaries[program].version,
            port=ports[-1],
            log=str(process.command.log),
        )
        process_records.write(self._bench.state.records, record)


def _controller_manager(bench: Components, server: ApiServer, port: int) -> Process:
    controllers = kube_components.ALL_CONTROLLERS if bench.simulates_pods else ("namespace-controller",)
    return kube_components.controller_manager(bench, server, port, controllers)


def _kwok(bench: Components, server: ApiServer, port: int) -> Process:
    configuration = bench.directory("kwok") / "kwok.yaml"
    write_private(configuration, kwok_stages.configuration().encode())
    return Process(
        Command(
            name=bench.name("kwok"),
            argv=(
                str(bench.binaries["kwok"].path),
                f"--kubeconfig={server.kubeconfig_path}",
                f"--config={configuration}",
                f"--server-address={LOOPBACK}:{port}",
            ),
            log=bench.state.log(bench.name("kwok")),
            ready=lambda: answers_ok(f"http://{LOOPBACK}:{port}/healthz"),
            environment=bench.environment,
        )
    )


_COMPONENTS: Final[dict[str, tuple[str, Callable[[Components, ApiServer, int], Process]]]] = {
    "controller-manager": ("kube-controller-manager", _controller_manager),
    "scheduler": ("kube-scheduler", kube_components.scheduler),
    "kwok": ("kwok", _kwok),
}
"""Program and process of each component, by its name in ``csctl dev status``."""
