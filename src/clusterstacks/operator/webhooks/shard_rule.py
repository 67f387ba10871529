"""Validates the shard that a Cluster asks for."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from clusterstacks.model.documents import text
from clusterstacks.model.kinds.shards import MAIN, shard_of, shard_refusal

if TYPE_CHECKING:
    from collections.abc import Collection

    from clusterstacks.net.kube.client import Client
    from clusterstacks.operator.webhooks.reviews import AdmissionRequest


@dataclass(frozen=True, slots=True)
class ShardRule:
    """Allows the shards of the installation, as far as the annotation of the namespace does not limit them."""

    client: Client
    shards: Collection[str]

    async def refusal(self, request: AdmissionRequest) -> str:
        """Return why a Cluster may not get a new shard; empty if it may, or has it already."""
        wanted = shard_of(request.new)
        if wanted in (MAIN, shard_of(request.old)):
            return ""
        namespaces = await self.client.resource("", "Namespace")
        namespace = await self.client.find(namespaces, text(request.new, "metadata", "namespace"))
        return shard_refusal(wanted, self.shards, namespace)
