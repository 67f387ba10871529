"""The annotation that each step writes into the Cluster together with the step.

So what a step was cannot be lost or be older than the step. It says how many steps a Cluster has taken, and whether
somebody has set back what a step changed.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING

from clusterstacks.model.documents import at, mapping, mappings, text
from clusterstacks.model.kinds.addon_annotations import ADDON_ANNOTATION, RELEASE_ANNOTATION, annotations_digest
from clusterstacks.model.kinds.names import UPGRADE_STEP_ANNOTATION

if TYPE_CHECKING:
    from clusterstacks.model.kinds.clusterapi import ClusterView
    from clusterstacks.model.objects import Manifest
    from clusterstacks.operator.controllers.clusterupgrade.stepper import Patch

MANAGER = "clusterupgrade"
"""Field manager of the patches."""

_OF_ADDONS = f"f:{RELEASE_ANNOTATION}", f"f:{ADDON_ANNOTATION}"


@dataclass(frozen=True, slots=True)
class StepRecord:
    """The last step of a Cluster."""

    by: str = ""
    """UID of the ClusterUpgrade."""
    target: str = ""
    number: int = 0
    before: tuple[str, ...] = ()
    """What the Cluster asked for before the step: class, version and digest of the annotations about addons."""
    after: tuple[str, ...] = ()
    set_backs: int = 0
    """How often a step of this upgrade was set back before; other steps may be taken in between."""

    @classmethod
    def of(cls, view: ClusterView, by: str, target: str) -> StepRecord:
        """Read that of a Cluster; one of another upgrade or to another target, or that is not readable, is empty."""
        try:
            read = json.loads(view.annotations.get(UPGRADE_STEP_ANNOTATION, "{}"))
            record = cls(
                text(read, "by"),
                text(read, "target"),
                int(at(read, "number") or 0),
                tuple(map(str, at(read, "before") or ())),
                tuple(map(str, at(read, "after") or ())),
                int(at(read, "setBacks") or 0),
            )
        except (ValueError, TypeError):
            return cls()
        return record if (record.by, record.target) == (by, target) else cls()

    def set_back(self, view: ClusterView) -> bool:
        """Return whether the Cluster again asks for something that the step has changed."""
        asked = zip(self.before, self.after, asks(view), strict=False)
        return any(before != after and now == before for before, after, now in asked)

    def next(self, view: ClusterView, by: str, target: str, patch: Patch) -> Manifest:
        """Return the merge patch of the next step with its record and the precondition."""
        document = {
            "by": by,
            "target": target,
            "number": self.number + 1,
            "before": asks(view),
            "after": _asks_after(view, patch.patch),
            "setBacks": self.set_backs + self.set_back(view),
        }
        metadata = mapping(patch.patch, "metadata")
        annotations = {**mapping(metadata, "annotations"), UPGRADE_STEP_ANNOTATION: json.dumps(document)}
        precondition = {"resourceVersion": patch.resource_version, "uid": view.uid}
        return {**patch.patch, "metadata": {**metadata, "annotations": annotations, **precondition}}


def asks(view: ClusterView) -> tuple[str, str, str]:
    """Return what a Cluster asks for, as far as steps change it."""
    return view.class_name, view.version, annotations_digest(view.annotations)


def _asks_after(view: ClusterView, patch: Manifest) -> tuple[str, str, str]:
    topology, changed = mapping(patch, "spec", "topology"), mapping(patch, "metadata", "annotations")
    annotations = {key: value for key, value in {**view.annotations, **changed}.items() if value is not None}
    class_name = text(topology, "classRef", "name") or text(topology, "class") or view.class_name
    return class_name, text(topology, "version") or view.version, annotations_digest(annotations)


def other_writer(cluster: Manifest) -> str:
    """Return the field manager that wrote class, version or annotations of a Cluster last, beside ours."""
    entries = sorted(mappings(cluster, "metadata", "managedFields"), key=lambda entry: text(entry, "time"))
    writers = [text(entry, "manager") for entry in entries if not text(entry, "subresource") and _writes(entry)]
    return next((writer for writer in reversed(writers) if writer != MANAGER), "that is not known")


def _writes(entry: Manifest) -> bool:
    fields = mapping(entry, "fieldsV1")
    annotations = mapping(fields, "f:metadata", "f:annotations")
    return "f:topology" in mapping(fields, "f:spec") or any(name.startswith(_OF_ADDONS) for name in annotations)
