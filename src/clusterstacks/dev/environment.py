"""Starts the local environment in order, watches it, and stops it.

etcd, management API server, controller manager, definitions, Cluster API, its webhooks, provider, OpenStack, operator.
Webhook configurations follow the manager that serves them: until it answers, every write to its kinds would fail.
"""

from __future__ import annotations

import contextlib
import time
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import TYPE_CHECKING

from clusterstacks.dev import (
    binaries,
    capi_managers,
    components,
    installation,
    kube_components,
    openstack,
    process_records,
)
from clusterstacks.dev import restart as restarting
from clusterstacks.dev.apiserver import ApiServer, ApiServerSettings
from clusterstacks.dev.etcd import Etcd
from clusterstacks.dev.loopback import LOOPBACK
from clusterstacks.dev.private_files import private_directory
from clusterstacks.dev.processes import Process, describe_exit, start_on_free_port
from clusterstacks.dev.provider.kinds import definitions
from clusterstacks.dev.third_party_crds import read_definitions
from clusterstacks.dev.toolchain import WORKLOADS
from clusterstacks.model.errors import ClusterStacksError, SpecError
from clusterstacks.model.kinds.crd_manifests import all_crds

if TYPE_CHECKING:
    import threading
    from collections.abc import Callable
    from pathlib import Path

    from clusterstacks.dev.capi_managers import Manager
    from clusterstacks.dev.state_directory import StateDirectory
    from clusterstacks.dev.third_party_crds import ThirdPartyCRD

WATCH_SECONDS = 0.3
"""Interval at which ended processes are looked for."""
CLIENT_GRACE = timedelta(seconds=6)
"""Grace period for operator and provider; API servers and etcd are killed because their data is deleted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EnvironmentSettings:
    """Settings of an environment."""

    state: StateDirectory
    operator: bool = True
    releases: Path | None = None
    """Directory of the operator's releases; None means ``releases`` in the state directory."""
    clusters_from: tuple[Path, ...] = ()
    """YAML files applied last, in this order."""
    providers: tuple[str, ...] = ()
    """Additional managers of Cluster API, by their names in ``capi_managers.PROVIDERS``."""
    definitions_from: tuple[Path, ...] = ()
    """Directories with CRDs of other providers, installed first."""
    rate_limits: bool = False
    """Keep Cluster API's default of one reconcile per second and object; False is faster."""
    workloads: bool = False
    """Whether workload clusters have controllers, a scheduler and simulated kubelets."""
    openstack: bool = False
    """Whether Keystone, Glance and the OpenStack Resource Controller run."""


