from __future__ import annotations

import os
from pathlib import Path

import pytest

from clusterstacks.dev import inspection, process_records, supervisor, teardown
from clusterstacks.dev import restart as restarting
from clusterstacks.dev.binaries import silent
from clusterstacks.dev.environment import EnvironmentSettings
from clusterstacks.dev.installation import read_manifests
from clusterstacks.dev.state_directory import (
    EnvironmentPhase,
    StateDirectory,
    Summary,
    read_log,
    state_directory,
)
from clusterstacks.model.errors import DependencyError, SpecError


def test_state_directory_follows_xdg_state_home() -> None:
    assert state_directory("two", {"XDG_STATE_HOME": "/s"}).root == Path("/s/cluster-stacks/two")
    assert state_directory(environ={"HOME": "/h"}).root == Path("/h/.local/state/cluster-stacks/default")


@pytest.mark.parametrize("name", ["", "..", "a/b", "Ä", "-a", "a" * 41])
def test_invalid_environment_name_is_rejected(name: str) -> None:
    with pytest.raises(SpecError, match="is not a valid name of an environment"):
        state_directory(name, {"HOME": "/h"})


def test_directory_with_foreign_files_is_neither_used_nor_removed(tmp_path: Path) -> None:
    (tmp_path / "thesis.tex").write_text("years of work")
    state = StateDirectory(tmp_path)

    with pytest.raises(SpecError, match="contains files that do not belong to a local environment"):
        supervisor.run(EnvironmentSettings(state=state), silent, lambda: None)
    assert not teardown.down(state, silent)
    assert (tmp_path / "thesis.tex").exists()


def test_immediately_interrupted_start_leaves_no_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(supervisor, "_follow", interrupt)
    with pytest.raises(KeyboardInterrupt):
        supervisor.detach(EnvironmentSettings(state=StateDirectory(tmp_path / "states" / "one")), silent)
    assert list(tmp_path.iterdir()) == []


def test_summary_is_read_back(tmp_path: Path) -> None:
    state = StateDirectory(tmp_path / "new")
    assert state.read() is None
    written = Summary(phase=EnvironmentPhase.FAILED, message="because", pid=1, identity="x")
    state.write(written)
    assert state.read() == written
    state.marker.write_text('{"phase": "Unheard"}')
    assert state.read() is None


def test_the_detached_supervisor_gets_all_settings() -> None:
    settings = EnvironmentSettings(
        state=StateDirectory(Path("/s")),
        operator=False,
        releases=Path("/r"),
        clusters_from=(Path("/a"), Path("/b")),
        providers=("kubeadm",),
        definitions_from=(Path("/c"), Path("/d")),
        rate_limits=True,
    )

    assert supervisor._parse(supervisor._arguments(settings)) == settings
    plain = EnvironmentSettings(state=StateDirectory(Path("/s")))
    assert supervisor._parse(supervisor._arguments(plain)) == plain


def environment(tmp_path: Path, *, supervised: bool) -> StateDirectory:
    state = StateDirectory(tmp_path / "env")
    identity = process_records.identity_of(os.getpid()) if supervised else "gone"
    state.write(Summary(phase=EnvironmentPhase.RUNNING, pid=os.getpid(), identity=identity))
    return state


def test_exited_component_is_reported(tmp_path: Path) -> None:
    state = environment(tmp_path, supervised=True)
    etcd = process_records.ProcessRecord(name="etcd", pid=0, identity="x:1", ended="was ended by SIGKILL at 12:00:00")
    process_records.write(state.records, etcd)

    seen = inspection.inspect(state)

    assert seen is not None
    assert not seen.healthy
    assert seen.phase == "Degraded"
    assert seen.message.startswith("etcd was ended by SIGKILL at 12:00:00; 'csctl dev logs")
    assert seen.message.endswith(f"run 'csctl dev restart{state.options} etcd'")
    assert [component.running for component in seen.components] == [True, False]


