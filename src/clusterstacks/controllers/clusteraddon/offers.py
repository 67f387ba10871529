"""Who may use the classes of a ClusterStack: its ``spec.clusterNamespaces``."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from clusterstacks.api.clusterstack import ClusterStack
from clusterstacks.api.names import GROUP, Kind
from clusterstacks.api.selectors import NamespacesFrom
from clusterstacks.domain.objects import Manifest, ObjectKey
from clusterstacks.kube.errors import NotFound

if TYPE_CHECKING:
    from clusterstacks.api.clusterapi import ClusterView
    from clusterstacks.kube.client import Client
    from clusterstacks.runtime.store import Store

CLASS_NOT_OFFERED = "ClassNotOffered"
"""Reason of event and condition where a Cluster uses a class that is not offered to its namespace."""


@dataclass(frozen=True, slots=True)
class Offers:
    """Answers whether a Cluster may use the class of a release."""

    client: Client
    stacks: Store

    async def refusal(self, cluster: ClusterView, release: Manifest) -> str:
        """Say why the Cluster may not use the release's class; empty when it may, as it does without any rule."""
        for stack in self._stacks_of(release):
            rule = stack.spec.cluster_namespaces
            if rule is None:
                continue
            labels: dict[str, str] = {}
            if rule.from_ is NamespacesFrom.SELECTOR:
                labels = await self._namespace_labels(cluster.namespace)
            if not rule.admit(cluster.namespace, home=stack.key.namespace, labels=labels):
                return (
                    f"class {cluster.class_namespace}/{cluster.class_name} is not offered to namespace "
                    f"{cluster.namespace}: clusterNamespaces of ClusterStack {stack.key} leaves it out; "
                    "use another class, or ask the provider to admit the namespace"
                )
        return ""

    def _stacks_of(self, release: Manifest) -> list[ClusterStack]:
        metadata = release["metadata"]
        owners = [
            self.stacks.get(ObjectKey(metadata["namespace"], owner["name"]))
            for owner in metadata.get("ownerReferences") or []
            if owner["kind"] == Kind.CLUSTER_STACK and owner["apiVersion"].startswith(f"{GROUP}/")
        ]
        return [ClusterStack.parse(owner) for owner in owners if owner is not None]

    async def _namespace_labels(self, name: str) -> dict[str, str]:
        try:
            namespace = await self.client.get(await self.client.resource("", "Namespace"), name)
        except NotFound:
            return {}
        return dict(namespace["metadata"].get("labels") or {})
