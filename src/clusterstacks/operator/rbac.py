"""The RBAC rights that the operator needs in the management cluster; the reference page and the roles come from here.

A test runs the operator with exactly these rights, and every operator of the integration tests is checked to use no
others.
"""

from __future__ import annotations

import asyncio
import json
import logging
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Final

from clusterstacks.deliver.apply.class_object_rules import IMAGE_KIND, TEMPLATE_GROUPS
from clusterstacks.model.documents import mapping, mappings
from clusterstacks.model.errors import DependencyError
from clusterstacks.model.kinds.names import CLUSTER_API_GROUP, GROUP, PROVIDER_GROUP, RESOURCE_SET_GROUP, SYNC_GROUP
from clusterstacks.model.kinds.shards import MAIN_LEASE
from clusterstacks.operator.go_operator import EXTENSIONS, WEBHOOKS
from clusterstacks.operator.image_requests import SECRET_NAME as IMAGE_KEY_SECRET
from clusterstacks.operator.webhooks.configuration import NAME as CONFIGURATION_NAME
from clusterstacks.operator.webhooks.configuration import OWNER, SECRET_NAME, WebhookScope

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence

    from clusterstacks.model.objects import Manifest
    from clusterstacks.net.kube.client import Client

log = logging.getLogger(__name__)

READ: Final = ("get", "list", "watch")
ANY: Final = "*"
"""Every resource of a group, also its subresources."""


class RightScope(StrEnum):
    """The scope of a right."""

    CLUSTER = "cluster"
    """Objects without a namespace: a ClusterRoleBinding."""
    WATCHED = "watched namespaces"
    """All namespaces: a ClusterRoleBinding. With ``--namespace`` that one: a RoleBinding."""
    CLUSTERS = "namespaces of Clusters"
    """A RoleBinding in each of them."""
    STACKS = "namespaces of ClusterStacks"
    """A RoleBinding in each of them."""
    OWN = "the operator's namespace"


class Feature(StrEnum):
    """Optional features that need further rights."""

    WEBHOOKS = "webhooks"
    NO_WEBHOOKS = "disabled webhooks"
    ELECTION = "leader election"
    NODE_IMAGES = "node images"


@dataclass(frozen=True, slots=True, kw_only=True)
class Right:
    """Verbs on resources of one group."""

    group: str
    """The API group, empty for the core group."""
    resources: tuple[str, ...]
    """Plural names, with the subresource after a slash, or ``ANY``."""
    verbs: tuple[str, ...]
    """RBAC verbs. A server-side apply needs ``patch``, and ``create`` if it creates the object."""
    why: str
    """Purpose, for the reference page."""
    scope: RightScope = RightScope.WATCHED
    everywhere: tuple[str, ...] = ()
    """The verbs that are needed in all namespaces, even with ``--namespace``."""
    names: tuple[str, ...] = ()
    """Names of the only objects; empty for all."""
    only_with: tuple[Feature, ...] = ()
    """The optional features that need it; empty for rights that are always needed."""

    def covers(self, group: str, resource: str, verb: str) -> bool:
        """Return whether this right allows a request, regardless of the scope."""
        return group == self.group and verb in self.verbs and (ANY in self.resources or resource in self.resources)

    def rule(self) -> dict[str, Any]:
        """Return the rule of a Role or ClusterRole."""
        rule = {"apiGroups": [self.group], "resources": [*self.resources], "verbs": [*self.verbs]}
        return {**rule, "resourceNames": [*self.names]} if self.names else rule


