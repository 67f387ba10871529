"""Conditions of Cluster API's objects, in both styles and both API versions.

====================  =========================================  =====================
style                 v1beta2 object                             v1beta1 object
====================  =========================================  =====================
metav1 (new)          ``status.conditions``                      ``status.v1beta2.conditions``
Cluster API's (old)   ``status.deprecated.v1beta1.conditions``   ``status.conditions``
====================  =========================================  =====================
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from clusterstacks.model.documents import at, mappings, text
from clusterstacks.model.objects import rfc3339

if TYPE_CHECKING:
    from datetime import datetime

    from clusterstacks.model.objects import Manifest

_NEW_STYLE: Final = {"v1beta2": ("status", "conditions"), "v1beta1": ("status", "v1beta2", "conditions")}
_OLD_STYLE: Final = {"v1beta2": ("status", "deprecated", "v1beta1", "conditions"), "v1beta1": ("status", "conditions")}

# Maximum length of messages in Cluster API's CRDs (v1.14), in characters.
_MESSAGE_LENGTH: Final = {"v1beta2": 32_768, "v1beta1": 10_240}


@dataclass(frozen=True, slots=True)
class ConditionView:
    """A condition of an object; Unknown without a reason if the object does not have it."""

    status: str = "Unknown"
    reason: str = ""
    message: str = ""
    current: bool = True
    """True if it is about the current generation of the object; always true for old-style conditions."""

    @property
    def true(self) -> bool:
        """True if the status is True, not False or Unknown."""
        return self.status == "True"

    @property
    def false(self) -> bool:
        """True if the status is False, not just Unknown."""
        return self.status == "False"


def condition_view(manifest: Manifest, type_: str, old_type: str = "") -> ConditionView:
    """Read a condition of a Cluster API object in either API version, the new style first.

    ``old_type`` is its type in the old style, where that differs.
    """
    version = served_version(manifest)
    condition = _find(mappings(manifest, *_NEW_STYLE[version]), type_) or _find(
        mappings(manifest, *_OLD_STYLE[version]), old_type or type_
    )
    if condition is None:
        return ConditionView()
    return ConditionView(
        text(condition, "status") or "Unknown",
        text(condition, "reason"),
        text(condition, "message"),
        current=at(condition, "observedGeneration") in (None, at(manifest, "metadata", "generation")),
    )


def with_cluster_condition(
    cluster: Manifest, type_: str, status: str, reason: str, message: str, now: datetime
) -> Manifest | None:
    """Return the merge patch of the status subresource that sets a condition, or None if nothing changes.

    The patch replaces the list of conditions and contains the resource version it was computed from, so the API server
    refuses it with a conflict if Cluster API wrote in between. ``reason`` is one CamelCase word, never empty. The
    message is truncated to the length that the Cluster's CRD allows. ``now`` is the transition time if the status
    changes.
    """
    version = served_version(cluster)
    present = mappings(cluster, "status", "conditions")
    before = _find(present, type_)
    since = text(before, "lastTransitionTime") if before and before.get("status") == status else ""
    wanted = {
        "type": type_,
        "status": status,
        "reason": reason,
        "message": message[: _MESSAGE_LENGTH[version]],
        "lastTransitionTime": since or rfc3339(now),
    }
    generation = at(cluster, "metadata", "generation") or 0
    after = {**wanted, "observedGeneration": generation} if version == "v1beta2" else _v1beta1(wanted)
    if before == after:
        return None
    conditions = [after if item is before else item for item in present]
    return {
        "metadata": {"resourceVersion": text(cluster, "metadata", "resourceVersion")},
        "status": {"conditions": conditions if before else [*conditions, after]},
    }


def served_version(manifest: Manifest) -> str:
    """Return the API version of a Cluster API object: v1beta1 or v1beta2, which is the default."""
    return "v1beta1" if text(manifest, "apiVersion").endswith("/v1beta1") else "v1beta2"


def _v1beta1(wanted: dict[str, str]) -> Manifest:
    """Remove empty fields, which the CRD refuses, and set the severity of a False condition."""
    written: Manifest = {key: value for key, value in wanted.items() if value}
    return {**written, "severity": "Info"} if wanted["status"] == "False" else written


def _find(conditions: list[Manifest], type_: str) -> Manifest | None:
    return next((condition for condition in conditions if condition.get("type") == type_), None)
