from __future__ import annotations

import io
import json
import subprocess
import tarfile
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from clusterstacks.dev import processes, restart
from clusterstacks.dev.apiserver import ApiServerSettings, flags
from clusterstacks.dev.etcd import EtcdAccess
from clusterstacks.dev.node import cgroups, host_requirements, node_files, node_init, node_network, node_process
from clusterstacks.dev.node.node_network import NodeNetwork
from clusterstacks.dev.node.program_images import archive_layout, pause_program, write_image
from clusterstacks.dev.private_files import server_keys
from clusterstacks.dev.state_directory import StateDirectory
from clusterstacks.model.errors import DependencyError, SpecError

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


def test_an_api_server_with_a_node_listens_where_pods_reach_it(tmp_path: Path) -> None:
    settings = ApiServerSettings(
        name="management",
        binary=tmp_path,
        directory=tmp_path,
        etcd=EtcdAccess.at(1, tmp_path),
        prefix="/mgmt",
        port=6443,
    )
    network = NodeNetwork(203)
    found = flags(node_files.with_node(settings, network), server_keys(tmp_path / "keys"))
    last = dict(flag.partition("=")[::2] for flag in found)

    assert last["--bind-address"] == last["--advertise-address"] == "10.203.0.254"
    assert last["--service-cluster-ip-range"] == "10.203.2.0/24"
    assert last["--endpoint-reconciler-type"] == "lease"
    assert {"--authorization-mode=RBAC", "--authorization-mode=Node"} <= {*found}


@pytest.mark.parametrize(("age", "ready"), [(0, True), (-1, False)])
def test_a_report_of_an_earlier_run_does_not_make_a_node_ready(age: int, *, ready: bool) -> None:
    heartbeat = (NOW + timedelta(seconds=age)).strftime("%Y-%m-%dT%H:%M:%SZ")
    node = {"status": {"conditions": [{"type": "Ready", "status": "True", "lastHeartbeatTime": heartbeat}]}}

    assert node_process.is_ready_since(node, NOW) is ready


class Links:
    """Interfaces as ``ip`` shows them, with the alias of each."""

    def __init__(self) -> None:
        self.aliases: dict[str, str] = {}
        self.failing = ""

    def __call__(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        code, out, err = 0, "[]", ""
        match arguments:
            case _ if self.failing and self.failing in arguments:
                code, err = 2, "Operation not permitted"
            case ("link", "add", link, *_) if link in self.aliases:
                code, err = 2, "RTNETLINK answers: File exists"
            case ("link", "add", link, *_):
                self.aliases[link] = ""
            case ("link", "set", link, "alias", alias):
                self.aliases[link] = alias
            case ("link", "delete", link):
                self.aliases.pop(link, None)
            case ("-json", "link", "show", "dev", link):
                code = int(link not in self.aliases)
                out = json.dumps([{"ifname": link, "ifalias": self.aliases.get(link, "")}])
            case _:
                pass
        return subprocess.CompletedProcess(arguments, code, out, err)


@pytest.fixture
def links(monkeypatch: pytest.MonkeyPatch) -> Links:
    links = Links()
    monkeypatch.setattr(node_network, "_try", links)
    return links


def _environment(root: Path) -> StateDirectory:
    (root / "node").mkdir(parents=True)
    return StateDirectory(root)


def test_a_crashed_environment_leaves_the_node_of_another_one_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, links: Links
) -> None:
    monkeypatch.setattr(cgroups, "paths", lambda name: [tmp_path / name])
    crashed, other = _environment(tmp_path / "crashed"), _environment(tmp_path / "other")
    first = node_process.claim(crashed)
    links.aliases.clear()  # a reboot
    cgroups.remove([*first.cgroups])
    second = node_process.claim(other)
    assert second == first

    node_process.remove_traces(crashed)
    assert links.aliases == {second.network.link: str(other.root)}
    assert second.cgroups[0].is_dir()

    node_process.remove_traces(other)
    assert links.aliases == {}
    assert not second.cgroups[0].exists()


