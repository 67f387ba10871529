"""Opens the source of a ClusterStack, with the credentials and CAs in its Secrets."""

from __future__ import annotations

import base64
import binascii
from dataclasses import dataclass, field
from hashlib import sha256
from typing import TYPE_CHECKING

from clusterstacks.model.errors import DependencyError, SpecError
from clusterstacks.model.kinds.names import SOURCE_CREDENTIALS_LABEL
from clusterstacks.net.http.allowlist import AllowedHosts, host_of
from clusterstacks.net.http.client import HTTPClient
from clusterstacks.net.oci.credentials import ANONYMOUS, RegistryCredentials, from_docker_config
from clusterstacks.net.oci.reference import Reference
from clusterstacks.net.oci.transfers import silent
from clusterstacks.release.sources.directory import DirectorySource
from clusterstacks.release.sources.stack_source import NOTHING_ALLOWED

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from clusterstacks.model.objects import Manifest
    from clusterstacks.net.kube.client import Client
    from clusterstacks.release.release_source import ReleaseSource
    from clusterstacks.release.sources.spec import SourceAddress, SourceSettings

CREDENTIALS = "spec.source.credentials"
CA = "spec.source.ca"


@dataclass(frozen=True, slots=True)
class SourceAccess:
    """Credentials and trusted CAs (PEM; empty for the system's) of a source; never shown."""

    credentials: RegistryCredentials = ANONYMOUS
    ca: str = field(default="", repr=False)

    @property
    def digest(self) -> str:
        """A digest that identifies the credentials and CAs without containing them."""
        credentials = self.credentials
        parts = (credentials.username, credentials.password, credentials.token, credentials.identity, self.ca)
        return sha256("\0".join(sha256(part.encode()).hexdigest() for part in parts).encode()).hexdigest()


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceOpener:
    """Opens the operator's own source, and those that ClusterStacks name."""

    secrets: SecretReader
    release_dir: Path
    """The operator's release directory; no source reads the disk outside of it."""
    ca: str = field(default="", repr=False)
    """Trusted CAs (PEM) of the operator's own source; empty for the system's."""
    environ: Mapping[str, str] = field(repr=False)
    """The environment: credentials of the operator's own source, and proxies."""
    plain_http_credentials: AllowedHosts = NOTHING_ALLOWED
    """Sources that credentials of Secrets may be sent to without TLS."""

    async def access(self, settings: SourceSettings) -> SourceAccess:
        """Read the current credentials and CAs.

        Raises:
            SpecError: The credentials would be sent over plain HTTP.
            DependencyError: A Secret is missing, not meant for this purpose, or not valid.
        """
        if settings.own:
            return SourceAccess(await settings.address.kind.credentials(settings.address, self.environ), self.ca)
        credentials, ca = ANONYMOUS, ""
        if settings.credentials:
            self._require_private(settings)
            values = await self.secrets.credentials(settings.namespace, settings.credentials, purpose=CREDENTIALS)
            credentials = _credentials(values, settings)
        if settings.ca:
            pem = await self.secrets.value(settings.namespace, settings.ca, settings.ca_key, purpose=CA)
            ca = _text(pem, f"{settings.namespace}/{settings.ca}", settings.ca_key)
        return SourceAccess(credentials, ca)

    async def open(self, address: SourceAddress, access: SourceAccess) -> tuple[ReleaseSource, HTTPClient | None]:
        """Open a source and its HTTP client, which the caller closes; no request is sent yet."""
        if not address.kind.is_remote:
            return DirectorySource(self.release_dir, address.place), None
        web = HTTPClient(ca=access.ca, plain_http=address.is_plain, environ=self.environ)
        return address.kind.open(address, web, access.credentials, silent), web

    def _require_private(self, settings: SourceSettings) -> None:
        """Refuse to send a Secret over plain HTTP; the operator's own source does not come here."""
        url = settings.address.kind.allowlist_url(settings.address)
        if settings.address.is_plain and not self.plain_http_credentials.allows(url):
            raise SpecError(
                "CredentialsInClear",
                f"the credentials of Secret {settings.namespace}/{settings.credentials} are not sent to "
                f"{settings.address} over plain HTTP, where anyone on the network can read them; use TLS, remove the "
                "credentials, or ask the provider to start the operator with --plain-http-credentials "
                f"{host_of(url)}",
            )


