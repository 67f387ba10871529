from __future__ import annotations

import base64
import json
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from cryptography import x509

from clusterstacks.dev import components, kube_components
from clusterstacks.dev.apiserver import ApiServer, ApiServerSettings
from clusterstacks.dev.binaries import Binary
from clusterstacks.dev.capi_managers import CORE, PROVIDERS
from clusterstacks.dev.etcd import Etcd
from clusterstacks.dev.kube_components import Components
from clusterstacks.dev.provider import workload_components
from clusterstacks.dev.state_directory import StateDirectory
from clusterstacks.dev.toolchain import TOOLS, WORKLOAD_CLUSTER, WORKLOADS
from clusterstacks.operator.settings import parse_settings

if TYPE_CHECKING:
    from clusterstacks.dev.capi_managers import Manager
    from clusterstacks.dev.processes import Process


@pytest.fixture
def bench(tmp_path: Path) -> Components:
    binaries = {name: Binary(name, tool.version, "test", tmp_path / name) for name, tool in TOOLS.items()}
    return Components(StateDirectory(tmp_path / "state"), binaries)


@pytest.fixture
def etcd(tmp_path: Path) -> Etcd:
    return Etcd(binary=tmp_path / "etcd", directory=tmp_path / "etcd-data", port=20_001)


@pytest.fixture
def server(tmp_path: Path, etcd: Etcd) -> ApiServer:
    return ApiServer(
        ApiServerSettings(
            name="management",
            binary=tmp_path / "kube-apiserver",
            directory=tmp_path / "management",
            etcd=etcd.access,
            prefix="/mgmt",
            port=20_002,
            flags=("--last=1",),
        )
    )


def cluster_api_manager(
    bench: Components, server: ApiServer, manager: Manager, port: int, *, rate_limits: bool = False
) -> Process:
    return components.cluster_api_manager(bench, server, manager, port, rate_limits=rate_limits)


def flags(process: Process) -> dict[str, str]:
    return dict(argument.partition("=")[::2] for argument in process.command.argv if argument.startswith("--"))


def simulated(bench: Components, server: ApiServer) -> list[Process]:
    """The processes beside the API server of a workload cluster."""
    cluster = replace(bench, cluster="default/prod")
    return [make(cluster, server, 20_006) for _, make in workload_components._COMPONENTS.values()]


def test_every_process_uses_loopback_addresses(bench: Components, etcd: Etcd, server: ApiServer) -> None:
    everything = [
        *simulated(bench, server),
        etcd.process,
        server.process,
        kube_components.controller_manager(bench, server, 20_003),
        *(cluster_api_manager(bench, server, manager, 20_004) for manager in (CORE, *PROVIDERS["kubeadm"])),
        components.operator(bench, server, 20_005, bench.state.root),
        components.image_controller(bench, server, 20_007),
    ]
    for process in everything:
        for name, value in flags(process).items():
            if "address" in name or "-addr" in name or "url" in name:
                assert "127.0.0.1" in value, f"{process.name} {name}"


def test_flags_of_the_settings_are_last_for_the_api_server(server: ApiServer) -> None:
    assert server.process.command.argv[-1] == "--last=1"
    assert flags(server.process)["--anonymous-auth"] == "false"
    assert server.kubeconfig["current-context"] == "management-admin@management"


def test_rate_limits_are_kept_on_request(bench: Components, server: ApiServer) -> None:
    quick = flags(cluster_api_manager(bench, server, CORE, 1))["--feature-gates"]
    slow = flags(cluster_api_manager(bench, server, CORE, 1, rate_limits=True))["--feature-gates"]

    assert quick == "ClusterTopology=true,RuntimeSDK=true,ReconcilerRateLimiting=false"
    assert slow == "ClusterTopology=true,RuntimeSDK=true"


def test_managers_keep_their_certificates_and_logs_apart(bench: Components, server: ApiServer) -> None:
    processes = [cluster_api_manager(bench, server, manager, 1) for manager in (CORE, *PROVIDERS["kubeadm"])]

    assert len({flags(process)["--webhook-cert-dir"] for process in processes}) == 3
    assert len({process.command.log for process in processes}) == 3
    assert len({process.command.argv[0] for process in processes}) == 3


