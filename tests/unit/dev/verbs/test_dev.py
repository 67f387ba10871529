from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import TYPE_CHECKING

import click
import pytest

from clusterstacks.dev import process_records, supervisor
from clusterstacks.dev.capi_managers import PROVIDERS
from clusterstacks.dev.environment import EnvironmentSettings
from clusterstacks.dev.state_directory import EnvironmentPhase, StateDirectory, Summary, state_directory
from clusterstacks.dev.toolchain import TOOLS
from clusterstacks.dev.verbs import dev
from tests.support.running.csctl import call_csctl

if TYPE_CHECKING:
    from pathlib import Path

HEAVY = ("aiohttp", "cryptography", "orjson", "pydantic", "rich", "yaml")


@pytest.fixture
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> StateDirectory:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    return state_directory()


@pytest.fixture
def running(state: StateDirectory) -> StateDirectory:
    pid = os.getpid()
    state.write(Summary(phase=EnvironmentPhase.RUNNING, pid=pid, identity=process_records.identity_of(pid)))
    record = process_records.ProcessRecord(
        name="etcd", pid=pid, identity=process_records.identity_of(pid), version="v3.6.14", port=20_001
    )
    process_records.write(state.records, record)
    return state


def test_help_imports_nothing_heavy() -> None:
    code = f"import sys, clusterstacks.csctl.main; print([name for name in {HEAVY!r} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert done.stdout == "[]\n"