RIGHTS: Final = (
    Right(
        group=GROUP,
        resources=("clusterstacks",),
        verbs=READ,
        everywhere=("get",),
        why="watch ClusterStacks; read those of other namespaces whose classes are used",
    ),
    Right(
        group=GROUP,
        resources=("clusterstackreleases",),
        verbs=(*READ, "create", "patch", "delete"),
        everywhere=("get",),
        why="create and delete the releases of a ClusterStack; pin digests; owner references and finalizers; read "
        "those of other namespaces whose classes are used",
    ),
    Right(
        group=GROUP,
        resources=("clusteraddons",),
        verbs=(*READ, "create", "patch"),
        why="create one for each Cluster; record what was delivered; finalizers",
    ),
    Right(
        group=GROUP,
        resources=(
            "clusterstacks/status",
            "clusterstackreleases/status",
            "clusteraddons/status",
            "clusterupgrades/status",
        ),
        verbs=("patch",),
        why="write status",
    ),
    Right(group=GROUP, resources=("clusterupgrades",), verbs=READ, why="watch ClusterUpgrades"),
    Right(
        group=SYNC_GROUP,
        resources=("clusterresourcesyncs",),
        verbs=(*READ, "patch"),
        why="watch ClusterResourceSyncs; finalizers",
    ),
    Right(
        group=SYNC_GROUP,
        resources=("clusterresourcesyncbindings",),
        verbs=(*READ, "create", "patch", "delete"),
        why="create one for each selected Cluster, delete those of others; finalizers",
    ),
    Right(
        group=SYNC_GROUP,
        resources=("clusterresourcesyncs/status", "clusterresourcesyncbindings/status"),
        verbs=("patch",),
        why="write status",
    ),
    Right(
        group=RESOURCE_SET_GROUP,
        resources=("clusterresourcesets",),
        verbs=READ,
        why="watch ClusterResourceSets of Cluster API, of which an annotation has the objects kept in place",
    ),
    Right(
        group=RESOURCE_SET_GROUP,
        resources=("clusterresourcesetbindings",),
        verbs=("get",),
        why="read which objects Cluster API has applied for such a ClusterResourceSet",
    ),
    Right(
        group=GROUP,
        resources=("compatibilityrules",),
        verbs=("list", "watch"),
        scope=RightScope.CLUSTER,
        why="watch the rules",
    ),
    Right(
        group=CLUSTER_API_GROUP,
        resources=("clusters",),
        verbs=(*READ, "patch"),
        everywhere=("list",),
        why="watch Clusters; before a release is deleted, in all namespaces, also with --namespace; hold and release "
        "their upgrades by an annotation; take the steps of ClusterUpgrades",
    ),
    Right(
        group=CLUSTER_API_GROUP,
        resources=("clusters/status",),
        verbs=("patch",),
        why="conditions ClusterStackAddonsReady, -Healthy and -InSync, and ClusterStackWithinRanges",
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
            why="apply, watch and delete the templates of classes; read control plane and infrastructure of Clusters",
        )
        for group in sorted(TEMPLATE_GROUPS)
    ),
    Right(
        group=IMAGE_KIND[0],
        resources=("images",),
        verbs=(*READ, "create", "patch", "delete"),
        why="apply, watch and delete the node images of classes (OpenStack Resource Controller)",
    ),
    Right(
        group=PROVIDER_GROUP,
        resources=(ANY,),
        verbs=(*READ, "create", "patch"),
        why="read templates of providers; create and watch the provider objects of releases (--provider-kinds); "
        "all that --providers needs",
    ),
    Right(
        group="apiextensions.k8s.io",
        resources=("customresourcedefinitions",),
        verbs=("get",),
        scope=RightScope.CLUSTER,
        why="read the labels of the kinds that Clusters refer to (metadata only)",
    ),
    Right(
        group="",
        resources=("namespaces",),
        verbs=("get",),
        scope=RightScope.CLUSTER,
        why="read labels for clusterNamespaces from: Selector",
    ),
    Right(group="", resources=("events",), verbs=("create",), why="record events"),
    Right(
        group="admissionregistration.k8s.io",
        resources=("validatingwebhookconfigurations",),
        verbs=("create", "patch"),
        scope=RightScope.CLUSTER,
        names=(CONFIGURATION_NAME,),
        only_with=(Feature.WEBHOOKS,),
        why="register the webhooks; with --namespace the name ends in -NAMESPACE; not needed without webhooks",
    ),
    Right(
        group=OWNER[0],
        resources=("clusterroles",),
        verbs=("get",),
        scope=RightScope.CLUSTER,
        names=(CONFIGURATION_NAME,),
        only_with=(Feature.WEBHOOKS,),
        why="make the ClusterRole of this name, if there is one, the owner of the webhooks, which are deleted with it; "
        "with --namespace the name ends in -NAMESPACE",
    ),
    Right(
        group="admissionregistration.k8s.io",
        resources=("validatingwebhookconfigurations",),
        verbs=("get", "delete"),
        scope=RightScope.CLUSTER,
        names=(CONFIGURATION_NAME,),
        only_with=(Feature.NO_WEBHOOKS,),
        why="with --webhook-port=0, delete those of an earlier start; with --namespace the name ends in -NAMESPACE",
    ),
    Right(
        group=WEBHOOKS[0],
        resources=("validatingwebhookconfigurations",),
        verbs=("list",),
        scope=RightScope.CLUSTER,
        why="find leftovers of the Go operator",
    ),
    Right(
        group=EXTENSIONS[0],
        resources=("extensionconfigs",),
        verbs=("list",),
        scope=RightScope.CLUSTER,
        why="find leftovers of the Go operator",
    ),
    Right(
        group="authorization.k8s.io",
        resources=("selfsubjectrulesreviews",),
        verbs=("create",),
        scope=RightScope.CLUSTER,
        why="report which of these rights are missing; Kubernetes' default role system:basic-user has it",
    ),
    Right(
        group="authorization.k8s.io",
        resources=("subjectaccessreviews",),
        verbs=("create",),
        scope=RightScope.CLUSTER,
        only_with=(Feature.WEBHOOKS,),
        why="ask whether the writer of a ClusterUpgrade may update the Clusters of its namespace; not needed without "
        "webhooks",
    ),
    Right(
        group="",
        resources=("secrets",),
        verbs=("get",),
        scope=RightScope.CLUSTERS,
        why="read the kubeconfig of each Cluster, Secret CLUSTER-kubeconfig, and the Secrets that a "
        "ClusterResourceSync names",
    ),
    Right(
        group="",
        resources=("configmaps",),
        verbs=READ,
        why="read the ConfigMaps that a ClusterResourceSync names, and watch metadata; not needed if none does",
    ),
    Right(
        group="",
        resources=("secrets",),
        verbs=("get",),
        scope=RightScope.STACKS,
        why="read the Secrets that spec.source names: credentials, authorities, keys; not needed if none does",
    ),
    Right(
        group="",
        resources=("secrets",),
        verbs=("get", "patch"),
        scope=RightScope.OWN,
        names=(SECRET_NAME,),
        only_with=(Feature.WEBHOOKS,),
        why="rotate the certificate of the webhooks; not needed without webhooks",
    ),
    Right(
        group="",
        resources=("secrets",),
        verbs=("get",),
        scope=RightScope.OWN,
        names=(IMAGE_KEY_SECRET,),
        only_with=(Feature.NODE_IMAGES,),
        why="read the key in the URLs of node images; only needed with --node-image-bind-address",
    ),
    Right(
        group="",
        resources=("secrets",),
        verbs=("create",),
        scope=RightScope.OWN,
        only_with=(Feature.WEBHOOKS, Feature.NODE_IMAGES),
        why="create these Secrets; RBAC cannot name an object that is created",
    ),
    Right(
        group="coordination.k8s.io",
        resources=("leases",),
        verbs=("patch",),
        scope=RightScope.OWN,
        names=(MAIN_LEASE,),
        only_with=(Feature.ELECTION,),
        why="leader election; not needed with --leader-elect=false. A shard has the Lease SHARD.clusterstack.x-k8s.io",
    ),
    Right(
        group="coordination.k8s.io",
        resources=("leases",),
        verbs=("get", "create"),
        scope=RightScope.OWN,
        only_with=(Feature.ELECTION,),
        why="read this Lease and those of shards; create it: RBAC cannot name an object that is created",
    ),
)


