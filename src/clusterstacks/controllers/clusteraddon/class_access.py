"""Decides whether a Cluster may use the classes of a ClusterStack, by ``spec.clusterNamespaces``."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from clusterstacks.api.clusterstack import ClusterStack
from clusterstacks.api.names import GROUP, Kind
from clusterstacks.api.selectors import NamespacesFrom
from clusterstacks.domain.errors import SpecError
from clusterstacks.domain.names import release_named
from clusterstacks.domain.objects import Manifest, ObjectKey
from clusterstacks.kube.errors import NotFound
from clusterstacks.sources.owners import is_stack

if TYPE_CHECKING:
    from collections.abc import Iterable

    from clusterstacks.api.clusterapi import ClusterView
    from clusterstacks.kube.client import Client
    from clusterstacks.runtime.cache import ObjectCache

CLASS_NOT_OFFERED = "ClassNotOffered"
"""Reason of event and condition when a class is not offered to the namespace of a Cluster."""


@dataclass(frozen=True, slots=True)
class ClassAccess:
    """Decides whether a Cluster may use releases, for the webhooks and the controllers.

    It sends requests only for the labels of the Cluster's namespace, if a rule selects by labels, and for ClusterStacks
    in namespaces that the operator does not watch.
    """

    client: Client
    stacks: ObjectCache

    async def refusal(self, cluster: ClusterView, releases: Iterable[Manifest]) -> str:
        """Return why a Cluster may not use one of the releases; empty when it may, also without any rule.

        Args:
            cluster: The Cluster.
            releases: The ClusterStackReleases of its class and of its annotations.

        Raises:
            DependencyError: The API server is not available.
        """
        labels: dict[str, str] | None = None
        for release in releases:
            for manifest in await self._stacks_of(release):
                try:
                    stack = ClusterStack.parse(manifest)
                except SpecError as error:
                    return error.message  # its rule cannot be read
                rule = stack.spec.cluster_namespaces
                if rule is None:
                    continue
                selects = rule.from_ is NamespacesFrom.SELECTOR and stack.key.namespace != cluster.namespace
                if selects and labels is None:
                    labels = await self._namespace_labels(cluster.namespace)
                if not rule.admit(cluster.namespace, stack_namespace=stack.key.namespace, labels=labels or {}):
                    return _refusal(cluster, release, stack)
        return ""

    async def _stacks_of(self, release: Manifest) -> list[Manifest]:
        """Return the ClusterStacks that own a release; read live where the operator does not watch the namespace."""
        metadata = release["metadata"]
        found = []
        for owner in filter(is_stack, metadata.get("ownerReferences") or []):
            key = ObjectKey(metadata["namespace"], owner["name"])
            stack = self.stacks.get(key)
            if stack is None:
                resource = await self.client.resource(GROUP, Kind.CLUSTER_STACK)
                stack = await self.client.find(resource, key.name, key.namespace)
            if stack is not None:
                found.append(stack)
        return found

    async def _namespace_labels(self, name: str) -> dict[str, str]:
        try:
            namespace = await self.client.get(await self.client.resource("", "Namespace"), name)
        except NotFound:
            return {}
        return dict(namespace["metadata"].get("labels") or {})


def _refusal(cluster: ClusterView, release: Manifest, stack: ClusterStack) -> str:
    named = release_named(release["metadata"]["name"])
    if named is None or named.class_name == cluster.class_name:
        what, instead = f"class {cluster.class_namespace}/{cluster.class_name}", "use another class"
    else:
        what, instead = f"release {cluster.class_namespace}/{named}, which an annotation names,", "name another release"
    return (
        f"{what} is not offered to namespace {cluster.namespace}: spec.clusterNamespaces of ClusterStack {stack.key} "
        f"(provider {stack.spec.provider}) does not include it; {instead}, or ask the administrators of "
        f"namespace {stack.key.namespace} to include it"
    )
