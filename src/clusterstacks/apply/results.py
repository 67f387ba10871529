"""What applying and removing objects ends with, object by object."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from clusterstacks.apply.delivery_plan import DeliveryState, Mark, PruneResult
    from clusterstacks.domain.objects import ObjectId
    from clusterstacks.kube.errors import FieldConflict


@dataclass(frozen=True, slots=True)
class ObjectResult:
    """What became of one object.

    Args:
        id: The object.
        version: API version it was sent in.
        synced: The server has it as we sent it.
        error: Why it is not synced: object, cause and way out.
        code: CamelCase reason of the error.
        uid: As last seen; empty when it never was.
        digest: Of what was sent.
        mark: Seen right after the apply; None when not synced.
        changed: Something was sent that the cluster did not have like this.
        conflicts: Fields that another manager had set otherwise and that we took back by force.
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
    conflicts: tuple[FieldConflict, ...] = ()
    webhook: str = ""

    @property
    def complaint(self) -> str:
        """The error, with the object where the error does not name it."""
        return self.error if str(self.id) in self.error else f"{self.id}: {self.error}"


@dataclass(frozen=True, slots=True)
class DeliveryReport:
    """What became of one addon's revision.

    Args:
        addon: Its name.
        state: Of its record.
        objects: In the order of the chart.
        truncated: The record holds the inventory only, as the revision does not fit into a Secret.
    """

    addon: str
    state: DeliveryState
    objects: tuple[ObjectResult, ...]
    truncated: bool = False

    @property
    def synced(self) -> bool:
        """Whether every object is in place."""
        return all(result.synced for result in self.objects)


@dataclass(frozen=True, slots=True)
class Removal:
    """What became of one object that should go, and the addon that had delivered it."""

    addon: str
    id: ObjectId
    result: PruneResult


@dataclass(frozen=True, slots=True)
class PruneReport:
    """What became of everything that no addon renders any more.

    Args:
        removals: Every object considered.
        shared: Objects that several addons of the release render, with those addons.
        unreadable: Why a record, named by its Secret, was left alone.
        complete: Nothing is left to delete.
    """

    removals: tuple[Removal, ...]
    shared: dict[ObjectId, tuple[str, ...]]
    unreadable: dict[str, str]
    complete: bool


@dataclass(frozen=True, slots=True)
class Deadlines:
    """How long to wait for the server's own work. All arbitrary: many times what a healthy server needs.

    Args:
        established: For CRDs, which take some 10 ms (LOCAL-CONTROL-PLANE section 11), 5 s with several API servers.
        served: From a CRD being established until its custom resources can be written.
        gone: For finalizers of deleted objects; what takes longer is left to the next run.
    """

    established: timedelta = timedelta(seconds=30)
    served: timedelta = timedelta(seconds=10)
    gone: timedelta = timedelta(seconds=10)
