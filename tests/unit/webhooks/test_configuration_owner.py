"""The ValidatingWebhookConfiguration belongs to the ClusterRole of its name."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest

from clusterstacks.domain.objects import ObjectKey
from clusterstacks.kube.errors import Forbidden
from clusterstacks.kube.resources import Resource
from clusterstacks.kube.tls import server_context
from clusterstacks.runtime.clock import SYSTEM_CLOCK
from clusterstacks.webhooks.certificates import CertificateRotator
from clusterstacks.webhooks.configuration import NAME, Endpoint, WebhookScope
from tests.support.fakes.api_server import FakeApi

if TYPE_CHECKING:
    from clusterstacks.domain.objects import Manifest

SECRETS = Resource("", "v1", "Secret", "secrets", namespaced=True)
ROLES = Resource("rbac.authorization.k8s.io", "v1", "ClusterRole", "clusterroles", namespaced=False)
WEBHOOKS = Resource(
    "admissionregistration.k8s.io",
    "v1",
    "ValidatingWebhookConfiguration",
    "validatingwebhookconfigurations",
    namespaced=False,
)


class Server(FakeApi):
    """Takes what is applied as it is; ``forbidden`` calls of a verb are refused."""

    def __init__(self, *, forbidden: str = "") -> None:
        super().__init__(SECRETS, ROLES, WEBHOOKS)
        self.applied: list[Manifest] = []
        if forbidden:
            self.fail(forbidden, Forbidden(f"{forbidden}: 403 Forbidden: not you", status=403, reason="Forbidden"))

    async def apply(self, resource: Resource, manifest: Manifest, **how: Any) -> Manifest:
        await self._meet("apply", resource=resource, **how)
        self.applied.append(manifest)
        return manifest


async def registered(api: Server) -> Manifest:
    """Look once, and give the configuration."""
    listening = asyncio.Event()
    listening.set()
    keeper = CertificateRotator(
        client=api,
        secret=ObjectKey("home", "webhook"),
        endpoint=Endpoint(url="https://127.0.0.1:9443"),
        scope=WebhookScope(),
        context=server_context(),
        listening=listening,
        clock=SYSTEM_CLOCK,
    )
    await keeper.look()
    assert keeper.registered.is_set()
    (applied,) = api.applied
    return applied


async def with_role(api: Server) -> str:
    """Create the ClusterRole, and give its uid."""
    manifest: Manifest = {"apiVersion": ROLES.api_version, "kind": ROLES.kind, "metadata": {"name": NAME}}
    uid: str = (await api.create(ROLES, manifest))["metadata"]["uid"]
    return uid


async def test_the_cluster_role_owns_the_webhooks() -> None:
    api = Server()
    owner = {"apiVersion": ROLES.api_version, "kind": ROLES.kind, "name": NAME, "uid": await with_role(api)}
    assert (await registered(api))["metadata"]["ownerReferences"] == [owner]


async def test_webhooks_without_a_cluster_role_have_no_owner() -> None:
    assert "ownerReferences" not in (await registered(Server()))["metadata"]


@pytest.mark.parametrize("verb", ["find_metadata", "apply"])
async def test_webhooks_are_registered_where_the_owner_is_not_allowed(verb: str) -> None:
    api = Server(forbidden=verb)
    await with_role(api)
    assert "ownerReferences" not in (await registered(api))["metadata"]
