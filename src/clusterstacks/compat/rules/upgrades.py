"""What no fact, policy or annotation lifts.

Kubernetes never goes down and moves one minor at a time, and a Cluster stays in its stack.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from clusterstacks.domain.versions import InvalidVersion, KubernetesVersion

if TYPE_CHECKING:
    from clusterstacks.domain.names import ReleaseName


def broken_law(before: str, after: str) -> str:
    """Say which law a move of Kubernetes breaks; empty when it breaks none.

    A text that is no version is left to others: Cluster API refuses it in ``after`` and has let it pass in ``before``.
    """
    old, new = _version(before), _version(after)
    if old is None or new is None:
        return ""
    if new < old:
        return f"Kubernetes never goes down: the cluster has {old}; keep it, or move to a higher version than {new}"
    if new.major != old.major or new.minor - old.minor > 1:
        return f"Kubernetes moves one minor at a time: from {old} go to a version of {old.major}.{old.minor + 1} first"
    return ""


def other_stack(old: ReleaseName, new: ReleaseName) -> str:
    """Say that a class of another provider or stack is asked for; empty when it is not."""
    if (old.provider, old.stack) == (new.provider, new.stack):
        return ""
    return (
        f"class {old.class_name} cannot be changed to {new.class_name}: a Cluster stays with its provider and stack "
        f"{old.provider}-{old.stack}; choose a class of these, or create another Cluster"
    )


def _version(text: str) -> KubernetesVersion | None:
    """Read a version without what a distribution adds to it (``+k3s1``), which has no order."""
    try:
        return replace(KubernetesVersion.parse(text), build="")
    except InvalidVersion:
        return None
