"""Builds ``status.resources`` of ClusterStackReleases and ClusterAddons: one entry per object, of bounded size."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from clusterstacks.deliver.apply.prune_plan import PruneOutcome
from clusterstacks.model.documents import and_more
from clusterstacks.model.kinds.names import ResourceStatus

if TYPE_CHECKING:
    from collections.abc import Iterable

    from clusterstacks.deliver.apply.results import ObjectResult, PruneReport
    from clusterstacks.model.objects import Manifest, ObjectId

ERROR_BYTES: Final = 2048
"""Longest error of one object, in bytes of UTF-8. Messages of an API server are cut at 2,000 characters before."""

ERRORS_BYTES: Final = 128 * 1024
"""All errors of one status, in bytes of UTF-8. Arbitrary: less than a tenth of the 1.5 MiB that etcd allows for an
object, which leaves room for thousands of entries. Source: https://etcd.io/docs/latest/dev-guide/limit"""

OBJECTS_SHOWN: Final = 3
"""Objects that a message names; arbitrary, status.resources lists all."""

_CUT: Final = "..."


def bounded(error: str) -> str:
    """Cut an error to ``ERROR_BYTES``."""
    content = error.encode()
    if len(content) <= ERROR_BYTES:
        return error
    return content[: ERROR_BYTES - len(_CUT)].decode(errors="ignore") + _CUT


def listed(identity: ObjectId, version: str, status: ResourceStatus) -> Manifest:
    """Return the entry of an object without an error, as the model ``ResourceEntry`` writes it.

    The model itself would take a tenth of the CPU time of a delivery of 500 objects.
    """
    entry: Manifest = {
        "group": identity.group,
        "version": version,
        "kind": identity.kind,
        "namespace": identity.namespace,
        "name": identity.name,
        "status": status.value,
    }
    return {field: value for field, value in entry.items() if value}


def entries(results: Iterable[ObjectResult]) -> list[Manifest]:
    """Return the entry of each object, with errors up to ``ERRORS_BYTES`` together.

    Further failed objects are ``not-synced`` without an error; mostly they have the same cause as the others.
    """
    room = ERRORS_BYTES
    documents = []
    for result in results:
        entry = listed(result.id, result.version, ResourceStatus.SYNCED if result.synced else ResourceStatus.NOT_SYNCED)
        error = bounded(result.error)
        size = len(error.encode())
        if error and size <= room:
            room -= size
            entry["error"] = error
        documents.append(entry)
    return documents


def describe_failures(results: Iterable[ObjectResult]) -> str:
    """Name the first objects that are not applied, and the number of others."""
    failures = [bounded(result.described_error) for result in results if not result.synced]
    return and_more(failures, OBJECTS_SHOWN, separator="; ", noun="objects fail")


def describe_remaining(report: PruneReport) -> str:
    """Name the first objects that are not deleted yet and what each waits for, then the records that are unreadable."""
    pending = [
        bounded(removal.result.reason or str(removal.id))
        for removal in report.removals
        if removal.result.outcome is PruneOutcome.PENDING
    ]
    # What hangs comes before what waits for it.
    pending.sort(key=lambda reason: " waits until " in reason)
    remaining = [*pending, *report.unreadable.values()]
    return f"not deleted yet: {and_more(remaining, OBJECTS_SHOWN, separator='; ')}"
