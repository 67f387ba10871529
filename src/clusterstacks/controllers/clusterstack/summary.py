"""What a ClusterStack's status says about its releases."""

from __future__ import annotations

from typing import TYPE_CHECKING

from clusterstacks.api.clusterstack import ReleaseSummary
from clusterstacks.api.names import READY_CONDITION, ReleaseCondition, ReleasePhase
from clusterstacks.domain.conditions import Condition, from_documents
from clusterstacks.domain.names import release_named

if TYPE_CHECKING:
    from collections.abc import Sequence

    from clusterstacks.controllers.clusterstack.retention import Retention
    from clusterstacks.controllers.status_reconciler import StatusPatch
    from clusterstacks.domain.objects import Manifest


def summarise(draft: StatusPatch, releases: Sequence[Manifest], decision: Retention) -> None:
    """Set summary, latest release and usable versions."""
    draft.status["summary"] = [
        _summary(release).document()
        for release in sorted(releases, key=lambda release: str(release["metadata"]["name"]))
    ]
    draft.status["usableVersions"] = ", ".join(version.dot for version in decision.usable)
    draft.status["latestRelease"] = _latest(releases, decision)


def _latest(releases: Sequence[Manifest], decision: Retention) -> str:
    """``<class name> | <Kubernetes version>`` of the newest ready release; empty when there is none (D20)."""
    latest = decision.latest_ready
    if latest is None:
        return ""
    for release in releases:
        if release["metadata"]["name"] == latest.release:
            return f"{latest.class_name} | {(release.get('status') or {}).get('kubernetesVersion', '')}"
    return ""


def _summary(release: Manifest) -> ReleaseSummary:
    name = release["metadata"]["name"]
    found = release_named(name)
    shown = found.version.dot if found is not None else name  # what a user must write (D31)
    status = release.get("status") or {}
    conditions = {condition.type: condition for condition in from_documents(status.get("conditions"))}
    ready = status.get("ready") is True
    message = "" if ready else _message(conditions)
    return ReleaseSummary(name=shown, ready=ready, phase=_phase(conditions, ready=ready), message=message)


def _phase(conditions: dict[str, Condition], *, ready: bool) -> ReleasePhase:
    def lacks(kind: ReleaseCondition) -> bool:
        return kind in conditions and conditions[kind].status != "True"

    if ready:
        return ReleasePhase.DONE
    if ReleaseCondition.DOWNLOADED not in conditions or lacks(ReleaseCondition.DOWNLOADED):
        return ReleasePhase.DOWNLOADING
    return ReleasePhase.PROVIDER_WORK if lacks(ReleaseCondition.PROVIDER_READY) else ReleasePhase.APPLYING


def _message(conditions: dict[str, Condition]) -> str:
    ready = conditions.get(READY_CONDITION)
    return ready.message if ready is not None else ""
