from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from clusterstacks.model.errors import SpecError
from tests.support.node import host_requirements, node_init, node_process
from tests.support.node.program_images import pause_program

NOW = datetime(2026, 1, 1, tzinfo=UTC)


def test_a_machine_without_the_parts_of_a_node_is_refused_with_all_reasons(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr("os.geteuid", lambda: 1000)
    monkeypatch.setattr(host_requirements, "CGROUPS", tmp_path)
    monkeypatch.setattr(host_requirements, "PLUGIN_DIRECTORIES", (tmp_path,))

    with pytest.raises(SpecError) as refused:
        host_requirements.require_host(Path("/var/cache/programs"), tmp_path)

    assert "/run, /var, and does not see /var/cache/programs" in refused.value.message
    for reason in ("root", "no writable cgroup v1 hierarchy of blkio", "containerd", "CNI plugins", "nft nor iptables"):
        assert reason in refused.value.message
    assert host_requirements.PACKAGES in refused.value.message


@pytest.mark.parametrize(("age", "ready"), [(0, True), (-1, False)])
def test_a_report_of_an_earlier_run_does_not_make_a_node_ready(age: int, *, ready: bool) -> None:
    heartbeat = (NOW + timedelta(seconds=age)).strftime("%Y-%m-%dT%H:%M:%SZ")
    node = {"status": {"conditions": [{"type": "Ready", "status": "True", "lastHeartbeatTime": heartbeat}]}}

    assert node_process.is_ready_since(node, NOW) is ready


@pytest.mark.parametrize(("architecture", "machine"), [("amd64", 62), ("arm64", 183)])
def test_the_pause_program_is_an_executable_of_its_architecture(architecture: str, machine: int) -> None:
    program = pause_program(architecture)

    assert program[:4] == b"\x7fELF"
    assert int.from_bytes(program[18:20], "little") == machine


def test_controllers_that_systemd_mounts_together_are_one_hierarchy_with_links(tmp_path: Path) -> None:
    for name in ("memory", "cpu,cpuacct", "unified"):
        (tmp_path / name).mkdir()
    for name in ("memory", "cpu,cpuacct"):
        (tmp_path / name / "cgroup.clone_children").touch()
    for name in ("cpu", "cpuacct"):
        (tmp_path / name).symlink_to("cpu,cpuacct")

    hierarchies, links = node_init.cgroup_layout(tmp_path)

    assert sorted(hierarchies) == ["cpu,cpuacct", "memory"]
    assert links == {"cpu": "cpu,cpuacct", "cpuacct": "cpu,cpuacct"}
