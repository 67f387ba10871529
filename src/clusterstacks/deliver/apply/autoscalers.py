"""Reads which objects of a cluster are scaled by a HorizontalPodAutoscaler."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from clusterstacks.model.documents import mapping, text
from clusterstacks.model.objects import split_api_version
from clusterstacks.net.kube.errors import KindNotServed

if TYPE_CHECKING:
    from clusterstacks.model.objects import ObjectId
    from clusterstacks.net.kube.client import Client

AUTOSCALERS: Final = ("autoscaling", "HorizontalPodAutoscaler")


class Autoscalers:
    """The HorizontalPodAutoscalers of a cluster, with one list for each namespace."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._scaled: dict[str, set[tuple[str, str, str]]] = {}

    async def scale(self, identity: ObjectId) -> bool:
        """Return whether one of them sets the replicas of an object."""
        namespace = identity.namespace
        if namespace not in self._scaled:
            try:
                resource = await self._client.resource(*AUTOSCALERS)
                listing = await self._client.list_readable(resource, namespace)
            except KindNotServed:
                return False
            references = [mapping(one, "spec", "scaleTargetRef") for one in listing.items]
            self._scaled[namespace] = {
                (split_api_version(text(one, "apiVersion"))[0], text(one, "kind"), text(one, "name"))
                for one in references
            }
        return (identity.group, identity.kind, identity.name) in self._scaled[namespace]
