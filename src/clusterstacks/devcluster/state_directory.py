"""The state directory of an environment: what lies where, and what the environment says about itself."""

from __future__ import annotations

import dataclasses
import json
import os
import re
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING

from clusterstacks.devcluster.private_files import private_directory, write_private
from clusterstacks.domain.errors import SpecError

if TYPE_CHECKING:
    from collections.abc import Mapping

MARKER_VARIABLE = "CLUSTERSTACKS_ENVIRONMENT"
"""Set to the state directory in every process of the environment, so that ``down`` finds even those nobody recorded."""


class EnvironmentPhase(StrEnum):
    """Where an environment is in its life."""

    STARTING = "Starting"
    RUNNING = "Running"
    STOPPING = "Stopping"
    FAILED = "Failed"


@dataclass(frozen=True, slots=True, kw_only=True)
class Summary:
    """What the supervisor says about the environment; ``pid`` and ``identity`` are the supervisor's own."""

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
        """The summary; a directory without it is not ours."""
        return self.root / "environment.json"

    @property
    def lock(self) -> Path:
        """Held by the supervisor as long as it lives."""
        return self.root / "lock"

    @property
    def supervisor_log(self) -> Path:
        """What a detached supervisor reports."""
        return self.root / "supervisor.log"

    @property
    def records(self) -> Path:
        """One file for each running process."""
        return self.root / "run"

    @property
    def operator_cache(self) -> Path:
        """The operator's cache directory."""
        return self.root / "operator-cache"

    @property
    def restart_request(self) -> Path:
        """What ``csctl dev restart`` asks of the supervisor; gone once it was read."""
        return self.root / "restart-request.json"

    @property
    def restart_answer(self) -> Path:
        """What the supervisor answered."""
        return self.root / "restart-answer.json"

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
        """Where the operator takes releases from unless told otherwise."""
        return self.root / "releases"

    @property
    def clusters(self) -> Path:
        """``<namespace>/<cluster>``: keys, kubeconfig and log of each workload API server."""
        return self.root / "clusters"

    def log(self, component: str) -> Path:
        """Return the log file of a component; ``<namespace>/<cluster>`` is the API server of a workload cluster."""
        if component == "supervisor":
            return self.supervisor_log
        if "/" in component:
            return self.clusters / component / "kube-apiserver.log"
        return self.root / "logs" / f"{component}.log"

    def cluster_kubeconfig(self, namespace: str, name: str) -> Path:
        """Return the kubeconfig of a workload cluster."""
        return self.clusters / namespace / name / "kubeconfig"

    def read(self) -> Summary | None:
        """Read the summary; None when there is no environment."""
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
        """What to add to a ``csctl dev`` command so that it means this environment; begins with a space or is empty."""
        default = state_directory().root
        if self.root == default:
            return ""
        return f" --name {self.root.name}" if self.root.parent == default.parent else f" --state-dir {self.root}"

    def claim(self) -> None:
        """Make the directory ours.

        Raises:
            SpecError: it holds something else.
        """
        self.check()
        private_directory(self.root)

    def check(self) -> None:
        """Refuse a directory with files that are not ours; nothing may be written into it.

        Raises:
            SpecError: it holds something else.
        """
        ours = {self.lock.name, self.supervisor_log.name}
        if (
            self.root.is_dir()
            and not self.marker.exists()
            and any(path.name not in ours for path in self.root.iterdir())
        ):
            raise SpecError(
                "DirectoryNotOurs",
                f"{self.root} holds files that are not of a local environment; choose an empty or new directory",
            )


def state_directory(name: str = "default", environ: Mapping[str, str] = os.environ) -> StateDirectory:
    """Return where an environment keeps its state: ``$XDG_STATE_HOME/cluster-stacks/<name>``.

    Raises:
        SpecError: the name cannot be a directory name.
    """
    if not re.fullmatch(r"[a-z0-9]([a-z0-9-]{0,38}[a-z0-9])?", name):
        raise SpecError("NameInvalid", f"{name!r} cannot name an environment: use up to 40 of a-z, 0-9 and '-'")
    home = environ.get("XDG_STATE_HOME") or Path(environ.get("HOME") or Path.home()) / ".local" / "state"
    return StateDirectory(Path(home).absolute() / "cluster-stacks" / name)