@pytest.mark.regression("LIVE-L10")
def test_unknown_component_is_rejected_at_once(tmp_path: Path) -> None:
    state = environment(tmp_path, supervised=True)
    process_records.write(state.records, process_records.ProcessRecord(name="etcd", pid=0, identity="x:1"))
    process_records.write(state.records, process_records.ProcessRecord(name="default/prod", pid=0, identity="x:2"))

    with pytest.raises(SpecError, match="component default/prod cannot be restarted: choose one of etcd"):
        restarting.ask(state, restarting.RestartRequest("default/prod"))
    with pytest.raises(SpecError, match="etcd has no cache directory"):
        restarting.ask(state, restarting.RestartRequest("etcd", fresh_cache=True))
    with pytest.raises(SpecError, match="no environment is running in"):
        restarting.ask(environment(tmp_path / "two", supervised=False), restarting.RestartRequest("etcd"))


@pytest.mark.regression("LIVE-L10")
def test_failed_restart_is_reported_in_the_answer(tmp_path: Path) -> None:
    state = environment(tmp_path, supervised=True)
    asked: list[restarting.RestartRequest] = []

    def restart(request: restarting.RestartRequest) -> None:
        asked.append(request)
        raise DependencyError("ProcessFailed", "operator exited with code 1 while starting")

    restarting.serve(state, restart)
    state.restart_request.write_text("garbage")
    restarting.serve(state, restart)
    assert not asked
    state.restart_request.write_text('{"component": "operator", "fresh_cache": true}')
    restarting.serve(state, restart)

    assert asked == [restarting.RestartRequest("operator", fresh_cache=True)]
    assert not state.restart_request.exists()
    assert "exited with code 1" in state.restart_answer.read_text()


def test_missing_supervisor_is_reported(tmp_path: Path) -> None:
    seen = inspection.inspect(environment(tmp_path, supervised=False))

    assert seen is not None
    assert seen.message.startswith("the supervisor has ended")
    assert inspection.inspect(StateDirectory(tmp_path / "none")) is None


def test_down_removes_the_files_and_the_empty_parent_directory(tmp_path: Path) -> None:
    state = StateDirectory(tmp_path / "cluster-stacks" / "default")
    state.write(Summary(phase=EnvironmentPhase.RUNNING, pid=0, identity="gone"))

    assert teardown.down(state, silent)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("component", ["nope", "../../etc/passwd", "a/../../../x"])
def test_unknown_log_name_is_rejected_with_the_known_names(tmp_path: Path, component: str) -> None:
    state = environment(tmp_path, supervised=True)
    state.log("etcd").parent.mkdir()
    state.log("etcd").write_text("hello\n")

    with pytest.raises(SpecError, match=r"there are: etcd$"):
        "".join(read_log(state, component))
    assert "".join(read_log(state, "etcd")) == "hello\n"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("kind: X", "document 1 is not a Kubernetes object"),
        ("- a\n", "document 1 is not a Kubernetes object"),
        ("apiVersion: v1\nkind: X\nmetadata: {}\n", "document 1 is not a Kubernetes object"),
        ("apiVersion: v1\nkind: X\nmetadata: []\n", "document 1 is not a Kubernetes object"),
        ("a: [", r"clusters\.yaml"),
    ],
)
def test_file_without_objects_is_rejected(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "clusters.yaml"
    path.write_text(text)

    with pytest.raises(SpecError, match=message):
        read_manifests(path)


def test_empty_documents_are_skipped(tmp_path: Path) -> None:
    path = tmp_path / "clusters.yaml"
    path.write_text("---\n---\napiVersion: v1\nkind: Namespace\nmetadata: {name: a}\n---\n")

    assert [manifest["metadata"]["name"] for manifest in read_manifests(path)] == ["a"]
    with pytest.raises(SpecError, match="cannot be read: No such file"):
        read_manifests(tmp_path / "none.yaml")
