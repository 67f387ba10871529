"""Keeps the webhooks' certificate: in a Secret all replicas share, in the server, and trusted by the API server.

Whoever finds none, or one that ends soon, makes the next; the Secret's resource version lets only one of them win. A
new certificate is trusted first and served later, so that no question meets a certificate the API server does not know.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Final

from clusterstacks.domain.errors import ClusterStacksError
from clusterstacks.kube.errors import AlreadyExists, Conflict, Forbidden
from clusterstacks.kube.pki import validity
from clusterstacks.kube.tls import serve_with
from clusterstacks.webhooks.certificates import Serving, Times, made, read_secret
from clusterstacks.webhooks.configuration import Endpoint, WebhookScope, configuration

if TYPE_CHECKING:
    import ssl

    from clusterstacks.domain.objects import Manifest, ObjectKey
    from clusterstacks.kube.client import Client
    from clusterstacks.runtime.clock import Clock

SECRET_NAME: Final = "cluster-stack-operator-webhook"  # noqa: S105 - the name of an object
MANAGER: Final = "cluster-stack-operator"
OWNER: Final = ("rbac.authorization.k8s.io", "ClusterRole")
"""API group and kind of what owns the ValidatingWebhookConfiguration."""

log = logging.getLogger(__name__)


class CertificateKeeper:
    """Keeps the certificate of one process.

    Args:
        client: The management cluster.
        secret: Namespace and name of the Secret.
        endpoint: Where the API server finds the webhooks.
        scope: For which objects.
        context: Of the server.
        listening: Set once the server can be called: nobody is told of it before.
        clock: Time.
        times: How long things take.
    """

    def __init__(  # noqa: PLR0913 - what it joins: Secret, configuration and server
        self,
        *,
        client: Client,
        secret: ObjectKey,
        endpoint: Endpoint,
        scope: WebhookScope,
        context: ssl.SSLContext,
        listening: asyncio.Event,
        clock: Clock,
        times: Times | None = None,
    ) -> None:
        self.served = asyncio.Event()
        self.registered = asyncio.Event()
        self._client = client
        self._secret = secret
        self._endpoint = endpoint
        self._scope = scope
        self._context = context
        self._listening = listening
        self._clock = clock
        self._times = times or Times()
        self._serving: Serving | None = None
        self._waiting: Serving | None = None
        self._serve_at = 0.0

    def expiry(self) -> float:
        """Return when the certificate that is served expires (Unix time); 0 before there is one."""
        return validity(self._serving.certificate).until.timestamp() if self._serving else 0.0

    async def run(self) -> None:
        """Keep it until cancelled; ``served`` is set once the server has a certificate.

        ``registered`` is set once the webhooks are registered at the API server.
        """
        while True:
            try:
                await self.look()
            except ClusterStacksError as error:
                log.warning("The certificate of the webhooks cannot be looked after: %s; trying again", error)
            await self._clock.sleep(self._pause())

    async def look(self) -> None:
        """Look once: renew what is due, tell the API server what to trust, serve with what it had time to learn.

        Raises:
            DependencyError: The API server does not answer, or refuses Secret or configuration.
        """
        found = await self._current()
        if self._serving is None:
            # Nobody calls this process yet, and others serve with this very certificate or one trusted with it.
            serve_with(self._context, found.certificate, found.key)
            self._serving = found
            self.served.set()
        await self._tell(found)
        if found == self._serving:
            self._waiting = None
        elif found != self._waiting:
            self._waiting = found
            self._serve_at = self._clock.monotonic() + self._times.settle.total_seconds()
        elif self._clock.monotonic() >= self._serve_at:
            serve_with(self._context, found.certificate, found.key)
            self._serving, self._waiting = found, None
            log.info("The webhooks are served with a new certificate")

    def _pause(self) -> float:
        """Return the seconds until the next look; a replica that waits looks again when the time has come."""
        look = self._times.look.total_seconds()
        if self._waiting is None:
            return look
        return min(look, max(self._serve_at - self._clock.monotonic(), 0.0))

    async def _current(self) -> Serving:
        """Return what the Secret holds, made or renewed where that is due."""
        resource = await self._client.resource("", "Secret", "v1")
        while True:
            secret = await self._client.find(resource, self._secret.name, self._secret.namespace)
            found = read_secret(secret) if secret is not None else None
            if found is not None and not found.is_due(self._endpoint.names, self._times.lifetime, self._clock.now()):
                return found
            new = made(self._endpoint.names, self._times.lifetime, self._clock.now(), found)
            try:
                if secret is None:
                    await self._client.create(resource, self._manifest(new))
                else:
                    patch = {"metadata": {"resourceVersion": secret["metadata"]["resourceVersion"]}}
                    patch |= {"data": new.secret_data()}
                    await self._client.merge_patch(resource, self._secret.name, patch, self._secret.namespace)
            except (AlreadyExists, Conflict):
                continue  # another replica was quicker: what it made counts
            return new

    async def _tell(self, serving: Serving) -> None:
        await self._listening.wait()
        manifest = configuration(self._endpoint, self._scope, serving.authorities)
        resource = await self._client.resource("admissionregistration.k8s.io", manifest["kind"], "v1")
        owners = await self._owners(manifest["metadata"]["name"])
        owned = {**manifest, "metadata": {**manifest["metadata"], "ownerReferences": owners}}
        try:
            await self._client.apply(resource, owned if owners else manifest, manager=MANAGER, force=True)
        except Forbidden:
            if not owners:
                raise
            # OwnerReferencesPermissionEnforcement may refuse the owner; the webhooks work without it.
            await self._client.apply(resource, manifest, manager=MANAGER, force=True)
        self.registered.set()

    async def _owners(self, name: str) -> list[Manifest]:
        """Refer to the ClusterRole of the configuration's name, if there is one.

        The garbage collector deletes the configuration together with the ClusterRole. A configuration that outlives the
        operator makes the API server refuse every write of our kinds.
        """
        resource = await self._client.resource(*OWNER, "v1")
        try:
            found = await self._client.find_metadata(resource, name)
        except Forbidden:
            return []
        if found is None:
            return []
        uid = found["metadata"]["uid"]
        return [{"apiVersion": resource.api_version, "kind": resource.kind, "name": name, "uid": uid}]

    def _manifest(self, serving: Serving) -> Manifest:
        metadata = {"name": self._secret.name, "namespace": self._secret.namespace}
        data = serving.secret_data()
        return {"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "type": "kubernetes.io/tls", "data": data}