TAKE_OVER_RIGHTS: Final = (
    Right(
        group=WEBHOOKS[0],
        resources=("validatingwebhookconfigurations",),
        verbs=("delete",),
        scope=RightScope.CLUSTER,
        why="--take-over deletes those of the Go operator",
    ),
    Right(
        group=EXTENSIONS[0],
        resources=("extensionconfigs",),
        verbs=("delete",),
        scope=RightScope.CLUSTER,
        why="--take-over deletes those of the Go operator",
    ),
    Right(
        group="",
        resources=("pods",),
        verbs=("get",),
        scope=RightScope.OWN,
        why="started as /manager: read its own pod, to find the Service of the webhooks",
    ),
    Right(
        group="",
        resources=("services",),
        verbs=("list",),
        scope=RightScope.OWN,
        why="started as /manager: find the Service of the webhooks",
    ),
)
"""Rights needed once, where the operator takes over an installation of the Go operator."""

_CHECKED: Final = {
    GROUP,
    SYNC_GROUP,
    CLUSTER_API_GROUP,
    "apiextensions.k8s.io",
    WEBHOOKS[0],
    "coordination.k8s.io",
    "",
}
"""API groups whose rights every installation needs; rights for providers depend on the stacks."""


def policy_rules(*scopes: RightScope) -> list[dict[str, Any]]:
    """Return the rules of a Role or ClusterRole with the rights of these scopes."""
    return [right.rule() for right in RIGHTS if right.scope in scopes]


