"""The status of an environment: components with version, port, memory, CPU time and state."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from clusterstacks.dev import process_records
from clusterstacks.dev.state_directory import EnvironmentPhase

if TYPE_CHECKING:
    from clusterstacks.dev.state_directory import StateDirectory

DEGRADED = "Degraded"
"""State of an environment with a component that does not run."""

WEBHOOK_NOTE = (
    "Cluster API's webhook ports listen on all interfaces (they have no address flag); the others on 127.0.0.1"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ComponentState:
    """One process; memory in bytes and CPU time in seconds, both 0 when it does not run."""

    name: str
    version: str
    port: int
    pid: int
    state: str
    memory_bytes: int = 0
    cpu_seconds: float = 0.0
    age_seconds: float = 0.0

    @property
    def running(self) -> bool:
        """True when it runs."""
        return self.state == "running"

    def document(self) -> dict[str, object]:
        """Return it as JSON."""
        usage = {"memoryBytes": self.memory_bytes, "cpuSeconds": self.cpu_seconds, "ageSeconds": self.age_seconds}
        process = {"name": self.name, "version": self.version, "port": self.port, "pid": self.pid, "state": self.state}
        return process | usage


@dataclass(frozen=True, slots=True)
class EnvironmentState:
    """The status that ``csctl dev status`` prints."""

    phase: str
    message: str
    components: tuple[ComponentState, ...]

    @property
    def healthy(self) -> bool:
        """True when every component runs."""
        return self.phase == EnvironmentPhase.RUNNING and all(component.running for component in self.components)

    def document(self) -> dict[str, object]:
        """Return it as JSON."""
        components = [component.document() for component in self.components]
        return {"phase": self.phase, "message": self.message, "components": components, "healthy": self.healthy}


def inspect(state: StateDirectory) -> EnvironmentState | None:
    """Read the status of an environment; None when the directory has none."""
    summary = state.read()
    if summary is None:
        return None
    supervisor = process_records.ProcessRecord(name="supervisor", pid=summary.pid, identity=summary.identity)
    found = [_component(record) for record in (supervisor, *process_records.read_all(state.records))]
    phase, message = str(summary.phase), summary.message
    if not supervisor.alive and summary.phase is not EnvironmentPhase.FAILED:
        phase = DEGRADED
        message = (
            "the supervisor has ended and nothing watches the other processes; 'csctl dev down' stops and removes them"
        )
    elif summary.phase is EnvironmentPhase.RUNNING and not all(component.running for component in found):
        phase, message = DEGRADED, _gone([one for one in found if not one.running], state.options)
    return EnvironmentState(phase, message, tuple(found))


def _gone(components: list[ComponentState], options: str) -> str:
    told = ", ".join(f"{one.name} {one.state}" for one in components)
    name = components[0].name
    logs = f"'csctl dev logs{options} {name}' shows why"
    # The provider restarts the API servers of workload clusters itself.
    return f"{told}; {logs}" if "/" in name else f"{told}; {logs}; run 'csctl dev restart{options} {name}'"


def _component(record: process_records.ProcessRecord) -> ComponentState:
    base = ComponentState(
        name=record.name, version=record.version, port=record.port, pid=record.pid, state=record.ended or "is gone"
    )
    usage = process_records.usage_of(record.pid) if record.alive else None
    if usage is None:
        return base
    return ComponentState(
        name=record.name,
        version=record.version,
        port=record.port,
        pid=record.pid,
        state="running",
        memory_bytes=usage.memory_bytes,
        cpu_seconds=usage.cpu_seconds,
        age_seconds=usage.age_seconds,
    )
