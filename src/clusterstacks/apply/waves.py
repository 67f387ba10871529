"""The order in which objects reach a cluster, and leave it the other way round.

Objects of one wave are independent of each other and applied together.
"""

from __future__ import annotations

from enum import IntEnum
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from clusterstacks.domain.objects import ObjectId

BUILT_IN_GROUPS: Final = frozenset(
    {
        "",
        "admissionregistration.k8s.io",
        "apiextensions.k8s.io",
        "apiregistration.k8s.io",
        "apps",
        "autoscaling",
        "batch",
        "certificates.k8s.io",
        "coordination.k8s.io",
        "discovery.k8s.io",
        "events.k8s.io",
        "extensions",
        "flowcontrol.apiserver.k8s.io",
        "networking.k8s.io",
        "node.k8s.io",
        "policy",
        "rbac.authorization.k8s.io",
        "resource.k8s.io",
        "scheduling.k8s.io",
        "storage.k8s.io",
        "storagemigration.k8s.io",
    }
)
"""Groups the API server serves itself; the kinds of any other group are custom resources or aggregated.
Source: staging/src/k8s.io/api of Kubernetes 1.36."""

_WORKLOADS = frozenset(
    {"CronJob", "DaemonSet", "Deployment", "Job", "Pod", "ReplicaSet", "ReplicationController", "StatefulSet"}
)
_INTERCEPTORS = frozenset({"admissionregistration.k8s.io", "apiregistration.k8s.io"})


class Wave(IntEnum):
    """What is applied together, first to last."""

    FOUNDATIONS = 0
    """Namespaces and CRDs: others cannot even be sent without them."""
    CLUSTER_WIDE = 1
    """Roles, classes and the like, which the namespaced objects refer to."""
    SUPPORT = 2
    """What workloads read or run under: accounts, configuration, roles, services."""
    WORKLOADS = 3
    CUSTOM = 4
    """Custom resources, after the workloads that may have to convert them."""
    CLASSES = 5
    """ClusterClasses, after the templates they name."""
    INTERCEPTORS = 6
    """Webhooks, admission policies and API services: their own workloads must not be stopped by them."""


CRD_KIND: Final = ("apiextensions.k8s.io", "CustomResourceDefinition")
NAMESPACE_KIND: Final = ("", "Namespace")
CLASS_KIND: Final = ("cluster.x-k8s.io", "ClusterClass")


def wave_of(identity: ObjectId) -> Wave:
    """Choose an object's wave; its namespace must be settled (empty for cluster-wide kinds)."""
    kind = (identity.group, identity.kind)
    if kind in (CRD_KIND, NAMESPACE_KIND):
        return Wave.FOUNDATIONS
    if identity.group in _INTERCEPTORS:
        return Wave.INTERCEPTORS
    if kind == CLASS_KIND:
        return Wave.CLASSES
    if identity.group not in BUILT_IN_GROUPS:
        return Wave.CUSTOM
    if not identity.namespace:
        return Wave.CLUSTER_WIDE
    return Wave.WORKLOADS if identity.kind in _WORKLOADS else Wave.SUPPORT