class Environment:
    """The processes of one environment, as children of this process."""

    def __init__(self, settings: EnvironmentSettings, report: Callable[[str], None]) -> None:
        self.settings = settings
        self._state = settings.state
        self._report = report
        self._managers = capi_managers.chosen(settings.providers)
        self._processes: list[Process] = []

    def start(self) -> None:
        """Start all processes; after a failure none is left running.

        Raises:
            ClusterStacksError: The message names the component and ends with the last lines of its log.
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
        """Report processes that end by themselves until ``stop`` is set; they are restarted only on request."""
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
        """Restart a component with the same arguments.

        Raises:
            ProcessError: It does not start.
            SpecError: No component has this name.
        """
        process = next((one for one in self._processes if one.name == request.component), None)
        if process is None:
            raise SpecError("ComponentUnknown", f"component {request.component} does not exist")
        before = process_records.read(self._state.records, process.name)
        process.stop(CLIENT_GRACE)
        if request.fresh_cache:
            restarting.emptied(self._state.operator_cache)
        process.launch()
        self._record(process, before.version if before else "", before.port if before else 0)
        self._report(f"{process.name} was restarted")

    def stop(self) -> None:
        """Stop every process: first those that use the API server, in order, then the others at once."""
        servers = {"etcd", "management"}
        for process in reversed(self._processes):
            process.stop(timedelta(0) if process.name in servers else CLIENT_GRACE)
            process_records.remove(self._state.records, process.name)
        self._processes.clear()

    def _start(self, further: list[ThirdPartyCRD]) -> None:
        workloads = self.settings.workloads
        orc = (capi_managers.ORC,) if self.settings.openstack else ()
        programs = (*capi_managers.programs_of((*self._managers, *orc)), *(WORKLOADS if workloads else ()))
        found = binaries.resolve(programs, report=self._report)
        bench = kube_components.Components(self._state, found)
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
        settings = self._management(bench, etcd)
        server = start_on_free_port(lambda port: ApiServer(replace(settings, port=port)))
        self._started(server.process, found["kube-apiserver"].version, server.settings.port)
        self._launch(
            lambda port: kube_components.controller_manager(bench, server, port),
            found["kube-controller-manager"].version,
        )
        self._install_definitions(server, further, manifests)
        self._start_cluster_api(bench, server, manifests)
        provider = components.provider(bench, server, etcd.port, workloads=workloads)
        provider.launch()
        self._started(provider, found["kube-apiserver"].version, 0)
        if self.settings.openstack:
            self._start_openstack(bench, server)
        if self.settings.operator:
            releases = self.settings.releases or private_directory(self._state.releases)
            self._launch(lambda port: components.operator(bench, server, port, releases.absolute()), "")

    def _management(self, bench: kube_components.Components, etcd: Etcd) -> ApiServerSettings:
        return ApiServerSettings(
            name="management",
            binary=bench.binaries["kube-apiserver"].path,
            directory=self._state.management,
            etcd=etcd.access,
            prefix="/mgmt",
            port=0,
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
                    f"the environment installs its own version of these CRDs and skips those of the files: {left}"
                )
        installation.install(server.kubeconfig_path, [*ours, *chosen])
        if chosen:
            self._report(f"{len(chosen)} CRDs of other providers are served")

    def _start_cluster_api(self, bench: kube_components.Components, server: ApiServer, manifests: list[Path]) -> None:
        for manager, directory in zip(self._managers, manifests, strict=True):
            started = start_manager(bench, server, manager, directory, rate_limits=self.settings.rate_limits)
            self._started(started.process, bench.binaries[manager.program].version, started.port)
            started.install_webhooks()

    def _start_openstack(self, bench: kube_components.Components, server: ApiServer) -> None:
        cloud = openstack.OpenStack(bench, openstack.installed(self._report))
        cloud.prepare()
        keystone = self._launch(cloud.keystone, openstack.version(openstack.KEYSTONE))
        glance = self._launch(lambda port: cloud.glance(port, keystone), openstack.version(openstack.GLANCE))
        cloud.create_accounts(keystone, glance)
        manifests = capi_managers.manifests(capi_managers.ORC, report=self._report)
        objects = [*components.image_controller_objects(manifests), cloud.secret("default")]
        installation.install(server.kubeconfig_path, objects)
        version = bench.binaries[capi_managers.ORC.program].version
        self._launch(lambda port: components.image_controller(bench, server, port), version)

    def _launch(self, make: Callable[[int], Process], version: str) -> int:
        ports: list[int] = []

        def remember(port: int) -> Process:
            ports.append(port)
            return make(port)

        self._started(start_on_free_port(remember), version, ports[-1])
        return ports[-1]

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


@dataclass(frozen=True, slots=True, kw_only=True)
class ManagerServer:
    """A manager with its CRDs and webhook configurations, which contain its port."""

    manager: Manager
    process: Process
    manifests: Path
    server: ApiServer
    port: int

    def launch(self) -> None:
        """Install the CRDs, start the manager and return once its webhooks answer.

        Raises:
            ClusterStacksError: The API server rejects them, or the manager does not start.
        """
        definitions = capi_managers.definitions(self.manifests, self._url, self._authority)
        installation.install(self.server.kubeconfig_path, definitions)
        self.process.launch()

    def install_webhooks(self) -> None:
        """Install the webhook configurations of the running manager; errors as ``launch``.

        Before the manager answers, they would make every write to its kinds fail.
        """
        found = capi_managers.webhook_configurations(self.manager, self.manifests, self._url, self._authority)
        installation.install(self.server.kubeconfig_path, found)

    @property
    def _url(self) -> str:
        return f"https://{LOOPBACK}:{self.port}"

    @property
    def _authority(self) -> bytes:
        return self.server.keys.authority.certificate.read_bytes()


def start_manager(
    bench: kube_components.Components, server: ApiServer, manager: Manager, manifests: Path, *, rate_limits: bool
) -> ManagerServer:
    """Start a manager on a free port; its webhook configurations are installed later."""

    def make(port: int) -> ManagerServer:
        process = components.cluster_api_manager(bench, server, manager, port, rate_limits=rate_limits)
        return ManagerServer(manager=manager, process=process, manifests=manifests, server=server, port=port)

    return start_on_free_port(make)
