"""Creates and rotates the serving certificate of the webhooks, which all replicas share in a Secret.

Each certificate has a CA of its own whose key is discarded at once: no stored key can sign another certificate. The
Secret holds the CA certificates of all serving certificates that may still be in use, so that a new certificate is
trusted before a replica serves with it.
"""

from __future__ import annotations

import asyncio
import base64
import logging
import ssl
from dataclasses import dataclass, field
from datetime import timedelta
from typing import TYPE_CHECKING, Final

from clusterstacks.deliver.apply.applied_state import is_applied
from clusterstacks.model.documents import text
from clusterstacks.model.errors import ClusterStacksError
from clusterstacks.net.kube.errors import AlreadyExists, Conflict, Forbidden
from clusterstacks.net.kube.pki import Authority, answers_to, single_certificates, validity
from clusterstacks.net.tls import check_pair, serve_with
from clusterstacks.operator.webhooks.configuration import CONFIGURATION, OWNER, Endpoint, WebhookScope, configuration

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from clusterstacks.model.objects import Manifest, ObjectKey
    from clusterstacks.net.kube.client import Client
    from clusterstacks.net.kube.resources import Resource
    from clusterstacks.runtime.clock import Clock

AUTHORITIES: Final = "ca.crt"
CERTIFICATE: Final = "tls.crt"
KEY: Final = "tls.key"
"""Keys of the Secret; the latter two are those of type ``kubernetes.io/tls``."""

RENEWAL: Final = 1 / 3
"""Remaining share of its lifetime at which a certificate is renewed; as cert-manager."""


@dataclass(frozen=True, slots=True)
class Times:
    """Durations of the rotation."""

    lifetime: timedelta = timedelta(days=90)
    """Lifetime of a certificate, as is common for certificates with automatic renewal."""
    look: timedelta = timedelta(seconds=60)
    """Interval between two reads of the Secret."""
    settle: timedelta = timedelta(seconds=90)
    """Time between the registration of a new CA and the first use of its certificate. Longer than ``look``, so that a
    replica that knows only the old CA cannot overwrite the registration."""


@dataclass(frozen=True, slots=True)
class Serving:
    """The content of the Secret, all PEM."""

    authorities: bytes
    """CA certificates to trust, the newest first."""
    certificate: bytes
    key: bytes = field(repr=False)

    def is_due(self, names: Sequence[str], lifetime: timedelta, now: datetime) -> bool:
        """Return whether another certificate is needed, because this one ends soon or lacks one of the host names.

        ``lifetime`` does not include the time before its creation for which a certificate is valid, for clocks that are
        behind.
        """
        return not answers_to(self.certificate, names) or now >= validity(self.certificate).until - lifetime * RENEWAL

    def secret_data(self) -> dict[str, str]:
        """Return the ``data`` of the Secret, in base64."""
        content = {AUTHORITIES: self.authorities, CERTIFICATE: self.certificate, KEY: self.key}
        return {name: base64.b64encode(value).decode() for name, value in content.items()}


def create_serving(names: Sequence[str], lifetime: timedelta, now: datetime, before: Serving | None = None) -> Serving:
    """Create a certificate for host names and addresses; the CA of ``before`` stays trusted until it expires."""
    authority = Authority.create("cluster-stack-operator webhooks", lifetime)
    hosts = [name for name in names if not _is_address(name)]
    addresses = [name for name in names if _is_address(name)]
    pair = authority.issue(names[0], hosts=hosts, addresses=addresses, lifetime=lifetime)
    older = single_certificates(before.authorities) if before is not None else []
    trusted = [authority.certificate, *(ca for ca in older if validity(ca).until > now)]
    return Serving(b"".join(trusted), pair.certificate, pair.key)


def read_secret(secret: Manifest) -> Serving | None:
    """Read the Secret; None when it holds no usable certificate."""
    try:
        authorities, certificate, key = (
            base64.b64decode(text(secret, "data", name), validate=True) for name in (AUTHORITIES, CERTIFICATE, KEY)
        )
        serving = Serving(authorities, certificate, key)
        single_certificates(authorities)
        validity(certificate)
        check_pair(certificate, key)
    except (ValueError, ssl.SSLError):
        return None
    return serving


def _is_address(name: str) -> bool:
    return ":" in name or name.replace(".", "").isdigit()


MANAGER: Final = "cluster-stack-operator"

log = logging.getLogger(__name__)


