"""How far the stages of one cluster's addons are, as a ClusterAddon's status keeps it between reconciles."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum


class StagePhase(StrEnum):
    """Where a stage stands; the words are those of the Go operator."""

    PENDING = "Pending"
    WAITING_FOR_PRE = "waitingForPreCondition"
    CHANGING = "applyingOrDeleting"
    WAITING_FOR_POST = "waitingForPostCondition"
    DONE = "done"


@dataclass(frozen=True, slots=True)
class StageProgress:
    """One entry of ``status.stages``.

    Args:
        hook: The hook the stage belongs to; empty for a release without stages.
        name: The addon.
        action: ``apply`` or ``delete``.
        phase: Where it stands.
    """

    hook: str
    name: str
    action: str
    phase: StagePhase

    @property
    def identity(self) -> tuple[str, str, str]:
        """What says that two entries are about the same stage."""
        return self.hook, self.name, self.action


@dataclass(frozen=True, slots=True)
class RolloutProgress:
    """What a rollout has done so far.

    Args:
        target: The class rolled out, ``status.target``; empty when none is under way.
        stages: All its stages in their order, ``status.stages``.
    """

    target: str = ""
    stages: tuple[StageProgress, ...] = ()

    @property
    def finished(self) -> bool:
        """Whether every stage is done, which also holds where there is none."""
        return all(stage.phase is StagePhase.DONE for stage in self.stages)

    def documents(self) -> list[dict[str, str]]:
        """Return ``status.stages``."""
        return [
            {"name": stage.name, "action": stage.action, "phase": stage.phase.value, "hook": stage.hook}
            for stage in self.stages
        ]


def read_progress(target: object, documents: object) -> RolloutProgress:
    """Read ``status.target`` and ``status.stages``; what cannot be read counts as not begun."""
    entries = documents if isinstance(documents, (list, tuple)) else ()
    stages = tuple(_stage(entry) for entry in entries if isinstance(entry, Mapping))
    return RolloutProgress(target if isinstance(target, str) else "", stages)


def _stage(entry: Mapping[str, object]) -> StageProgress:
    def text(key: str) -> str:
        value = entry.get(key)
        return value if isinstance(value, str) else ""

    phase = text("phase")
    return StageProgress(
        text("hook"),
        text("name"),
        text("action"),
        StagePhase(phase) if phase in tuple(StagePhase) else StagePhase.PENDING,
    )
