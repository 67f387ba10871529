"""Start the whole local environment in its order, watch it, and stop it.

etcd, management API server, controller manager, definitions, Cluster API, its webhooks, provider, operator. Webhook
configurations come after the manager that answers them: until then every write to its kinds would fail.
"""

from __future__ import annotations

import contextlib
import time
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING

from clusterstacks.api.crd_manifests import all_crds
from clusterstacks.devcluster import binaries, capi_managers, components, installation, process_records
from clusterstacks.devcluster import restart as restarting
from clusterstacks.devcluster.apiserver import ApiServer, ApiServerSettings
from clusterstacks.devcluster.etcd import Etcd
from clusterstacks.devcluster.private_files import private_directory
from clusterstacks.devcluster.processes import Process, describe_exit, start_on_free_port
from clusterstacks.devcluster.provider.kinds import definitions
from clusterstacks.devcluster.start_managers import start_manager
from clusterstacks.devcluster.third_party_crds.directories import read_definitions
from clusterstacks.domain.errors import ClusterStacksError, SpecError

if TYPE_CHECKING:
    import threading
    from collections.abc import Callable
    from pathlib import Path

    from clusterstacks.devcluster.state_directory import StateDirectory
    from clusterstacks.devcluster.third_party_crds.definition import ThirdPartyCRD

