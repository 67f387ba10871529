"""Reads several management clusters at once; one that cannot be read does not stop the others."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING, Generic, TypeVar

from clusterstacks.csctl.shared import output
from clusterstacks.csctl.shared.management_objects import read_all
from clusterstacks.model.errors import ClusterStacksError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping, Sequence

    from clusterstacks.csctl.shared.cluster_options import ManagementCluster
    from clusterstacks.csctl.shared.management_objects import ObjectQuery
    from clusterstacks.model.objects import Manifest

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class ContextResults(Generic[T]):
    """The results of the contexts that could be read, in the order of the options, and the errors of the others."""

    found: Mapping[str, T]
    failed: Mapping[str, ClusterStacksError]

    @property
    def several(self) -> bool:
        """True if the output has to name the context."""
        return len(self.found) + len(self.failed) > 1

    def named(self, context: str, document: Manifest) -> Manifest:
        """Return a document with the context, if there are several."""
        return {"context": context, **document} if self.several else document

    def show_failures(self) -> int:
        """Print the contexts that could not be read, and return the exit code of the verb."""
        if not self.failed:
            return 0
        lines = [f"{context}: {error.message}" for context, error in self.failed.items()]
        summary = f"{len(lines)} of {len(lines) + len(self.found)} management clusters could not be read"
        return output.show_failures(lines, summary, [*self.failed.values()])


def read_contexts(
    managements: Sequence[ManagementCluster], read: Callable[[ManagementCluster], Awaitable[T]]
) -> ContextResults[T]:
    """Read all management clusters at once; the error of the only one is raised."""

    async def attempt(management: ManagementCluster) -> T | ClusterStacksError:
        try:
            return await read(management)
        except ClusterStacksError as error:
            if len(managements) == 1:
                raise
            return error

    async def attempt_all() -> list[T | ClusterStacksError]:
        return await asyncio.gather(*map(attempt, managements))

    found: dict[str, T] = {}
    failed: dict[str, ClusterStacksError] = {}
    for management, result in zip(managements, asyncio.run(attempt_all()), strict=True):
        if isinstance(result, ClusterStacksError):
            failed[management.context] = result
        else:
            found[management.context] = result
    return ContextResults(found, failed)


async def read_objects_of(management: ManagementCluster, queries: Sequence[ObjectQuery]) -> list[list[Manifest] | None]:
    """Read the objects of several queries as :func:`read_all`; warnings begin with the context."""
    place = f"{management.context}: " if management.context else ""
    async with management.connected() as client:
        return await read_all(client, queries, lambda notices: output.warn_all(place + notice for notice in notices))
