"""Waves: the order in which objects are applied; they are deleted in reverse order.

Objects of one wave are independent of each other and are applied concurrently.
"""

from __future__ import annotations

from enum import IntEnum
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from clusterstacks.model.objects import ObjectId

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
"""Groups that the API server serves itself; kinds of all other groups are custom resources or aggregated.
Source: staging/src/k8s.io/api of Kubernetes 1.36."""

_WORKLOADS = frozenset(
    {"CronJob", "DaemonSet", "Deployment", "Job", "Pod", "ReplicaSet", "ReplicationController", "StatefulSet"}
)
_INTERCEPTORS = frozenset({"admissionregistration.k8s.io", "apiregistration.k8s.io"})


class Wave(IntEnum):
    """Objects that are applied together, from first to last."""

    FOUNDATIONS = 0
    """Namespaces and CRDs, without which other objects cannot be sent."""
    CLUSTER_WIDE = 1
    """Cluster-scoped objects that namespaced objects refer to, such as roles and classes."""
    SUPPORT = 2
    """Objects that workloads need: accounts, configuration, roles, services."""
    WORKLOADS = 3
    CUSTOM = 4
    """Custom resources, after the workloads that may convert them."""
    CLASSES = 5
    """ClusterClasses, after the templates that they refer to."""
    INTERCEPTORS = 6
    """Webhooks, admission policies and API services, which must not block their own workloads."""


CRD_KIND: Final = ("apiextensions.k8s.io", "CustomResourceDefinition")
NAMESPACE_KIND: Final = ("", "Namespace")
CLASS_KIND: Final = ("cluster.x-k8s.io", "ClusterClass")


def wave_of(identity: ObjectId) -> Wave:
    """Return the wave of an object, whose namespace must be final (empty for cluster-scoped kinds)."""
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