def _credentials(values: Mapping[str, bytes], settings: SourceSettings) -> RegistryCredentials:
    secret = f"{settings.namespace}/{settings.credentials}"
    if DOCKER_CONFIG in values:
        if not settings.address.kind.is_registry:
            raise _secret_unusable(secret, "is for registries; use one with username and password, or with token")
        config = from_docker_config(
            values[DOCKER_CONFIG], Reference.parse(settings.address.place), file=f"Secret {secret}"
        )
        if config == ANONYMOUS:
            raise _secret_unusable(
                secret, f"contains no credentials for {settings.address.place}; add that registry to it"
            )
        return config
    if "token" in values:
        return RegistryCredentials(token=_text(values["token"], secret, "token").strip())
    if "username" in values or "password" in values:
        username, password = (_text(values.get(key, b""), secret, key) for key in ("username", "password"))
        return RegistryCredentials(username, password)
    raise _secret_unusable(secret, f"contains neither {DOCKER_CONFIG}, nor token, nor username and password; add one")


def _text(value: bytes, secret: str, key: str) -> str:
    try:
        return value.decode()
    except UnicodeDecodeError:
        raise _secret_unusable(secret, f"has a key {key} that is not UTF-8 text; write it again") from None


DOCKER_CONFIG = ".dockerconfigjson"

CREDENTIALS_TYPES = ("kubernetes.io/dockerconfigjson", "kubernetes.io/basic-auth")
"""Secret types that are meant to be sent to a server."""

OPAQUE = "Opaque"
"""The default type of a Secret; a label states its purpose."""


def _secret_unusable(secret: str, problem: str) -> DependencyError:
    """Return the error for a Secret that is missing or not valid; no event reports its correction."""
    return DependencyError("SecretUnusable", f"Secret {secret} {problem}")


@dataclass(frozen=True, slots=True)
class SecretReader:
    """Reads Secrets of the management cluster, without a cache."""

    client: Client

    async def values(self, namespace: str, name: str, *, purpose: str) -> dict[str, bytes]:
        """Read every value of a Secret; ``purpose`` is the field that names it, for messages.

        Raises:
            DependencyError: It does not exist.
        """
        return _values(await self._find(namespace, name, purpose=purpose), f"{namespace}/{name}")

    async def credentials(self, namespace: str, name: str, *, purpose: str) -> dict[str, bytes]:
        """Read every value of a Secret that is sent to a server.

        Users may name it without the right to read Secrets, so it must be meant for this purpose.

        Raises:
            DependencyError: It does not exist, or has another purpose.
        """
        secret = await self._find(namespace, name, purpose=purpose)
        _require_credentials(secret, namespace, name)
        return _values(secret, f"{namespace}/{name}")

    async def _find(self, namespace: str, name: str, *, purpose: str) -> Manifest:
        secret = await self.client.find(await self.client.resource("", "Secret"), name, namespace)
        if secret is None:
            raise _secret_unusable(f"{namespace}/{name}", f"does not exist, but {purpose} names it; create it")
        return secret

    async def value(self, namespace: str, name: str, key: str, *, purpose: str) -> bytes:
        """Read one value; raises :class:`DependencyError` if the Secret or the key does not exist."""
        values = await self.values(namespace, name, purpose=purpose)
        if key not in values:
            raise _secret_unusable(f"{namespace}/{name}", f"has no key {key}, but {purpose} names it; add it")
        return values[key]


def _require_credentials(secret: Manifest, namespace: str, name: str) -> None:
    kind = secret.get("type") or OPAQUE
    labels = secret["metadata"].get("labels") or {}
    if kind in CREDENTIALS_TYPES or (kind == OPAQUE and labels.get(SOURCE_CREDENTIALS_LABEL) == "true"):
        return
    title = f"{namespace}/{name}"
    if kind == OPAQUE:
        command = f"kubectl -n {namespace} label secret {name} {SOURCE_CREDENTIALS_LABEL}=true"
        raise _secret_unusable(
            title,
            f"is not labelled as credentials of a source, so it is not sent to one; if it contains them: {command}",
        )
    types = ", ".join(CREDENTIALS_TYPES)
    raise _secret_unusable(
        title,
        f"is of type {kind}, which is not sent to a source; name one of type {types}, or {OPAQUE} with the label "
        f"{SOURCE_CREDENTIALS_LABEL}=true",
    )


def _values(secret: Manifest, title: str) -> dict[str, bytes]:
    try:
        return {key: base64.b64decode(value, validate=True) for key, value in (secret.get("data") or {}).items()}
    except (binascii.Error, TypeError):
        raise _secret_unusable(title, "contains a value that is not base64; write it again") from None