def missing_rights(
    rules: Iterable[Mapping[str, Any]],
    features: Collection[Feature],
    watched: str = "",
    watched_rules: Iterable[Mapping[str, Any]] = (),
) -> list[Right]:
    """Return the rights that an account lacks.

    ``rules`` are those of the account in the operator's namespace, as a SelfSubjectRulesReview lists them;
    ``watched_rules`` those in the only namespace that the operator watches, ``watched`` (empty for all).
    """
    needed = [
        replace(right, names=(WebhookScope(watched).name,)) if right.names == (CONFIGURATION_NAME,) else right
        for right in RIGHTS
        if right.group in _CHECKED
        and right.scope in (RightScope.CLUSTER, RightScope.WATCHED, RightScope.OWN)
        and (not right.only_with or any(feature in features for feature in right.only_with))
    ]
    known, known_there = list(rules), list(watched_rules)
    if not watched:
        return [missing for right in needed if (missing := _missing_part(right, known)) is not None]
    everywhere = [
        replace(right, verbs=right.everywhere, scope=RightScope.CLUSTER) for right in needed if right.everywhere
    ]
    there = [right for right in needed if right.scope is RightScope.WATCHED]
    elsewhere = [right for right in needed if right.scope is not RightScope.WATCHED]
    pairs = [*((right, known) for right in (*everywhere, *elsewhere)), *((right, known_there) for right in there)]
    return [missing for right, rules in pairs if (missing := _missing_part(right, rules)) is not None]


def _missing_part(right: Right, rules: Iterable[Mapping[str, Any]]) -> Right | None:
    def allowed(resource: str, verb: str) -> bool:
        return any(
            _holds(rule.get("apiGroups"), right.group)
            and _holds(rule.get("resources"), resource)
            and _holds(rule.get("verbs"), verb)
            and (not rule.get("resourceNames") or (bool(right.names) and {*right.names} <= {*rule["resourceNames"]}))
            for rule in rules
        )

    refused = [(resource, verb) for resource in right.resources for verb in right.verbs if not allowed(resource, verb)]
    if not refused:
        return None
    resources = tuple(dict.fromkeys(resource for resource, _ in refused))
    return replace(right, resources=resources, verbs=tuple(dict.fromkeys(verb for _, verb in refused)))


def _holds(listed: Sequence[str] | None, wanted: str) -> bool:
    return wanted in (listed or ()) or ANY in (listed or ())


@dataclass(frozen=True, slots=True, kw_only=True)
class RightsCheck:
    """Compares the rights of the operator's account with those that it needs, once at the start."""

    client: Client
    namespace: str
    features: frozenset[Feature]
    watched: str = ""
    """The only namespace that the operator watches; empty for all."""

    async def run(self) -> None:
        """Log the missing rights, then wait until cancelled."""
        try:
            rules = await self._rules(self.namespace)
            watched_rules = await self._rules(self.watched) if self.watched else []
        except DependencyError as error:
            log.info("The rights of the operator's account cannot be read: %s", error)
        else:
            if rules is not None and watched_rules is not None:
                self._report(missing_rights(rules, self.features, self.watched, watched_rules))
        await asyncio.Event().wait()

    async def _rules(self, namespace: str) -> list[Manifest] | None:
        """Return the rules of the account in a namespace; None if an authorizer cannot list its rules."""
        resource = await self.client.resource("authorization.k8s.io", "SelfSubjectRulesReview")
        review = {"apiVersion": resource.api_version, "kind": resource.kind, "spec": {"namespace": namespace}}
        status = mapping(await self.client.create(resource, review), "status")
        return None if status.get("incomplete") else list(mappings(status, "resourceRules"))

    def _report(self, missing: Sequence[Right]) -> None:
        for scope, role in (
            (RightScope.CLUSTER, "its ClusterRole"),
            (RightScope.WATCHED, f"a Role in namespace {self.watched}" if self.watched else "its ClusterRole"),
            (RightScope.OWN, f"a Role in namespace {self.namespace}"),
        ):
            rules = [json.dumps(right.rule()) for right in missing if right.scope is scope]
            if rules:
                listed = "\n- ".join(rules)
                log.warning("The operator's account lacks rights. Add these rules to %s:\n- %s", role, listed)
