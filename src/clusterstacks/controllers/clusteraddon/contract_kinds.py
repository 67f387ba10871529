"""Which kinds follow Cluster API's contract, so that a Cluster's references to them may be read.

A Cluster is written by its user, and read is what it refers to with the operator's rights: without this, a reference to
a Secret or any other object would put its content into the values of addons.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from datetime import timedelta
from typing import TYPE_CHECKING, Final

from clusterstacks.api.names import CLUSTER_API_GROUP
from clusterstacks.domain.errors import SpecError

if TYPE_CHECKING:
    from collections.abc import Callable

    from clusterstacks.api.clusterapi import ObjectRef
    from clusterstacks.kube.client import Client
    from clusterstacks.kube.resources import Resource

CONTRACT_LABELS: Final = (f"{CLUSTER_API_GROUP}/v1beta2", f"{CLUSTER_API_GROUP}/v1beta1")
"""On the CustomResourceDefinition of every kind that Cluster API accepts in a Cluster's references. Source:
https://cluster-api.sigs.k8s.io/developer/providers/contracts/overview.html#api-version-labels"""

REMEMBER = timedelta(minutes=10)
"""How long the answer about a kind with a label counts. Arbitrary: no upgrade takes it away."""

REMEMBER_MISSING = timedelta(seconds=60)
"""How long the answer about a kind without a label counts; as discovery for a version that is missing."""


class ReferenceNotAllowed(SpecError):
    """A Cluster refers to an object that is not read."""

    def __init__(self, message: str) -> None:
        super().__init__("ReferenceNotAllowed", message)


@dataclass(slots=True)
class ContractKinds:
    """Reads the labels of CustomResourceDefinitions, one request per kind every few minutes."""

    client: Client
    monotonic: Callable[[], float] = time.monotonic
    _known: dict[tuple[str, str], tuple[bool, float]] = field(default_factory=dict)

    async def check(self, resource: Resource, title: str) -> None:
        """Check that the definition of a kind has a contract label.

        Args:
            resource: The kind, as the server serves it.
            title: How the message calls the reference.

        Raises:
            ReferenceNotAllowed: It has none, or the kind is not defined by a CustomResourceDefinition.
            DependencyError: The definition cannot be read.
        """
        if not resource.group or not await self._follows(resource):
            raise ReferenceNotAllowed(
                f"{title} is not read: the CustomResourceDefinition of kind {resource} has no label "
                f"{' or '.join(CONTRACT_LABELS)}; name an object of a Cluster API provider, or have the provider "
                "label its CustomResourceDefinition"
            )

    async def _follows(self, resource: Resource) -> bool:
        kind = (resource.group, resource.kind)
        follows, until = self._known.get(kind, (False, float("-inf")))
        if self.monotonic() < until:
            return follows
        # Clusters that ask at the same moment each send the small request: a lock would let them wait for each other.
        follows = await self._is_labelled(resource)
        remembered = REMEMBER if follows else REMEMBER_MISSING
        self._known[kind] = (follows, self.monotonic() + remembered.total_seconds())
        return follows

    async def _is_labelled(self, resource: Resource) -> bool:
        definitions = await self.client.resource("apiextensions.k8s.io", "CustomResourceDefinition")
        found = await self.client.find_metadata(definitions, f"{resource.plural}.{resource.group}")
        labels = (found or {"metadata": {}})["metadata"].get("labels") or {}
        return any(label in labels for label in CONTRACT_LABELS)


def check_namespace(reference: ObjectRef, namespace: str, title: str) -> None:
    """Check that a Cluster refers to an object of its own namespace, as Cluster API's webhook does.

    Raises:
        ReferenceNotAllowed: It refers to another namespace.
    """
    if reference.namespace != namespace:
        raise ReferenceNotAllowed(
            f"{title} is not read: it names namespace {reference.namespace}, but only objects of the Cluster's own "
            f"namespace {namespace} are read; remove the namespace"
        )
