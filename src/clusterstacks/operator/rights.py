"""The rights that the operator needs in the management cluster: the source of the reference page and of roles.

A test runs the operator with these rights and no others, and every operator of the integration tests is checked to use
none beside them.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Final

from clusterstacks.admission.configuration import NAME as CONFIGURATION_NAME
from clusterstacks.admission.keeping import SECRET_NAME
from clusterstacks.api.names import CLUSTER_API_GROUP, GROUP
from clusterstacks.domain.classobjects import IMAGE_KIND, TEMPLATE_GROUPS
from clusterstacks.operator.election import LEASE_NAME

if TYPE_CHECKING:
    from collections.abc import Iterable

READ: Final = ("get", "list", "watch")
ANY: Final = "*"
"""Every resource of a group, also its subresources."""


class Scope(StrEnum):
    """Where a right is needed."""

    CLUSTER = "cluster"
    """All namespaces, or objects without one: a ClusterRoleBinding. With ``--namespace`` a RoleBinding in that
    namespace is enough for what has namespaces, except Clusters."""
    CLUSTERS = "namespaces of Clusters"
    """A RoleBinding in each."""
    STACKS = "namespaces of ClusterStacks"
    """A RoleBinding in each."""
    OWN = "the operator's namespace"


@dataclass(frozen=True, slots=True, kw_only=True)
class Right:
    """Verbs on resources of one group.

    Args:
        group: The API group, empty for the core group.
        resources: Plural names, with the subresource after a slash, or ``ANY``.
        verbs: Of RBAC. A server-side apply needs ``patch``, and ``create`` where it creates the object.
        why: What the operator does with them.
        scope: Where.
        names: The only objects; empty for all.
    """

    group: str
    resources: tuple[str, ...]
    verbs: tuple[str, ...]
    why: str
    scope: Scope = Scope.CLUSTER
    names: tuple[str, ...] = ()

    def covers(self, group: str, resource: str, verb: str) -> bool:
        """Tell whether a request is allowed by this right, wherever it is."""
        return group == self.group and verb in self.verbs and (ANY in self.resources or resource in self.resources)


RIGHTS: Final = (
    Right(group=GROUP, resources=("clusterstacks",), verbs=READ, why="follow what ClusterStacks ask for"),
    Right(
        group=GROUP,
        resources=("clusterstackreleases",),
        verbs=(*READ, "create", "patch", "delete"),
        why="create and delete the releases of a ClusterStack; pin digests; owner references and finalizers",
    ),
    Right(
        group=GROUP,
        resources=("clusteraddons",),
        verbs=(*READ, "create", "patch"),
        why="create one for each Cluster; note what was delivered; finalizers",
    ),
    Right(
        group=GROUP,
        resources=("clusterstacks/status", "clusterstackreleases/status", "clusteraddons/status"),
        verbs=("patch",),
        why="report the state",
    ),
    Right(group=GROUP, resources=("compatibilityrules",), verbs=("list", "watch"), why="follow the rules"),
    Right(
        group=CLUSTER_API_GROUP,
        resources=("clusters",),
        verbs=READ,
        why="follow Clusters; before a release is deleted, in all namespaces, also with --namespace",
    ),
    Right(
        group=CLUSTER_API_GROUP,
        resources=("clusters/status",),
        verbs=("patch",),
        why="conditions ClusterStackAddonsReady and ClusterStackWithinRanges",
    ),
    Right(
        group=CLUSTER_API_GROUP,
        resources=("clusterclasses",),
        verbs=(*READ, "create", "patch", "delete"),
        why="apply and delete the classes of releases",
    ),
    *(
        Right(
            group=group,
            resources=(ANY,),
            verbs=(*READ, "create", "patch", "delete"),
            why="apply, follow and delete the templates of classes; read control plane and infrastructure of Clusters",
        )
        for group in sorted(TEMPLATE_GROUPS)
    ),
    Right(
        group=IMAGE_KIND[0],
        resources=("images",),
        verbs=(*READ, "create", "patch", "delete"),
        why="apply, follow and delete the node images of classes (OpenStack Resource Controller)",
    ),
    Right(
        group="infrastructure.clusterstack.x-k8s.io",
        resources=(ANY,),
        verbs=(*READ, "create", "patch"),
        why="read templates of providers; create the provider objects of releases, and follow them (--provider-kinds)",
    ),
    Right(
        group="apiextensions.k8s.io",
        resources=("customresourcedefinitions",),
        verbs=("get",),
        why="read the labels of the kinds that Clusters refer to (metadata only)",
    ),
    Right(group="", resources=("namespaces",), verbs=("get",), why="read labels for clusterNamespaces from: Selector"),
    Right(group="", resources=("events",), verbs=("create",), why="record events"),
    Right(
        group="admissionregistration.k8s.io",
        resources=("validatingwebhookconfigurations",),
        verbs=("create", "patch"),
        names=(CONFIGURATION_NAME,),
        why="register the webhooks; with --namespace the name ends in -NAMESPACE; not needed without webhooks",
    ),
    Right(
        group="",
        resources=("secrets",),
        verbs=("get",),
        scope=Scope.CLUSTERS,
        why="read the kubeconfig of each Cluster, Secret CLUSTER-kubeconfig",
    ),
    Right(
        group="",
        resources=("secrets",),
        verbs=("get",),
        scope=Scope.STACKS,
        why="read the Secrets that spec.source names: credentials, authorities, keys; not needed where none does",
    ),
    Right(
        group="",
        resources=("secrets",),
        verbs=("get", "patch"),
        scope=Scope.OWN,
        names=(SECRET_NAME,),
        why="keep the certificate of the webhooks; not needed without webhooks",
    ),
    Right(
        group="",
        resources=("secrets",),
        verbs=("create",),
        scope=Scope.OWN,
        why="create that Secret; RBAC cannot name an object that is created",
    ),
    Right(
        group="coordination.k8s.io",
        resources=("leases",),
        verbs=("get", "patch"),
        scope=Scope.OWN,
        names=(LEASE_NAME,),
        why="leader election; not needed with --leader-elect=false",
    ),
    Right(
        group="coordination.k8s.io",
        resources=("leases",),
        verbs=("create",),
        scope=Scope.OWN,
        why="create that Lease; RBAC cannot name an object that is created",
    ),
)


def policy_rules(*scopes: Scope) -> list[dict[str, Any]]:
    """Give the rules of a Role or ClusterRole with the rights of these scopes."""
    return list(_rules(right for right in RIGHTS if right.scope in scopes))


def _rules(rights: Iterable[Right]) -> Iterable[dict[str, Any]]:
    for right in rights:
        rule = {"apiGroups": [right.group], "resources": [*right.resources], "verbs": [*right.verbs]}
        yield {**rule, "resourceNames": [*right.names]} if right.names else rule