def test_components_of_a_cluster_are_named_after_it_and_keep_their_files_in_its_directory(
    bench: Components, server: ApiServer
) -> None:
    processes = simulated(bench, server)

    assert [process.name for process in processes] == [
        f"default/prod/{name}" for name in ("controller-manager", "scheduler", "kwok")
    ]
    directory = bench.state.clusters / "default" / "prod"
    assert {process.command.log.parent for process in processes} == {directory}
    assert flags(processes[2])["--config"] == str(directory / "kwok" / "kwok.yaml")
    assert flags(processes[0])["--tls-cert-file"] == str(directory / "controller-manager" / "tls.crt")


def test_simulated_components_have_the_minor_of_their_server(bench: Components, server: ApiServer) -> None:
    older = ApiServer(replace(server.settings, emulated_version="1.34"))

    versions = [flags(process).get("--emulated-version") for process in (older.process, *simulated(bench, older))]
    assert versions == ["1.34", "1.34", "1.34", None]
    assert "--emulated-version" not in flags(kube_components.scheduler(bench, server, 1))


def test_the_provider_gets_the_programs_for_pods_on_request(bench: Components, server: ApiServer) -> None:
    def programs(process: Process) -> list[str]:
        arguments = [argument for argument in process.command.argv if argument.startswith("--program=")]
        return [argument.split("=")[1] for argument in arguments]

    always = [*WORKLOAD_CLUSTER]
    assert programs(components.provider(bench, server, 1)) == always
    assert programs(components.provider(bench, server, 1, workloads=True)) == [*always, *WORKLOADS]


def test_a_workload_cluster_without_pods_has_only_the_controller_of_namespaces(
    bench: Components, server: ApiServer
) -> None:
    def controllers(bench: Components) -> str:
        _, make = workload_components._COMPONENTS["controller-manager"]
        return flags(make(bench, server, 1))["--controllers"]

    without = {name: bench.binaries[name] for name in WORKLOAD_CLUSTER}
    assert controllers(replace(bench, binaries=without)) == "namespace-controller"
    assert controllers(bench) == "*"


def test_processes_have_the_mark_that_down_searches_for(bench: Components, server: ApiServer) -> None:
    process = kube_components.controller_manager(bench, server, 1)

    assert process.command.environment == {"CLUSTERSTACKS_ENVIRONMENT": str(bench.state.root)}


def test_the_operator_accepts_the_flags_it_is_started_with(bench: Components, server: ApiServer) -> None:
    process = components.operator(bench, server, 20_005, bench.state.root)
    arguments = process.command.argv[3:]

    parsed = parse_settings(arguments)
    assert parsed.probe_address == ("127.0.0.1", 20_005)
    assert parsed.election is not None
    assert (parsed.election.namespace, parsed.election.identity) == ("default", "csctl-dev")


def test_orc_has_the_rights_of_its_own_role_only(bench: Components, server: ApiServer, tmp_path: Path) -> None:
    (tmp_path / "crds").mkdir()
    (tmp_path / "crds" / "images.yaml").write_text("{kind: CustomResourceDefinition, metadata: {name: images}}")
    (tmp_path / "role.yaml").write_text(
        "{apiVersion: rbac.authorization.k8s.io/v1, kind: ClusterRole, metadata: {name: manager-role}, rules: []}"
    )

    definition, role, binding = components.image_controller_objects(tmp_path)
    process = components.image_controller(bench, server, 20_007)

    assert definition["metadata"] == {"name": "images"}
    assert (role["metadata"]["name"], binding["roleRef"]["name"]) == ("orc", "orc")
    (user,) = json.loads(Path(flags(process)["--kubeconfig"]).read_bytes())["users"]
    certificate = x509.load_pem_x509_certificate(base64.b64decode(user["user"]["client-certificate-data"]))
    assert certificate.subject.rfc4514_string() == f"CN={binding['subjects'][0]['name']}"