@pytest.mark.parametrize("verb", ["up", "down", "status", "kubeconfig", "logs", "kubectl", "binaries"])
def test_every_verb_has_help(verb: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert call_csctl("dev", verb, "--help") == 0
    assert f"Usage: csctl dev {verb}" in capsys.readouterr().out


def test_options_are_passed_as_settings_of_the_environment(
    state: StateDirectory, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    started: list[EnvironmentSettings] = []
    monkeypatch.setattr(supervisor, "detach", lambda settings, _: started.append(settings))
    clusters = tmp_path / "clusters.yaml"
    clusters.touch()
    parts = ["--with=kubeadm", "--with=workloads", "--with=openstack"]
    options = [*parts, f"--crds={tmp_path}", f"--crds={tmp_path}", f"--release-dir={tmp_path}"]

    assert call_csctl("dev", "up", "--detach") == 0
    assert (
        call_csctl("dev", "up", "-d", "--no-operator", "--default-rate-limits", f"--clusters-from={clusters}", *options)
        == 0
    )

    plain, full = started
    assert plain == EnvironmentSettings(state=state)
    assert full == EnvironmentSettings(
        state=state,
        operator=False,
        releases=tmp_path,
        clusters_from=(clusters,),
        providers=("kubeadm",),
        definitions_from=(tmp_path, tmp_path),
        rate_limits=True,
        workloads=True,
        openstack=True,
    )


def test_every_choice_of_with_has_provider_managers_or_is_a_part_of_csctl_dev() -> None:
    (choice,) = (option for option in dev.up.params if option.name == "parts")

    assert isinstance(choice.type, click.Choice)
    assert set(choice.type.choices) == {*PROVIDERS, dev.WORKLOADS, dev.OPENSTACK}


@pytest.mark.usefixtures("state")
@pytest.mark.parametrize("verb", [["status"], ["kubeconfig"], ["restart"], ["kubectl", "get", "pods"]])
def test_missing_environment_is_reported_with_a_remedy(verb: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert call_csctl("dev", *verb) == 2
    assert "there is no environment in " in (shown := capsys.readouterr().err)
    assert "start one with 'csctl dev up'" in shown
    assert call_csctl("dev", *verb[:1], "--name=two", *verb[1:]) == 2
    assert "start one with 'csctl dev up --name two'" in capsys.readouterr().err


@pytest.mark.usefixtures("state")
def test_down_without_an_environment_succeeds(capsys: pytest.CaptureFixture[str]) -> None:
    assert call_csctl("dev", "down") == 0
    assert "there is no environment" in capsys.readouterr().out


@pytest.mark.usefixtures("running")
def test_status_shows_each_process_and_the_open_port(capsys: pytest.CaptureFixture[str]) -> None:
    assert call_csctl("dev", "status") == 0
    shown = capsys.readouterr().out
    assert "COMPONENT" in shown
    assert "v3.6.14   20001" in shown
    assert "Cluster API's webhook ports listen on all interfaces" in shown


@pytest.mark.usefixtures("running")
def test_status_prints_json(capsys: pytest.CaptureFixture[str]) -> None:
    assert call_csctl("dev", "status", "--output", "json") == 0
    document = json.loads(capsys.readouterr().out)
    assert document["healthy"] is True
    assert [component["name"] for component in document["components"]] == ["supervisor", "etcd"]


def test_status_fails_if_a_process_is_not_running(running: StateDirectory, capsys: pytest.CaptureFixture[str]) -> None:
    process_records.write(
        running.records,
        process_records.ProcessRecord(name="provider", pid=1, identity="x:1", ended="exited with code 1"),
    )

    assert call_csctl("dev", "status") == 1
    assert "Degraded: provider exited with code 1; 'csctl dev logs" in (shown := capsys.readouterr().out)
    assert "run 'csctl dev restart" in shown


def test_kubeconfig_is_printed_for_the_management_or_a_workload_cluster(
    running: StateDirectory, capsys: pytest.CaptureFixture[str]
) -> None:
    for path, text in ((running.kubeconfig, "mgmt"), (running.cluster_kubeconfig("default", "prod"), "prod")):
        path.parent.mkdir(parents=True)
        path.write_text(text)

    assert call_csctl("dev", "kubeconfig") == call_csctl("dev", "kubeconfig", "--cluster", "default/prod") == 0
    assert capsys.readouterr().out == "mgmtprod"
    assert call_csctl("dev", "kubeconfig", "--cluster", "default/other") == 2
    assert "there is no workload cluster default/other (yet)" in capsys.readouterr().err


def test_kubectl_gets_all_further_arguments(running: StateDirectory, monkeypatch: pytest.MonkeyPatch) -> None:
    assets = running.root / "assets"
    assets.mkdir()
    fake = assets / "kubectl"
    fake.write_text(f"#!/bin/sh\necho Client Version: {TOOLS['kubectl'].version}\n")
    fake.chmod(0o755)
    monkeypatch.setenv("CLUSTERSTACKS_ASSETS", str(assets))
    called: list[tuple[object, ...]] = []
    monkeypatch.setattr(os, "execve", lambda *arguments: called.append(arguments))

    assert call_csctl("dev", "kubectl", "--name", "default", "get", "pods", "--name", "x", "-o=yaml", "--help") == 0
    (program, arguments, environ), *_ = called
    assert program == fake
    assert arguments == [str(fake), "get", "pods", "--name", "x", "-o=yaml", "--help"]
    assert isinstance(environ, dict)
    assert environ["KUBECONFIG"] == str(running.kubeconfig)


def test_a_second_environment_in_the_same_place_is_refused(
    running: StateDirectory, capsys: pytest.CaptureFixture[str]
) -> None:
    assert call_csctl("dev", "up", "--detach") == 2
    assert f"an environment is running in {running.root}" in capsys.readouterr().err


def test_directory_with_foreign_files_is_not_written_to(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "passwd").touch()

    assert call_csctl("dev", "up", "--detach", "--state-dir", str(tmp_path)) == 2
    assert "contains files that do not belong to a local environment" in capsys.readouterr().err
    assert [path.name for path in tmp_path.iterdir()] == ["passwd"]


@pytest.mark.usefixtures("state")
@pytest.mark.parametrize(
    ("arguments", "option"),
    [((), ""), (("--name", "two"), " --name two"), (("--state-dir", "/srv/env"), " --state-dir /srv/env")],
)
def test_hints_contain_the_options_of_the_environment(
    arguments: tuple[str, ...],
    option: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(supervisor, "detach", lambda *_: None)

    assert call_csctl("dev", "up", "-d", *arguments) == 0
    shown = capsys.readouterr().out
    assert f"csctl dev status{option}\n" in shown
    assert f"'csctl dev down{option}' ends it" in shown
