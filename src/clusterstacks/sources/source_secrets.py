"""What the Secrets of a source hold. They are read whenever the source is asked, and nothing of them is ever shown."""

from __future__ import annotations

import base64
import binascii
from dataclasses import dataclass
from typing import TYPE_CHECKING

from clusterstacks.api.names import SOURCE_CREDENTIALS_LABEL
from clusterstacks.domain.errors import DependencyError

if TYPE_CHECKING:
    from clusterstacks.domain.objects import Manifest
    from clusterstacks.kube.client import Client

DOCKER_CONFIG = ".dockerconfigjson"

CREDENTIALS_TYPES = ("kubernetes.io/dockerconfigjson", "kubernetes.io/basic-auth")
"""Types whose purpose is to be sent to a server that asks who one is."""

OPAQUE = "Opaque"
"""The type of a Secret that names none; what it is for, only its label tells."""


class SecretUnusable(DependencyError):
    """A Secret is missing or does not hold what it should; a person must mend it, but nothing tells when."""

    def __init__(self, secret: str, problem: str) -> None:
        super().__init__("SecretUnusable", f"Secret {secret} {problem}")


@dataclass(frozen=True, slots=True)
class SecretReader:
    """Reads Secrets of the management cluster live."""

    client: Client

    async def values(self, namespace: str, name: str, *, purpose: str) -> dict[str, bytes]:
        """Read every value of a Secret.

        Args:
            namespace: The Secret's.
            name: The Secret's.
            purpose: The field that names it, for messages.

        Raises:
            SecretUnusable: There is none.
            DependencyError: The API server does not give it.
        """
        return _values(await self._find(namespace, name, purpose=purpose), f"{namespace}/{name}")

    async def credentials(self, namespace: str, name: str, *, purpose: str) -> dict[str, bytes]:
        """Read every value of a Secret that is going to be sent to somebody.

        Whoever may name it need not be allowed to read Secrets, so it must be one that is meant for that.

        Raises:
            SecretUnusable: There is none, or it is meant for something else.
            DependencyError: The API server does not give it.
        """
        secret = await self._find(namespace, name, purpose=purpose)
        _require_credentials(secret, namespace, name)
        return _values(secret, f"{namespace}/{name}")

    async def _find(self, namespace: str, name: str, *, purpose: str) -> Manifest:
        secret = await self.client.find(await self.client.resource("", "Secret"), name, namespace)
        if secret is None:
            raise SecretUnusable(f"{namespace}/{name}", f"does not exist, but {purpose} names it; create it")
        return secret

    async def value(self, namespace: str, name: str, key: str, *, purpose: str) -> bytes:
        """Read one value.

        Raises:
            SecretUnusable: There is none.
            DependencyError: The API server does not give it.
        """
        values = await self.values(namespace, name, purpose=purpose)
        if key not in values:
            raise SecretUnusable(f"{namespace}/{name}", f"has no key {key}, but {purpose} names it; add it")
        return values[key]


def _require_credentials(secret: Manifest, namespace: str, name: str) -> None:
    kind = secret.get("type") or OPAQUE
    labels = secret["metadata"].get("labels") or {}
    if kind in CREDENTIALS_TYPES or (kind == OPAQUE and labels.get(SOURCE_CREDENTIALS_LABEL) == "true"):
        return
    title = f"{namespace}/{name}"
    if kind == OPAQUE:
        command = f"kubectl -n {namespace} label secret {name} {SOURCE_CREDENTIALS_LABEL}=true"
        raise SecretUnusable(
            title, f"is not labelled as credentials of a source, so it is not sent to one; if it holds them: {command}"
        )
    types = ", ".join(CREDENTIALS_TYPES)
    raise SecretUnusable(
        title,
        f"is of type {kind}, which is not sent to a source; name one of type {types}, or {OPAQUE} with the label "
        f"{SOURCE_CREDENTIALS_LABEL}=true",
    )


def _values(secret: Manifest, title: str) -> dict[str, bytes]:
    try:
        return {key: base64.b64decode(value, validate=True) for key, value in (secret.get("data") or {}).items()}
    except (binascii.Error, TypeError):
        raise SecretUnusable(title, "holds a value that is no base64; write it again") from None
