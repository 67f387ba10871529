"""Records the state that a version leaves behind after the three demos: ``python -m tools.record 0.1.0``.

The commit of the version is in ``RELEASES``. Each demo runs in a checkout of that commit, with the environment that it
sets up there; names of demos after the version select them. A recording is taken once nothing in both clusters has
changed for longer than the operator needs to compare them, and then written to ``tests/replay/recorded``.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final

import yaml

from clusterstacks.dev import binaries, process_records
from clusterstacks.dev.etcd import EtcdAccess
from clusterstacks.dev.state_directory import state_directory
from clusterstacks.model.kinds.names import KUBECONFIG_SUFFIX
from tools.recordings import (
    IN_JSON,
    MANAGEMENT,
    PROJECT,
    RECORDED,
    RELEASES,
    WORKLOAD,
    commits,
    objects_in,
)

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping

    from clusterstacks.dev.state_directory import StateDirectory
    from clusterstacks.model.objects import Manifest

DEMOS: Final = {"demo": (), "ranges": ("--ranges",), "upgrade": ("--upgrade",)}
"""The options of ``csctl demo``, by the name of the recording."""
FURTHER_KINDS: Final = {"demo": PROJECT / "tools" / "further_kinds.yaml"}
"""Objects of kinds that no demo creates, by the recording that also gets them."""
CONTROL_PLANES: Final = "/local.clusterstack.x-k8s.io/localcontrolplanes/"
WORKERS: Final = re.compile(r"(machine(deployment|set)?|localmachine|localbootstrapconfig)s")
"""Resources of the workers of a cluster, which the operator does not read."""
QUIET_SECONDS: Final = 80
"""Time without a change: the operator compares the objects of a cluster each 60 s."""
DEADLINE_SECONDS: Final = 600
SERVER_MANAGERS: Final = ("kube-apiserver", "api-priority-and-fairness-", "kubernetes-service-cidr-controller")
"""Field managers of kube-apiserver."""
_SERVER: Final = """#!/bin/sh
exec {program} {flag} "$@"
"""


def record(version: str, demos: Collection[str]) -> None:
    """Run demos of a version, and write what they leave behind."""
    commit = commits(RELEASES.read_text())[version]
    with tempfile.TemporaryDirectory(prefix="record-") as scratch, _checkout(commit, Path(scratch)) as checkout:
        environment = {
            **os.environ,
            "XDG_STATE_HOME": f"{scratch}/state",
            "CLUSTERSTACKS_ASSETS": str(_programs(Path(scratch, "programs"))),
        }
        environment.pop("VIRTUAL_ENV", None)
        csctl = checkout / ".venv" / "bin" / "csctl"
        for name in demos:
            state = state_directory("demo", environment)
            try:
                subprocess.run([csctl, "demo", "--keep", *DEMOS[name]], env=environment, check=True)
                if name in FURTHER_KINDS:
                    kubectl = (csctl, "dev", "kubectl", "--name", "demo", "apply", "--filename", FURTHER_KINDS[name])
                    subprocess.run(kubectl, env=environment, check=True)
                _write(RECORDED / version / name, state, _settled(state))
            finally:
                subprocess.run([csctl, "dev", "down", "--name", "demo"], env=environment, check=True)


@contextmanager
def _checkout(commit: str, scratch: Path) -> Iterator[Path]:
    """Check the commit out, and set it up as its Makefile says."""
    checkout = scratch / "checkout"
    subprocess.run(["git", "worktree", "add", "--detach", checkout, commit], cwd=PROJECT, check=True)
    try:
        subprocess.run(["make", "setup"], cwd=checkout, check=True)
        yield checkout
    finally:
        subprocess.run(["git", "worktree", "remove", "--force", checkout], cwd=PROJECT, check=True)


def _programs(directory: Path) -> Path:
    """Write a kube-apiserver that stores every object as JSON; return its directory."""
    directory.mkdir()
    program = directory / "kube-apiserver"
    real = binaries.resolve(["kube-apiserver"])["kube-apiserver"].path
    program.write_text(_SERVER.format(program=real, flag=IN_JSON))
    program.chmod(0o755)
    return directory


def _settled(state: StateDirectory) -> dict[str, dict[str, Manifest]]:
    """Return the objects of both clusters once they do not change."""
    until = time.monotonic() + DEADLINE_SECONDS
    seen, since = _objects(state), time.monotonic()
    while time.monotonic() - since < QUIET_SECONDS:
        time.sleep(1)
        found = _objects(state)
        if found != seen:
            seen, since = found, time.monotonic()
        if time.monotonic() > until:
            sys.exit(f"the clusters of the demo still change after {DEADLINE_SECONDS} s")
    return seen


def _objects(state: StateDirectory) -> dict[str, dict[str, Manifest]]:
    etcd = process_records.read(state.records, "etcd")
    if etcd is None:
        sys.exit(f"no etcd runs in {state.root}")
    access = EtcdAccess.at(etcd.port, state.etcd)
    management = objects_in(access, "/mgmt")
    (cluster,) = [one for key, one in management.items() if key.startswith(CONTROL_PLANES)]
    workload = objects_in(access, f"/workload/{cluster['metadata']['uid']}")
    return {
        MANAGEMENT: {key: _public(one) for key, one in sorted(management.items()) if _is_read(key, one)},
        WORKLOAD: {key: one for key, one in sorted(workload.items()) if _is_lasting(key, one)},
    }


def _is_read(key: str, manifest: Manifest) -> bool:
    """Return whether the operator reads an object of the management cluster."""
    group, kind = key.split("/")[1:3]
    is_kubeconfig = group == "secrets" and manifest["metadata"]["name"].endswith(KUBECONFIG_SUFFIX)
    is_source = group == "configmaps" and kind == "default" and manifest["metadata"]["name"] != "kube-root-ca.crt"
    is_custom = group.endswith(".x-k8s.io") and not WORKERS.fullmatch(kind)
    return is_custom or group == "namespaces" or is_kubeconfig or is_source


def _public(manifest: Manifest) -> Manifest:
    """Remove the content of a kubeconfig; a replay writes that of its own server."""
    return manifest if manifest["kind"] != "Secret" else {**manifest, "data": {}}


def _is_lasting(key: str, manifest: Manifest) -> bool:
    """Return whether an API server that starts does not write this object itself; a namespace has a uid to keep."""
    managers = [one["manager"] for one in manifest["metadata"].get("managedFields", ())]
    return key.startswith("/namespaces/") or any(not one.startswith(SERVER_MANAGERS) for one in managers)


def _write(directory: Path, state: StateDirectory, objects: Mapping[str, Mapping[str, Manifest]]) -> None:
    if directory.exists():
        shutil.rmtree(directory)
    shutil.copytree(state.releases, directory / "releases")
    for name, found in objects.items():
        text = yaml.safe_dump(dict(found), width=120)
        if yaml.safe_load(text) != found:
            sys.exit(f"{name} does not survive YAML")
        (directory / name).write_text(text)


if __name__ == "__main__":
    record(sys.argv[1], sys.argv[2:] or [*DEMOS])
