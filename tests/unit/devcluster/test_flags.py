from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from clusterstacks.devcluster import components
from clusterstacks.devcluster.apiserver import ApiServer, ApiServerSettings
from clusterstacks.devcluster.binaries import Binary
from clusterstacks.devcluster.etcd import Etcd
from clusterstacks.devcluster.programs import TOOLS
from clusterstacks.devcluster.state import StateDirectory

if TYPE_CHECKING:
    from pathlib import Path

    from clusterstacks.devcluster.processes import Process


@pytest.fixture
def bench(tmp_path: Path) -> components.Workbench:
    binaries = {name: Binary(name, tool.version, "test", tmp_path / name) for name, tool in TOOLS.items()}
    return components.Workbench(StateDirectory(tmp_path / "state"), binaries)


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


def flags(process: Process) -> dict[str, str]:
    return dict(argument.partition("=")[::2] for argument in process.command.argv if argument.startswith("--"))


def test_every_address_is_the_loopback_address(bench: components.Workbench, etcd: Etcd, server: ApiServer) -> None:
    everything = [
        etcd.process,
        server.process,
        components.controller_manager(bench, server, 20_003),
        components.core_manager(bench, server, 20_004, rate_limits=False),
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


def test_rate_limits_are_kept_on_request(bench: components.Workbench, server: ApiServer) -> None:
    quick = flags(components.core_manager(bench, server, 1, rate_limits=False))["--feature-gates"]
    slow = flags(components.core_manager(bench, server, 1, rate_limits=True))["--feature-gates"]

    assert quick == "ClusterTopology=true,RuntimeSDK=true,ReconcilerRateLimiting=false"
    assert slow == "ClusterTopology=true,RuntimeSDK=true"


def test_processes_carry_the_mark_down_looks_for(bench: components.Workbench, server: ApiServer) -> None:
    process = components.controller_manager(bench, server, 1)

    assert process.command.environment == {"CLUSTERSTACKS_ENVIRONMENT": str(bench.state.root)}


def test_the_operator_accepts_the_flags_it_is_started_with(bench: components.Workbench, server: ApiServer) -> None:
    settings = pytest.importorskip("clusterstacks.operator.settings")
    process = components.operator(bench, server, 20_005, bench.state.root)
    arguments = process.command.argv[3:]

    assert settings.parse_settings(arguments).probe_address == ("127.0.0.1", 20_005)
