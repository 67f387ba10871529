"""Reads which versions of Kubernetes and addons the Clusters of a management cluster use."""

from __future__ import annotations

from typing import TYPE_CHECKING

from clusterstacks.model.documents import mappings, text
from clusterstacks.model.names import release_named
from clusterstacks.plan.clusters.cluster_summary import addons_by_cluster
from clusterstacks.plan.clusters.leaving_support import minor_in_use
from clusterstacks.plan.compat.release_facts import read_facts
from clusterstacks.plan.compat.support import Uses

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from clusterstacks.model.files.compatibility import Component
    from clusterstacks.model.names import ReleaseName
    from clusterstacks.model.objects import Manifest
    from clusterstacks.plan.clusters.cluster_summary import ClusterSummary
    from clusterstacks.plan.compat.world import Candidate


def versions_in_use(
    summaries: Iterable[ClusterSummary], addons: Iterable[Manifest] = (), releases: Iterable[Manifest] = ()
) -> list[Uses]:
    """Return the versions that Clusters use, by their names; those of addons as far as their releases state them."""
    stated = {
        (text(release, "metadata", "namespace"), known.name): known
        for release in releases
        if (known := read_facts(release)) is not None
    }
    by_cluster = addons_by_cluster(addons)
    return [
        Uses(
            str(summary.key),
            minor_in_use(summary),
            tuple(
                _components(
                    by_cluster.get((summary.key.namespace, summary.key.name), {}), summary.class_namespace, stated
                )
            ),
        )
        for summary in summaries
        if summary.of_cluster_stack
    ]


def _components(
    addon: Manifest, namespace: str, stated: Mapping[tuple[str, ReleaseName], Candidate]
) -> Iterator[Component]:
    for entry in mappings(addon, "status", "addons"):
        release = release_named(text(entry, "release"))
        origin = stated.get((namespace, release)) if release is not None else None
        if origin is not None and origin.compatibility is not None:
            yield from origin.compatibility.of_addon(text(entry, "name"))
