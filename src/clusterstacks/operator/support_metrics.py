"""Counts the Clusters by Kubernetes minor, and the days until a minor leaves support, for metrics."""

from __future__ import annotations

from collections import Counter
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from clusterstacks.model.kinds.clusterapi import cluster_view
from clusterstacks.model.names import InvalidName, parse_class
from clusterstacks.model.versions import InvalidVersion, KubernetesVersion
from clusterstacks.plan.compat.support_facts import support_ends

if TYPE_CHECKING:
    from collections.abc import Iterable
    from datetime import date

    from clusterstacks.model.objects import Manifest

OTHER: Final = "other"
"""Label of all minors that no fact knows: users may ask for any version."""


def clusters_by_minor(clusters: Iterable[Manifest]) -> Counter[str]:
    """Count the Clusters of cluster stacks by the oldest minor of their control plane, else the one they ask for."""
    known, counts = support_ends(), Counter[str]()
    for cluster in clusters:
        view = cluster_view(cluster)
        with suppress(InvalidName, InvalidVersion):
            parse_class(view.class_name)
            versions = view.control_plane_versions or (view.version,)
            minor = min(map(KubernetesVersion.parse, versions)).series
            counts[str(minor) if minor in known else OTHER] += 1
    return counts


def support_days(minor: str, today: date) -> int | None:
    """Return the days until a minor leaves support, negative afterwards; None where no fact is known."""
    return next((end.days(today) for known, end in support_ends().items() if str(known) == minor), None)
