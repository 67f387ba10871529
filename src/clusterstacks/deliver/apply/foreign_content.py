"""Detects user objects in namespaces and CRDs that are about to be pruned, because they would be deleted as well."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final

from clusterstacks.deliver.apply.ownership import PART_OF_LABEL
from clusterstacks.deliver.apply.policy import reason_to_keep
from clusterstacks.deliver.apply.targets import defined_kinds
from clusterstacks.deliver.apply.waiting import CRDS
from clusterstacks.deliver.apply.waves import CRD_KIND, NAMESPACE_KIND
from clusterstacks.model.objects import Manifest, ObjectId, ObjectKey, split_api_version
from clusterstacks.net.kube.errors import KindNotServed
from clusterstacks.runtime.concurrency import gather

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from clusterstacks.net.kube.client import Client
    from clusterstacks.net.kube.resources import Resource

SHOWN_OBJECTS: Final = 3
"""Objects that a reason names (arbitrary)."""

_NAMESPACE_CONTENT: Final = (
    ("", "ConfigMap"),
    ("", "PersistentVolumeClaim"),
    ("", "Pod"),
    ("", "ReplicationController"),
    ("", "Secret"),
    ("", "Service"),
    ("", "ServiceAccount"),
    ("apps", "DaemonSet"),
    ("apps", "Deployment"),
    ("apps", "ReplicaSet"),
    ("apps", "StatefulSet"),
    ("autoscaling", "HorizontalPodAutoscaler"),
    ("batch", "CronJob"),
    ("batch", "Job"),
    ("networking.k8s.io", "Ingress"),
    ("networking.k8s.io", "NetworkPolicy"),
    ("policy", "PodDisruptionBudget"),
    ("rbac.authorization.k8s.io", "Role"),
    ("rbac.authorization.k8s.io", "RoleBinding"),
)
"""Built-in kinds that users create; other kinds (events, leases, endpoints, quotas) follow from these."""

_KUBERNETES_OWN: Final = frozenset({"default", "kube-node-lease", "kube-public", "kube-system"})
"""Namespaces that every API server creates (controlplane/controller/systemnamespaces). Charts may render them: Cilium's
``tls.secretsNamespace`` can be ``kube-system``."""

_EVERYWHERE: Final = frozenset({("ConfigMap", "kube-root-ca.crt"), ("ServiceAccount", "default")})
"""Objects that Kubernetes itself creates in every namespace."""


class ForeignContentCheck:
    """Keeps CRDs and namespaces that contain objects of others.

    Args:
        leaving: Ids of the ApplySets whose members are all pruned.
        kept: Members that are kept nevertheless.
    """

    def __init__(self, client: Client, leaving: Collection[str], kept: Collection[ObjectId]) -> None:
        self._client = client
        self._leaving = leaving
        self._kept = kept

    async def __call__(self, identity: ObjectId) -> str:
        """Return why an object must be kept; empty when it may be deleted."""
        kind = (identity.group, identity.kind)
        if kind == CRD_KIND:
            content = await self._instances(identity)
            holds = "custom resources of it are still in use"
        elif kind == NAMESPACE_KIND:
            if identity.name in _KUBERNETES_OWN:
                return "it is a namespace of Kubernetes itself"
            content = await self._content(identity.name)
            holds = "it contains objects that are still in use"
        else:
            return ""
        return f"{holds}: {_shown(content)}" if content else ""

    async def _instances(self, crd: ObjectId) -> list[Manifest]:
        live = await self._client.find(CRDS, crd.name)
        kinds = defined_kinds([live] if live else ())
        # All versions serve the same objects.
        places = [next(iter(versions.values())) for versions in kinds.values()]
        return await self._foreign(places, "")

    async def _content(self, namespace: str) -> list[Manifest]:
        places = [place for kind in _NAMESPACE_CONTENT if (place := await self._place(*kind))]
        crds = await self._client.list(CRDS)
        custom = [next(iter(versions.values())) for versions in defined_kinds(crds.items).values()]
        return await self._foreign(places + [place for place in custom if place.namespaced], namespace)

    async def _place(self, group: str, kind: str) -> Resource | None:
        try:
            return await self._client.resource(group, kind)
        except KindNotServed:
            return None

    async def _foreign(self, places: Sequence[Resource], namespace: str) -> list[Manifest]:
        found = await gather(partial(self._members, namespace), places)
        return [item for items in found for item in items if not self._is_deleted_anyway(item)]

    async def _members(self, namespace: str, place: Resource) -> list[Manifest]:
        try:
            return (await self._client.list_metadata(place, namespace)).items
        except KindNotServed:
            return []

    def _is_deleted_anyway(self, item: Manifest) -> bool:
        metadata = item["metadata"]
        group, _ = split_api_version(item["apiVersion"])
        identity = ObjectId(group, item["kind"], metadata.get("namespace") or "", metadata["name"])
        leaves_with_us = (metadata.get("labels") or {}).get(PART_OF_LABEL) in self._leaving
        return bool(
            metadata.get("deletionTimestamp")
            or metadata.get("ownerReferences")
            or (leaves_with_us and identity not in self._kept and not reason_to_keep(item))
            or (item["kind"], metadata["name"]) in _EVERYWHERE
        )


def _shown(items: Sequence[Manifest]) -> str:
    names = [
        f"{item['kind']} {ObjectKey(item['metadata'].get('namespace') or '', item['metadata']['name'])}"
        for item in items[:SHOWN_OBJECTS]
    ]
    more = len(items) - len(names)
    return ", ".join(names) + (f" and {more} more" if more else "")
