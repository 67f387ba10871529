"""What the operator watches, by what it looks things up, and how much of it stays in memory."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from clusterstacks.api.names import CLUSTER_API_GROUP, CLUSTER_CLASS_KIND, CLUSTER_KIND, GROUP, Kind
from clusterstacks.controllers.clusterstack.reconciler import CLASS_NAMESPACE_INDEX
from clusterstacks.controllers.clusterstackrelease.drift import class_metadata
from clusterstacks.operator.event_handlers import CLASS_INDEX, class_key, class_namespace
from clusterstacks.operator.ready_counts import ready_condition
from clusterstacks.runtime.informer import Informer, Trim, drop_managed_fields
from clusterstacks.sources.owners import STACK_INDEX, stacks_owning

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from clusterstacks.domain.objects import Manifest


class MakesInformers(Protocol):
    """Makes the informer of one kind."""

    def __call__(
        self, group: str, kind: str, indexes: Mapping[str, Callable[[Manifest], list[str]]] | None = None
    ) -> Informer:
        """Make it; ``indexes`` give the values to look objects up by."""
        ...


def build_informers(make: MakesInformers) -> dict[str, Informer]:
    """Make the informers nothing is decided without, by the lower-case kind."""
    by_class = {CLASS_INDEX: class_key, CLASS_NAMESPACE_INDEX: class_namespace}
    return {
        "clusterstack": make(GROUP, Kind.CLUSTER_STACK),
        "clusterstackrelease": make(GROUP, Kind.CLUSTER_STACK_RELEASE, {STACK_INDEX: stacks_owning}),
        "clusteraddon": make(GROUP, Kind.CLUSTER_ADDON),
        "cluster": make(CLUSTER_API_GROUP, CLUSTER_KIND, by_class),
        "clusterclass": make(CLUSTER_API_GROUP, CLUSTER_CLASS_KIND),
    }


def trim_of(kind: str) -> Trim:
    """Return what takes from an object what nobody looks up in memory."""
    return _TRIMS.get(kind, drop_managed_fields)


def sync_problem(informer: Informer) -> str:
    """Say why an informer is not ready; empty when it is.

    What is decided on a store that has not followed the server for minutes may be wrong.
    """
    if not informer.is_synced:
        return f"{informer} has not been listed yet"
    return informer.health.problem()


def keeps_remnants(kind: str) -> bool:
    """Whether the store may hold what is left of an object that cannot be read.

    Of a Cluster and its class only names, metadata and versions decide anything here, and a release that a Cluster uses
    must not be deleted because its variables cannot be read. In our own kinds a missing field means something.
    """
    return kind in {CLUSTER_KIND, CLUSTER_CLASS_KIND}


def _without_status(manifest: Manifest) -> Manifest:
    """The status of a ClusterAddon, which lists every object of a cluster, is read live; metrics need Ready."""
    kept = {key: value for key, value in drop_managed_fields(manifest).items() if key != "status"}
    status = ready_condition(manifest)
    return {**kept, "status": status} if status else kept


_TRIMS: dict[str, Trim] = {CLUSTER_CLASS_KIND: class_metadata, Kind.CLUSTER_ADDON: _without_status}
