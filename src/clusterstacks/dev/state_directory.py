"""The state directory of an environment: its paths, its summary and its logs."""

from __future__ import annotations

import dataclasses
import json
import os
import re
import time
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING

from clusterstacks.dev import process_records
from clusterstacks.dev.private_files import private_directory, write_private
from clusterstacks.model.errors import SpecError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

MARKER_VARIABLE = "CLUSTERSTACKS_ENVIRONMENT"
"""Environment variable with the state directory in every process, so that ``down`` also finds unrecorded ones."""


class EnvironmentPhase(StrEnum):
    """Phase of an environment."""

    STARTING = "Starting"
    RUNNING = "Running"
    STOPPING = "Stopping"
    FAILED = "Failed"


@dataclass(frozen=True, slots=True, kw_only=True)
class Summary:
    """The environment's state as its supervisor writes it; ``pid`` and ``identity`` are the supervisor's."""

    phase: EnvironmentPhase
    message: str = ""
    pid: int = 0
    identity: str = ""


@dataclass(frozen=True, slots=True)
class StateDirectory:
    """Paths below the state directory of one environment."""

    root: Path

    @property
    def marker(self) -> Path:
        """The summary; a directory without it is not an environment."""
        return self.root / "environment.json"

    @property
    def lock(self) -> Path:
        """Lock that the supervisor holds while it runs."""
        return self.root / "lock"

    @property
    def supervisor_log(self) -> Path:
        """Log of a detached supervisor."""
        return self.root / "supervisor.log"

    @property
    def records(self) -> Path:
        """Directory with one file per running process."""
        return self.root / "run"

    @property
    def operator_cache(self) -> Path:
        """The operator's cache directory."""
        return self.root / "operator-cache"

    @property
    def restart_request(self) -> Path:
        """Request of ``csctl dev restart``; the supervisor removes it."""
        return self.root / "restart-request.json"

    @property
    def restart_answer(self) -> Path:
        """Answer of the supervisor."""
        return self.root / "restart-answer.json"

    @property
    def provider_ready(self) -> Path:
        """File that the provider writes when it has seen every existing object."""
        return self.root / "provider-ready"

    @property
    def etcd(self) -> Path:
        """Keys and data of etcd."""
        return self.root / "etcd"

    @property
    def management(self) -> Path:
        """Keys and kubeconfig of the management API server."""
        return self.root / "management"

    @property
    def kubeconfig(self) -> Path:
        """The kubeconfig of the management cluster."""
        return self.management / "kubeconfig"

    @property
    def releases(self) -> Path:
        """Default directory of the operator's releases."""
        return self.root / "releases"

    @property
    def clusters(self) -> Path:
        """``<namespace>/<cluster>``: keys, kubeconfig and log of each workload API server."""
        return self.root / "clusters"

    def log(self, component: str) -> Path:
        """Return the log file of a component.

        ``<namespace>/<cluster>`` is the API server of a workload cluster, ``<namespace>/<cluster>/kwok`` its kwok.
        """
        if component == "supervisor":
            return self.supervisor_log
        if "/" in component:
            namespace, cluster, *part = component.split("/", 2)
            return self.clusters / namespace / cluster / f"{part[0] if part else 'kube-apiserver'}.log"
        return self.root / "logs" / f"{component}.log"

    def cluster_kubeconfig(self, namespace: str, name: str) -> Path:
        """Return the kubeconfig of a workload cluster."""
        return self.clusters / namespace / name / "kubeconfig"

    def read(self) -> Summary | None:
        """Read the summary; None without an environment."""
        try:
            document = json.loads(self.marker.read_bytes())
            return Summary(**{**document, "phase": EnvironmentPhase(document["phase"])})
        except (OSError, ValueError, TypeError, KeyError):
            return None

    def write(self, summary: Summary) -> None:
        """Write the summary."""
        write_private(self.marker, json.dumps(dataclasses.asdict(summary)).encode())

    @property
    def options(self) -> str:
        """Options that select this environment in a ``csctl dev`` command; empty or with a leading space."""
        default = state_directory().root
        if self.root == default:
            return ""
        return f" --name {self.root.name}" if self.root.parent == default.parent else f" --state-dir {self.root}"

    def claim(self) -> None:
        """Create the directory, or take it over when it is an environment's; other files in it are a SpecError."""
        self.check()
        private_directory(self.root)

    def check(self) -> None:
        """Reject a directory with files of others before anything is written into it."""
        ours = {self.lock.name, self.supervisor_log.name}
        if (
            self.root.is_dir()
            and not self.marker.exists()
            and any(path.name not in ours for path in self.root.iterdir())
        ):
            raise SpecError(
                "DirectoryNotOurs",
                f"{self.root} contains files that do not belong to a local environment; choose an empty directory",
            )


def state_directory(name: str = "default", environ: Mapping[str, str] = os.environ) -> StateDirectory:
    """Return the state directory of an environment: ``$XDG_STATE_HOME/cluster-stacks/<name>``."""
    if not re.fullmatch(r"[a-z0-9]([a-z0-9-]{0,38}[a-z0-9])?", name):
        raise SpecError(
            "NameInvalid", f"{name!r} is not a valid name of an environment: use up to 40 of a-z, 0-9 and '-'"
        )
    home = environ.get("XDG_STATE_HOME") or Path(environ.get("HOME") or Path.home()) / ".local" / "state"
    return StateDirectory(Path(home).absolute() / "cluster-stacks" / name)


POLL_SECONDS = 0.2
CHUNK_CHARACTERS = 65_536


def read_log(state: StateDirectory, component: str, *, follow: bool = False) -> Iterator[str]:
    """Yield a component's log; with ``follow`` also later text, until the file is removed."""
    path = state.log(component)
    if not path.resolve().is_relative_to(state.root.resolve()) or not path.is_file():
        known = components(state)
        there = f"there are: {', '.join(known)}" if known else "no environment runs there"
        raise SpecError("NoSuchLog", f"{state.root} has no log of {component}; {there}")
    with path.open(errors="replace") as file:
        while True:
            text = file.read(CHUNK_CHARACTERS)
            if text:
                yield text
            elif not follow or not path.exists():
                return
            else:
                time.sleep(POLL_SECONDS)


def components(state: StateDirectory) -> list[str]:
    """Return the names of components with a log."""
    found = {path.stem for path in (state.root / "logs").glob("*.log")}
    found |= {record.name for record in process_records.read_all(state.records)}
    if state.supervisor_log.exists():
        found.add("supervisor")
    return sorted(found)