@pytest.mark.parametrize("failing", ["", "alias", "address"])
def test_a_node_that_cannot_be_claimed_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, links: Links, failing: str
) -> None:
    links.failing = failing
    made = tmp_path / "made"
    monkeypatch.setattr(cgroups, "paths", lambda _: [made, tmp_path / "missing" / "cgroup"])

    with pytest.raises(DependencyError, match=r"cannot be created|Operation not permitted"):
        node_process.claim(_environment(tmp_path / "state"))

    assert links.aliases == {}
    assert not made.exists()


def test_an_image_of_a_program_has_that_program_as_its_entry_point(tmp_path: Path) -> None:
    write_image(tmp_path / "image.tar", "registry.test/program:1", b"\x7fELF")

    with tarfile.open(tmp_path / "image.tar") as archive:
        files = {entry.name: archive.extractfile(entry) for entry in archive}
        content = {name: file.read() for name, file in files.items() if file}

    def blob(descriptor: dict[str, str]) -> bytes:
        return content["blobs/" + descriptor["digest"].replace(":", "/")]

    (entry,) = json.loads(content["index.json"])["manifests"]
    manifest = json.loads(blob(entry))
    assert entry["annotations"] == {"io.containerd.image.name": "registry.test/program:1"}
    assert json.loads(blob(manifest["config"]))["config"]["Entrypoint"] == ["/manager"]
    with tarfile.open(fileobj=io.BytesIO(blob(manifest["layers"][0]))) as layer:
        assert layer.getnames() == ["manager"]


def test_an_archive_of_a_layout_names_the_image_and_omits_its_sbom(tmp_path: Path) -> None:
    layout = tmp_path / "layout"
    (layout / "blobs" / "sha256").mkdir(parents=True)
    (layout / "blobs" / "sha256" / "0").write_bytes(b"blob")
    (layout / "oci-layout").write_text("{}")
    image = {"digest": "sha256:0", "annotations": {"org.opencontainers.image.ref.name": "0.1.0"}}
    (layout / "index.json").write_text(json.dumps({"manifests": [image, {"digest": "sha256:1"}]}))

    archive_layout(tmp_path / "image.tar", "registry.test/operator:1", layout)

    with tarfile.open(tmp_path / "image.tar") as archive:
        index = archive.extractfile("index.json")
        assert index is not None
        (entry,) = json.loads(index.read())["manifests"]
        assert "blobs/sha256/0" in archive.getnames()
    assert entry["annotations"] == {"io.containerd.image.name": "registry.test/operator:1"}
    with pytest.raises(SpecError, match="is not an image layout"):
        archive_layout(tmp_path / "other.tar", "any", tmp_path)


@pytest.mark.parametrize(("architecture", "machine"), [("amd64", 62), ("arm64", 183)])
def test_the_pause_program_is_an_executable_of_its_architecture(architecture: str, machine: int) -> None:
    program = pause_program(architecture)

    assert program[:4] == b"\x7fELF"
    assert int.from_bytes(program[18:20], "little") == machine


def test_the_memory_of_a_node_is_that_of_its_cgroup(tmp_path: Path) -> None:
    (tmp_path / "memory.stat").write_text("rss 1\ntotal_rss 4096\n")

    assert cgroups.resident_bytes([tmp_path / "cpu", tmp_path]) == 4096


def test_the_restart_of_a_node_is_awaited_as_long_as_its_start() -> None:
    assert restart.timeout_seconds(node_files.NAME) > node_process.TIMEOUT.total_seconds()
    assert restart.timeout_seconds("etcd") > processes.READY_TIMEOUT.total_seconds()


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


def test_cgroups_are_removed_with_those_below_them(tmp_path: Path) -> None:
    node = tmp_path / "memory" / "csnode200"
    (node / "kubepods" / "pod1").mkdir(parents=True)

    cgroups.remove_children([node])
    assert list(node.iterdir()) == []
    cgroups.remove([node, tmp_path / "gone"])
    assert not node.exists()
