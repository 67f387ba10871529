"""Deletes the registration of webhooks that are disabled; without it the API server refuses every write of our kinds.

A module of its own, because an operator without webhooks loads neither certificates nor the server.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Final

from clusterstacks.model.documents import mappings, text
from clusterstacks.model.errors import ClusterStacksError
from clusterstacks.net.kube.errors import Conflict, NotFound
from clusterstacks.operator.webhooks.configuration import CONFIGURATION

if TYPE_CHECKING:
    from clusterstacks.model.objects import Manifest
    from clusterstacks.net.kube.client import Client
    from clusterstacks.runtime.clock import Clock

INTERVAL_SECONDS: Final = 60.0
"""Interval of checks, as of replicas with webhooks: one that is still stopping may register them again."""

log = logging.getLogger(__name__)


async def unregister(client: Client, name: str, namespace: str, clock: Clock) -> None:
    """Delete the ValidatingWebhookConfiguration whenever it appears; runs until cancelled.

    ``namespace`` is the operator's own: webhooks in other namespaces belong to another installation.
    """
    while True:
        try:
            resource = await client.resource(*CONFIGURATION, "v1")
            registration = await client.find(resource, name)
            if registration is not None and _namespaces(registration) == {namespace}:
                await client.delete(resource, name, uid=text(registration, "metadata", "uid"))
                log.info("The webhooks are disabled: %s %s was deleted", resource.kind, name)
        except (Conflict, NotFound):
            pass  # replaced or deleted since it was read
        except ClusterStacksError as error:
            log.warning("The webhooks are disabled, but their registration cannot be checked: %s; trying again", error)
        await clock.sleep(INTERVAL_SECONDS)


def _namespaces(registration: Manifest) -> set[str]:
    webhooks = mappings(registration, "webhooks")
    return {text(webhook, "clientConfig", "service", "namespace") for webhook in webhooks}