class CertificateRotator:
    """Rotates the certificate of one process and registers the webhooks at the API server.

    ``context`` is the TLS context of the server. The webhooks are not registered before ``listening`` is set, i.e. the
    server can be called.
    """

    def __init__(  # noqa: PLR0913 - it joins Secret, configuration and server
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
        """Return when the certificate in use expires (Unix time); 0 before the first one."""
        return validity(self._serving.certificate).until.timestamp() if self._serving else 0.0

    async def run(self) -> None:
        """Rotate until cancelled.

        ``served`` is set once the server has a certificate, ``registered`` once the API server knows the webhooks.
        """
        while True:
            try:
                await self.look()
            except ClusterStacksError as error:
                log.warning("The certificate of the webhooks cannot be checked: %s; trying again", error)
            await self._clock.sleep(self._pause())

    async def look(self) -> None:
        """Check once: renew a certificate that is due, register its CA, and use it once the CA is known everywhere."""
        current = await self._current()
        if self._serving is None:
            # This process is not called yet, and the others use this very certificate or one trusted with it.
            serve_with(self._context, current.certificate, current.key)
            self._serving = current
            self.served.set()
        await self._register(current)
        if current == self._serving:
            self._waiting = None
        elif current != self._waiting:
            self._waiting = current
            self._serve_at = self._clock.monotonic() + self._times.settle.total_seconds()
        elif self._clock.monotonic() >= self._serve_at:
            serve_with(self._context, current.certificate, current.key)
            self._serving, self._waiting = current, None
            log.info("The webhooks are served with a new certificate")

    def _pause(self) -> float:
        """Return the seconds until the next check; sooner while a new certificate waits for its first use."""
        look = self._times.look.total_seconds()
        if self._waiting is None:
            return look
        return min(look, max(self._serve_at - self._clock.monotonic(), 0.0))

    async def _current(self) -> Serving:
        """Return the content of the Secret, created or renewed when that is due."""
        resource = await self._client.resource("", "Secret", "v1")
        while True:
            secret = await self._client.find(resource, self._secret.name, self._secret.namespace)
            stored = read_secret(secret) if secret is not None else None
            if stored is not None and not stored.is_due(self._endpoint.names, self._times.lifetime, self._clock.now()):
                return stored
            new = create_serving(self._endpoint.names, self._times.lifetime, self._clock.now(), stored)
            try:
                if secret is None:
                    await self._client.create(resource, self._manifest(new))
                else:
                    patch = {"metadata": {"resourceVersion": secret["metadata"]["resourceVersion"]}}
                    patch |= {"data": new.secret_data()}
                    await self._client.merge_patch(resource, self._secret.name, patch, self._secret.namespace)
            except (AlreadyExists, Conflict):
                continue  # another replica was quicker: its certificate counts
            return new

    async def _register(self, serving: Serving) -> None:
        await self._listening.wait()
        manifest = configuration(self._endpoint, self._scope, serving.authorities)
        resource = await self._client.resource(*CONFIGURATION, "v1")
        owners = await self._owners(manifest["metadata"]["name"])
        owned = {**manifest, "metadata": {**manifest["metadata"], "ownerReferences": owners}}
        if await self._is_registered(resource, [owned, manifest] if owners else [manifest]):
            self.registered.set()
            return
        try:
            await self._client.apply(resource, owned if owners else manifest, manager=MANAGER, force=True)
        except Forbidden:
            if not owners:
                raise
            # OwnerReferencesPermissionEnforcement may refuse the owner; the webhooks work without it.
            await self._client.apply(resource, manifest, manager=MANAGER, force=True)
        self.registered.set()

    async def _is_registered(self, resource: Resource, manifests: Sequence[Manifest]) -> bool:
        """Return whether the configuration is as one of these; False if it cannot be read.

        It is listed by its name, because the operator has this right in any case, to find leftovers.
        """
        name = manifests[0]["metadata"]["name"]
        try:
            found = await self._client.list(resource, fields=f"metadata.name={name}")
        except Forbidden:
            return False
        return any(is_applied(manifest, live) for manifest in manifests for live in found.items)

    async def _owners(self, name: str) -> list[Manifest]:
        """Return a reference to the ClusterRole with the configuration's name, if there is one.

        So garbage collection deletes the configuration with the ClusterRole: without an operator, it would make the API
        server refuse every write of our kinds.
        """
        resource = await self._client.resource(*OWNER, "v1")
        try:
            role = await self._client.find_metadata(resource, name)
        except Forbidden:
            return []
        if role is None:
            return []
        uid = role["metadata"]["uid"]
        return [{"apiVersion": resource.api_version, "kind": resource.kind, "name": name, "uid": uid}]

    def _manifest(self, serving: Serving) -> Manifest:
        metadata = {"name": self._secret.name, "namespace": self._secret.namespace}
        data = serving.secret_data()
        return {"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "type": "kubernetes.io/tls", "data": data}
