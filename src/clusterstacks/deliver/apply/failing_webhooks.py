"""Handles failing admission webhooks of a workload cluster: finds their configurations, and deletes those to be pruned.

The API server does not call webhooks for webhook configurations, so these can always be read and deleted.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final, TypeVar

from clusterstacks.deliver.apply.ownership import PART_OF_LABEL
from clusterstacks.deliver.apply.policy import reason_to_keep
from clusterstacks.deliver.apply.waiting import pauses
from clusterstacks.model.documents import mappings, text
from clusterstacks.model.errors import ClusterStacksError
from clusterstacks.model.objects import Manifest, ObjectId
from clusterstacks.net.kube.errors import Conflict, NotFound, WebhookFailed
from clusterstacks.net.kube.resources import Resource
from clusterstacks.runtime.concurrency import gather

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
    from datetime import timedelta

    from clusterstacks.deliver.apply.delivery_plan import RecordedObject
    from clusterstacks.deliver.apply.results import ObjectResult
    from clusterstacks.net.kube.client import Client

T = TypeVar("T")

GROUP: Final = "admissionregistration.k8s.io"
CONFIGURATIONS: Final = tuple(
    Resource(GROUP, "v1", kind, f"{kind.lower()}s", namespaced=False)
    for kind in ("ValidatingWebhookConfiguration", "MutatingWebhookConfiguration")
)


@dataclass(frozen=True, slots=True)
class _Configured:
    """A live webhook configuration and the resource it is served as."""

    resource: Resource
    live: Manifest

    @property
    def id(self) -> ObjectId:
        return ObjectId(GROUP, self.resource.kind, "", self.live["metadata"]["name"])


class FailingWebhooks:
    """The failing webhooks of one cluster, for one delivery or prune.

    Args:
        client: The workload cluster.
        leaving: Objects that are going to be pruned, by addon. A webhook configuration among them that prevents
            writes is deleted at once, if it is part of the addon and has the recorded uid.
        addons: The addons of the cluster by the id of their ApplySet.
        limit: Time that the API server may take to drop a deleted configuration.
    """

    def __init__(
        self,
        client: Client,
        leaving: Mapping[str, Iterable[RecordedObject]],
        addons: Mapping[str, str],
        limit: timedelta,
    ) -> None:
        self._client = client
        # An interrupted delivery leaves no uid in the record: then only the label tells the owner of the object.
        self._leaving = {known.id: (addon, known) for addon, objects in leaving.items() for known in objects}
        self._addons = addons
        self._limit = limit
        self._found: dict[str, Sequence[_Configured] | None] = {}
        self._gone: dict[str, bool] = {}

    async def retry_write(self, write: Callable[[], Awaitable[T]]) -> T:
        """Await a write; retry it after the deletion of a configuration that blocked it and is going to be pruned.

        Raises:
            WebhookFailed: Another webhook failed; the message names its configuration and what to do.
        """
        waits = pauses(self._limit)
        while True:
            try:
                return await write()
            except WebhookFailed as error:
                pause = next(waits, None)
                if pause is None or not await self.delete_leaving(error.webhook):
                    raise error.with_advice(await self.advice(error.webhook)) from None
            await asyncio.sleep(pause)

    async def delete_leaving(self, webhook: str) -> bool:
        """Delete the configurations of a webhook that are going to be pruned; return whether none is left."""
        if webhook not in self._gone:
            found = await self._configured(webhook)
            self._gone[webhook] = found is not None and all([await self._delete(one) for one in found])
        return self._gone[webhook]

    async def add_advice(self, result: ObjectResult) -> ObjectResult:
        """Add to a result how to repair the webhook that failed."""
        if not result.webhook:
            return result
        return replace(result, error=f"{result.error}; {await self.advice(result.webhook)}")

    async def advice(self, webhook: str) -> str:
        """Return where a webhook is configured, and how to repair it."""
        found = await self._configured(webhook)
        if not found:
            kinds = " or ".join(resource.kind for resource in CONFIGURATIONS)
            return f"repair the service of webhook {webhook}, or delete the {kinds} that lists it"
        one = found[0]
        addon = self._owner(one)
        owner = f" of addon {addon}" if addon else ""
        name = one.id.name
        return (
            f"webhook {webhook} is configured by {one.resource.kind} {name}{owner}: repair the service it names, or "
            f"delete it in the workload cluster: kubectl delete {one.resource.kind.lower()} {name}"
        )

    def _owner(self, one: _Configured) -> str:
        """Return the addon that a configuration is part of; empty if it is part of none."""
        return self._addons.get(text(one.live, "metadata", "labels", PART_OF_LABEL), "")

    async def _configured(self, webhook: str) -> Sequence[_Configured] | None:
        """Find the configurations that have a webhook; None when they cannot be read."""
        if webhook not in self._found:
            self._found[webhook] = await self._look(webhook)
        return self._found[webhook]

    async def _look(self, webhook: str) -> Sequence[_Configured] | None:
        try:
            listings = await gather(self._client.list, CONFIGURATIONS)
        except ClusterStacksError:
            return None
        return [
            _Configured(resource, item)
            for resource, listing in zip(CONFIGURATIONS, listings, strict=True)
            for item in listing.items
            if any(text(one, "name") == webhook for one in mappings(item, "webhooks"))
        ]

    async def _delete(self, one: _Configured) -> bool:
        uid = one.live["metadata"]["uid"]
        addon, known = self._leaving.get(one.id, ("", None))
        if known is None or addon != self._owner(one) or known.uid not in {"", uid}:
            return False
        if known.protected or reason_to_keep(one.live):
            return False
        try:
            await self._client.delete(one.resource, one.id.name, uid=uid)
        except (NotFound, Conflict):
            return True
        except ClusterStacksError:
            return False
        return True
