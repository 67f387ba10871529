from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from clusterstacks.devcluster import components
from clusterstacks.devcluster.apiserver import ApiServer, ApiServerSettings
from clusterstacks.devcluster.binaries import Binary
from clusterstacks.devcluster.capi_managers import CORE, PROVIDERS
from clusterstacks.devcluster.etcd import Etcd
from clusterstacks.devcluster.state_directory import StateDirectory
from clusterstacks.devcluster.toolchain import TOOLS

if TYPE_CHECKING:
    from pathlib import Path

    from clusterstacks.devcluster.capi_managers import Manager
    from clusterstacks.devcluster.processes import Process


@pytest.fixture
def bench(tmp_path: Path) -> components.Components:
    binaries = {name: Binary(name, tool.version, "test", tmp_path / name) for name, tool in TOOLS.items()}
    return components.Components(StateDirectory(tmp_path / "state"), binaries)


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
    bench: components.Components, server: ApiServer, manager: Manager, port: int, *, rate_limits: bool = False
) -> Process:
    return components.cluster_api_manager(bench, server, manager, port, rate_limits=rate_limits)


def flags(process: Process) -> dict[str, str]:
    return dict(argument.partition("=")[::2] for argument in process.command.argv if argument.startswith("--"))


def test_every_address_is_the_loopback_address(bench: components.Components, etcd: Etcd, server: ApiServer) -> None:
    everything = [
        etcd.process,
        server.process,
        components.controller_manager(bench, server, 20_003),
        *(cluster_api_manager(bench, server, manager, 20_004) for manager in (CORE, *PROVIDERS["kubeadm"])),
        components.operator(bench, server, 20_005, bench.state.root),
    ]
    for process in everything:
        for name, value in flags(process).items():
            if "address" in name or "-addr" in name or "url" in name:
                assert "127.0.0.1" in value, f"{process.name} {name}"


def test_an_api_server_ends_with_the_flags_of_its_settings(server: ApiServer) -> None:
    assert server.process.command.argv[-1] == "--last=1"
    assert flags(server.process)["--anonymous-auth"] == "false"
    assert server.kubeconfig["current-context"] == "management-admin@management"


def test_rate_limits_are_kept_on_request(bench: components.Components, server: ApiServer) -> None:
    quick = flags(cluster_api_manager(bench, server, CORE, 1))["--feature-gates"]
    slow = flags(cluster_api_manager(bench, server, CORE, 1, rate_limits=True))["--feature-gates"]

    assert quick == "ClusterTopology=true,RuntimeSDK=true,ReconcilerRateLimiting=false"
    assert slow == "ClusterTopology=true,RuntimeSDK=true"


def test_managers_keep_their_certificates_and_logs_apart(bench: components.Components, server: ApiServer) -> None:
    processes = [cluster_api_manager(bench, server, manager, 1) for manager in (CORE, *PROVIDERS["kubeadm"])]

    assert len({flags(process)["--webhook-cert-dir"] for process in processes}) == 3
    assert len({process.command.log for process in processes}) == 3
    assert len({process.command.argv[0] for process in processes}) == 3


def test_processes_carry_the_mark_down_looks_for(bench: components.Components, server: ApiServer) -> None:
    process = components.controller_manager(bench, server, 1)

    assert process.command.environment == {"CLUSTERSTACKS_ENVIRONMENT": str(bench.state.root)}


def test_the_operator_accepts_the_flags_it_is_started_with(bench: components.Components, server: ApiServer) -> None:
    settings = pytest.importorskip("clusterstacks.operator.settings")
    process = components.operator(bench, server, 20_005, bench.state.root)
    arguments = process.command.argv[3:]

    parsed = settings.parse_settings(arguments)
    assert parsed.probe_address == ("127.0.0.1", 20_005)
    assert (parsed.election.namespace, parsed.election.identity) == ("default", "csctl-dev")
