"""How strict a ClusterStack is with Clusters of its classes."""

from __future__ import annotations

from enum import StrEnum

ESCAPE_ANNOTATION = "clusterstack.x-k8s.io/allow-incompatible"
"""On a Cluster: its value says why what the ranges forbid is to be let through. It does not lift the laws of Kubernetes
(never down, one minor at a time) and names no release that is not there."""


class CompatibilityPolicy(StrEnum):
    """``spec.compatibility`` of a ClusterStack. Bundles are not touched by it."""

    RANGE = "Range"
    """Incompatible is refused; untested and unknown are warned about."""
    STRICT = "Strict"
    """All three are refused, and the Kubernetes version must be that of the class's metadata.yaml."""
    PERMISSIVE = "Permissive"
    """All three are warned about."""
