"""Results of applying and deleting objects, per object."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from clusterstacks.deliver.apply.delivery_plan import DeliveryState, Mark
    from clusterstacks.deliver.apply.prune_plan import PruneResult
    from clusterstacks.model.objects import ObjectId
    from clusterstacks.net.kube.errors import FieldConflict


@dataclass(frozen=True, slots=True)
class ObjectResult:
    """Result of applying one object.

    Args:
        id: The object.
        version: API version in which it was sent.
        synced: The server accepted the object as we sent it.
        error: Why it is not synced: object, cause and what to do.
        code: CamelCase reason of the error.
        uid: The last known uid; empty when it was never read.
        digest: Digest of the manifest that was sent.
        mark: State right after the apply; None when not synced.
        changed: The apply changed the object.
        created: The apply created the object.
        conflicts: Fields that another manager had set to other values and that we overrode by force.
        webhook: Admission webhook that the server could not call.
    """

    id: ObjectId
    version: str
    synced: bool
    error: str = ""
    code: str = ""
    uid: str = ""
    digest: str = ""
    mark: Mark | None = None
    changed: bool = False
    created: bool = False
    conflicts: tuple[FieldConflict, ...] = ()
    webhook: str = ""

    @property
    def described_error(self) -> str:
        """The error, preceded by the object if the error does not name it."""
        return self.error if str(self.id) in self.error else f"{self.id}: {self.error}"


@dataclass(frozen=True, slots=True)
class DeliveryReport:
    """Result of the delivery of one addon.

    Args:
        addon: Its name.
        state: The state of its record.
        objects: The results, in the order of the chart.
        truncated: The record holds the inventory only, as the revision does not fit into a Secret.
    """

    addon: str
    state: DeliveryState
    objects: tuple[ObjectResult, ...]
    truncated: bool = False

    @property
    def synced(self) -> bool:
        """True if every object is in place."""
        return all(result.synced for result in self.objects)


@dataclass(frozen=True, slots=True)
class Removal:
    """Result of pruning one object, and the addon that had delivered it."""

    addon: str
    id: ObjectId
    result: PruneResult


@dataclass(frozen=True, slots=True)
class PruneReport:
    """Result of a prune.

    Args:
        removals: The results of all objects that were considered.
        shared: Objects that several addons of the release render, with these addons.
        unreadable: The errors of unreadable records, by Secret.
        complete: No object is left to delete.
    """

    removals: tuple[Removal, ...]
    shared: dict[ObjectId, tuple[str, ...]]
    unreadable: dict[str, str]
    complete: bool


@dataclass(frozen=True, slots=True)
class Deadlines:
    """Time limits for work of the server. All are arbitrary: many times what a healthy server needs.

    Args:
        established: For CRDs to be established: some 10 ms with one API server, 5 s with several.
        served: From a CRD being established until its custom resources can be written.
        gone: For finalizers of deleted objects; the next run continues with slower ones.
    """

    established: timedelta = timedelta(seconds=30)
    served: timedelta = timedelta(seconds=10)
    gone: timedelta = timedelta(seconds=10)