WATCH_SECONDS = 0.3
"""How often it looks whether a process ended."""
CLIENT_GRACE = timedelta(seconds=6)
"""For operator and provider to end their work; API servers and etcd are killed, their data is thrown away."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EnvironmentSettings:
    """What kind of environment.

    Args:
        state: Where everything of it lies.
        operator: Whether to start our operator.
        releases: The directory it takes releases from; None is ``releases`` in the state directory.
        clusters_from: YAML files applied at the end, in this order.
        providers: Further managers of Cluster API, by their names in ``clusterapi.PROVIDERS``.
        definitions_from: Directories with definitions of other providers, installed before everything else.
        rate_limits: Keep Cluster API's default of one reconcile a second and object; without, everything is faster.
    """

    state: StateDirectory
    operator: bool = True
    releases: Path | None = None
    clusters_from: tuple[Path, ...] = ()
    providers: tuple[str, ...] = ()
    definitions_from: tuple[Path, ...] = ()
    rate_limits: bool = False


class Environment:
    """The processes of one environment, as children of this process."""

    def __init__(self, settings: EnvironmentSettings, report: Callable[[str], None]) -> None:
        self.settings = settings
        self._state = settings.state
        self._report = report
        self._managers = capi_managers.chosen(settings.providers)
        self._processes: list[Process] = []

    def start(self) -> None:
        """Start everything; on failure nothing is left running.

        Raises:
            ClusterStacksError: names the component and ends with its log's last lines.
        """
        extra = [manifest for path in self.settings.clusters_from for manifest in installation.read_manifests(path)]
        found = read_definitions(self.settings.definitions_from, self._report)
        try:
            self._start(found)
            for manifest in extra:
                self._report(f"applying {manifest['kind']} {manifest['metadata']['name']}")
            installation.install_in_order(self._state.kubeconfig, extra)
        except BaseException:
            self.stop()
            raise

    def watch(self, stop: threading.Event) -> None:
        """Say when a process ends by itself, until ``stop`` is set; it is started again only on request."""
        told: set[str] = set()

        def restart(request: restarting.RestartRequest) -> None:
            told.discard(request.component)
            self._restart(request)

        while not stop.wait(WATCH_SECONDS):
            restarting.serve(self._state, restart)
            for process in self._processes:
                if process.exit_code is not None and process.name not in told:
                    told.add(process.name)
                    how = f"{describe_exit(process.exit_code)} at {time.strftime('%H:%M:%S')}"
                    self._note_end(process, how)
                    self._report(
                        f"{process.name} {how}; see 'csctl dev logs {process.name}'; "
                        f"'csctl dev restart{self._state.options} {process.name}' starts it again"
                    )

    def _restart(self, request: restarting.RestartRequest) -> None:
        """End a component where it still runs, and start it with the same arguments.

        Raises:
            ProcessError: It does not start.
            SpecError: There is none of the name.
        """
        process = next((one for one in self._processes if one.name == request.component), None)
        if process is None:
            raise SpecError("ComponentUnknown", f"there is no component {request.component}")
        before = process_records.read(self._state.records, process.name)
        process.stop(CLIENT_GRACE)
        if request.fresh_cache:
            restarting.emptied(self._state.operator_cache)
        process.launch()
        self._record(process, before.version if before else "", before.port if before else 0)
        self._report(f"{process.name} was restarted")

    def stop(self) -> None:
        """End every process: those that use the API server first, in order, then the rest at once."""
        servers = {"etcd", "management"}
        for process in reversed(self._processes):
            process.stop(timedelta(0) if process.name in servers else CLIENT_GRACE)
            process_records.remove(self._state.records, process.name)
        self._processes.clear()

    def _start(self, further: list[ThirdPartyCRD]) -> None:
        found = binaries.resolve(capi_managers.programs_of(self._managers), report=self._report)
        bench = components.Components(self._state, found)
        manifests = [capi_managers.manifests(manager, report=self._report) for manager in self._managers]
        etcd = start_on_free_port(
            lambda port: Etcd(
                binary=found["etcd"].path,
                directory=self._state.etcd,
                port=port,
                log=self._state.log("etcd"),
                environment=bench.environment,
            )
        )
        self._started(etcd.process, found["etcd"].version, etcd.port)
        server = start_on_free_port(lambda port: ApiServer(self._management(bench, etcd, port)))
        self._started(server.process, found["kube-apiserver"].version, server.settings.port)
        self._launch(
            lambda port: components.controller_manager(bench, server, port), found["kube-controller-manager"].version
        )
        self._install_definitions(server, further, manifests)
        self._start_cluster_api(bench, server, manifests)
        self._started(self._launched(components.provider(bench, server, etcd.port)), found["kube-apiserver"].version, 0)
        if self.settings.operator:
            releases = self.settings.releases or private_directory(self._state.releases)
            self._launch(lambda port: components.operator(bench, server, port, releases.absolute()), "")

    def _management(self, bench: components.Components, etcd: Etcd, port: int) -> ApiServerSettings:
        return ApiServerSettings(
            name="management",
            binary=bench.binaries["kube-apiserver"].path,
            directory=self._state.management,
            etcd=etcd.access,
            prefix="/mgmt",
            port=port,
            log=self._state.log("management"),
            environment=bench.environment,
        )

    def _install_definitions(self, server: ApiServer, further: list[ThirdPartyCRD], manifests: list[Path]) -> None:
        ours = [*all_crds(), *definitions()]
        chosen = []
        if further:
            own = {crd["metadata"]["name"] for crd in ours}.union(*map(capi_managers.definition_names, manifests))
            chosen = [found.manifest for found in further if found.name not in own]
            if left := ", ".join(found.name for found in further if found.name in own):
                self._report(
                    f"the environment brings these definitions itself, those of the files are left out: {left}"
                )
        installation.install(server.kubeconfig_path, [*ours, *chosen])
        if chosen:
            self._report(f"{len(chosen)} definitions of other providers are served")

    def _start_cluster_api(self, bench: components.Components, server: ApiServer, manifests: list[Path]) -> None:
        for manager, directory in zip(self._managers, manifests, strict=True):
            started = start_manager(bench, server, manager, directory, rate_limits=self.settings.rate_limits)
            self._started(started.process, bench.binaries[manager.program].version, started.port)
            started.install_webhooks()

    def _launch(self, make: Callable[[int], Process], version: str) -> None:
        ports: list[int] = []

        def remember(port: int) -> Process:
            ports.append(port)
            return make(port)

        self._started(start_on_free_port(remember), version, ports[-1])

    def _launched(self, process: Process) -> Process:
        process.launch()
        return process

    def _started(self, process: Process, version: str, port: int) -> None:
        self._processes.append(process)
        self._record(process, version, port)
        where = f" on port {port}" if port else ""
        self._report(f"{process.name} {version}".rstrip() + f" is ready{where}")

    def _record(self, process: Process, version: str, port: int) -> None:
        record = process_records.ProcessRecord(
            name=process.name,
            pid=process.pid,
            identity=process_records.identity_of(process.pid),
            version=version,
            port=port,
            log=str(process.command.log),
        )
        process_records.write(self._state.records, record)

    def _note_end(self, process: Process, how: str) -> None:
        record = process_records.read(self._state.records, process.name)
        if record:
            with contextlib.suppress(OSError, ClusterStacksError):
                process_records.write(self._state.records, process_records.ended(record, how))
